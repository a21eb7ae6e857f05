# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-scheduler of a control-plane host is changed, restored and continued. The kubelet is a stand-in that reads the manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from ansible_collections.onprem.kube_scheduling.plugins.filter.kubeadm_schedulers import kubeadm_schedulers
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts import kubeadm_scheduler
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common import static_pod, system
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.static_pod import StaticPod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import Answer, HostError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.kubeadm_scheduler import KubeScheduler

from tests.unit.scheduler_config.kubeadm_texts import MANIFEST

PROFILES = [{"schedulerName": "network-traffic"}]
START_S = 5
OTHER = [{"schedulerName": "quiet"}]
RESTORED = "The earlier manifest is restored, and the scheduler is healthy again. The hosts after it were not changed"


class ControlPlane:
    """The files of a host, and a kubelet that has one process of the pod of the manifest, if the scheduler accepts its configuration."""

    def __init__(self, folder: Path) -> None:
        self.manifest = folder / "manifests" / "kube-scheduler.yaml"
        self.manifest.parent.mkdir()
        self.manifest.write_text(MANIFEST)
        self.manifest.chmod(0o600)
        self.folder = folder / "role"
        self.refused = ""  # the text of a configuration that the scheduler refuses
        self.logs = folder / "logs"
        self.status = 200
        self.started, self.age_s = MANIFEST, START_S
        self.ended: list[int] = []
        self.when_read: Callable[[], None] = lambda: None

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def read(self) -> dict[str, Any]:
        return self.scheduler({}).read()

    def plan(self, profiles: Sequence[Any] = PROFILES) -> dict[str, Any]:
        """Return the plan of a run that begins now."""
        wish = {"folder": f"{self.folder}/scheduler", "manifest_path": "/m.yaml", "kubernetes_version": "1.36.3"}
        found = kubeadm_schedulers({"cp-1": self.read()}, profiles=profiles, **wish)
        assert found["errors"] == []
        plan: dict[str, Any] = found["hosts"]["cp-1"]
        return plan

    def scheduler(self, plan: dict[str, Any] | None = None, *, dry: bool = False, reason: str = "") -> KubeScheduler:
        wanted = {
            "host": "cp-1",
            "manifest_path": str(self.manifest),
            "folder": str(self.folder),
            "plan": self.plan() if plan is None else plan,
            "ports": [],
            "names": [],
            "extender_manifest_path": None,
            "reason": reason,
            "timeout": 9,
        }
        return KubeScheduler(SimpleNamespace(**wanted), self.run, lambda url: Answer(self.status, "", "refused"), Changes(dry))

    def run(self, words: Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        assert words[0] == "ss", "no program of another process is run"
        return 0, "", ""

    def processes(self, *commands: Sequence[str]) -> list[int]:
        """Return the processes that StaticPod finds. The number of the process is another one after each end."""
        self.when_read()
        text = self.manifest.read_text()
        self.started, self.age_s = text, (self.age_s + 1 if text == self.started else 0)
        if self.age_s < START_S:
            return []
        words = [line.strip().removeprefix("- ") for line in self.manifest.read_text().splitlines() if line.startswith("    - ")]
        of_pod = [command for command in commands if set(command) <= set(words)]
        file = next((word.partition("=")[2] for word in words if word.startswith("--config=")), "")
        runs = not file or (Path(file).is_file() and Path(file).read_text() != self.refused)
        if not runs and Path(file).is_file():
            log = self.logs / f"kube-system_kube-scheduler-node-1_{'a' * 32}" / "kube-scheduler" / "1.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text('2026-11-30T11:00:00Z stderr F E1130 "command failed" err="no kind \\"X\\""\n')
        return [100 + len(self.ended)] if of_pod and runs else []


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    found = ControlPlane(tmp_path)
    monkeypatch.setattr(static_pod, "LOGS", str(found.logs))
    kubelet = tmp_path / "kubelet.pem"
    monkeypatch.setattr(kubeadm_scheduler, "KUBELET", str(kubelet))
    kubelet.write_bytes(trustme.CA().issue_cert("localhost", common_name="system:node:node-1").private_key_and_cert_chain_pem.bytes())
    monkeypatch.setattr(StaticPod, "with_command", lambda _pod, *commands: found.processes(*commands))
    monkeypatch.setattr(system.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(kubeadm_scheduler.os, "kill", lambda pid, _signal: found.ended.append(pid))
    return found


def failure(scheduler: KubeScheduler) -> str:
    with pytest.raises(HostError) as error:
        scheduler.present()
    return str(error.value)


def restored(host: ControlPlane, plan: dict[str, Any]) -> str:
    with pytest.raises(HostError) as error:
        host.scheduler(plan, reason="Nobody holds the Lease.").restored()
    return str(error.value)


def test_the_files_are_written_and_kept_until_the_controller_has_checked_the_scheduler(host: ControlPlane) -> None:
    plan = host.plan()
    run = host.scheduler(plan)
    run.present()
    name = Path(plan["file"]).name
    assert host.files() == ["backup/original.yaml", "backup/previous.yaml", f"scheduler/{name}"]
    assert host.manifest.read_text() == plan["manifest"] and host.manifest.stat().st_mode & 0o777 == 0o600
    assert Path(plan["file"]).read_text() == plan["config"] and Path(plan["file"]).stat().st_mode & 0o777 == 0o644
    assert Path(host.folder, "backup").stat().st_mode & 0o777 == 0o700
    run.kept()
    assert host.files() == ["backup/original.yaml", f"scheduler/{name}"] and not host.plan()["changes"]
    assert run.changes.changed and list(host.manifest.parent.iterdir()) == [host.manifest]


def test_check_mode_shows_the_manifest_and_changes_nothing(host: ControlPlane) -> None:
    plan = host.plan()
    run = host.scheduler(plan, dry=True)
    run.present()
    run.tidied()
    assert run.changes.changed and run.changes.diffs[-1]["after"] == plan["manifest"]
    assert host.manifest.read_text() == MANIFEST and host.files() == []


def test_a_scheduler_that_refuses_its_configuration_gets_the_earlier_manifest_with_the_reason(host: ControlPlane) -> None:
    plan = host.plan()
    host.refused = plan["config"]
    expected = (
        f'cp-1: Pod kube-system/kube-scheduler-node-1 does not start: its container ends after each start. Its log: no kind "X". {RESTORED}'
    )
    assert failure(host.scheduler(plan)) == expected
    assert host.manifest.read_text() == MANIFEST and "backup/previous.yaml" not in host.files()


def test_a_scheduler_that_does_not_answer_gets_the_earlier_manifest(host: ControlPlane) -> None:
    first = host.scheduler()
    first.present()
    first.kept()
    before = host.manifest.read_text()
    plan = host.plan(OTHER)
    host.status = 500
    message = failure(host.scheduler(plan))
    assert "does not answer at https://127.0.0.1:10259/healthz after 9 s (Status code was 500 and not [200]: refused)" in message
    assert "The earlier manifest is restored, and then: Pod kube-system/kube-scheduler-node-1 does not answer" in message
    # It is not known whether it works, so the next run continues.
    assert host.manifest.read_text() == before and host.plan()["is_interrupted"]


@pytest.mark.parametrize("error", [HostError("The module was ended by SIGTERM"), KeyError("words"), OSError("No space left on device")])
def test_each_error_and_a_signal_restore_the_manifest(host: ControlPlane, error: Exception) -> None:
    run = host.scheduler()

    def end() -> None:
        host.when_read = lambda: None
        raise error

    host.when_read = end
    assert failure(run).endswith(RESTORED) and host.manifest.read_text() == MANIFEST


def test_a_run_that_was_killed_is_continued_and_restores_the_last_healthy_manifest(host: ControlPlane) -> None:
    plan = host.plan()

    def killed() -> None:
        raise SystemExit

    host.when_read = killed
    run = host.scheduler(plan)
    with pytest.raises(SystemExit):
        run._write()
        run._wait(plan["words"])
    host.when_read = lambda: None
    again = host.plan(OTHER)
    assert again["is_interrupted"] and again["previous"] == MANIFEST and host.manifest.read_text() == plan["manifest"]
    host.refused = again["config"]
    assert failure(host.scheduler(again)).endswith(RESTORED) and host.manifest.read_text() == MANIFEST


def test_a_copy_that_was_not_completed_is_no_kept_manifest(host: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_descriptor: int) -> None:
        raise OSError("the power is lost")

    run = host.scheduler()
    monkeypatch.setattr(os, "fsync", lost)
    with pytest.raises(OSError, match="the power is lost"):
        run._write()
    assert host.files() == [] and host.manifest.read_text() == MANIFEST


def test_the_manifest_of_another_program_stays(host: ControlPlane) -> None:
    run = host.scheduler()
    host.manifest.write_text(MANIFEST + "# kubeadm upgrade\n")
    message = failure(run)
    assert f"cp-1: Another program has changed {host.manifest} meanwhile: run the playbook again. Its manifest was not changed" in message
    assert host.manifest.read_text().endswith("# kubeadm upgrade\n") and not run.previous.exists()
    host.manifest.write_text(MANIFEST)
    later = host.scheduler()
    later.present()
    host.manifest.write_text(MANIFEST + "# kubeadm upgrade\n")
    assert "Another program has changed its manifest, which stays as it is" in restored(host, later.plan)
    assert host.manifest.read_text().endswith("# kubeadm upgrade\n") and not later.previous.exists()


def test_a_failure_of_the_controller_restores_the_manifest(host: ControlPlane) -> None:
    run = host.scheduler()
    run.present()
    assert restored(host, run.plan) == f"cp-1: Nobody holds the Lease. {RESTORED}"
    assert host.manifest.read_text() == MANIFEST and not run.previous.exists()


def test_a_control_plane_that_has_joined_gets_its_configuration(host: ControlPlane) -> None:
    """kubeadm has written the manifest from the ClusterConfiguration, and there is no folder."""
    host.manifest.write_text(host.plan()["manifest"])
    plan = host.plan()
    run = host.scheduler(plan)
    assert run.checked() == {"problems": []}
    run.present()
    run.kept()
    assert host.files() == [f"scheduler/{Path(plan['file']).name}"] and host.ended == [] and not host.plan()["changes"]


def test_an_edited_configuration_is_written_again_and_its_scheduler_is_restarted(host: ControlPlane) -> None:
    plan = host.plan()
    host.scheduler(plan).present()
    host.scheduler().kept()
    Path(plan["file"]).write_text(plan["config"] + "# by hand\n")
    run = host.scheduler()
    run.present()
    assert Path(plan["file"]).read_text() == plan["config"] and host.ended == [100] and not host.plan()["changes"]
    assert not run.previous.exists()


def test_a_removal_restores_each_byte_and_only_own_files_are_tidied(host: ControlPlane) -> None:
    host.scheduler().present()
    host.scheduler().kept()
    removal = host.scheduler(host.plan([]))
    removal.present()
    removal.kept()
    assert host.manifest.read_text() == MANIFEST
    (host.folder / "scheduler" / "token").touch()
    removal.tidied()
    assert host.files() == ["backup/original.yaml", "scheduler/token"]


def test_the_texts_of_a_host_and_its_node_are_read_without_the_private_key(host: ControlPlane) -> None:
    found = host.read()
    assert found["node"] == "node-1" and "PRIVATE" not in str(found) and found["problems"] == []
    assert found["manifest"] == MANIFEST and found["config"] == found["previous"] == ""
    Path(kubeadm_scheduler.KUBELET).write_text("")
    (problem,) = host.read()["problems"]
    assert problem.startswith("cp-1: the name of its Node is not known, because ")


def test_a_failure_before_the_change_restores_the_manifest_of_an_interrupted_run(
    host: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.scheduler().present()  # and no state kept follows
    assert host.manifest.read_text() != MANIFEST
    run = host.scheduler(host.plan(profiles=[{"schedulerName": "other"}]))

    def fail() -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(run, "_write", fail)
    assert "No space left on device. The earlier manifest is restored, and the scheduler is healthy again" in failure(run)
    assert host.manifest.read_text() == MANIFEST


def test_a_host_without_a_manifest_is_named(host: ControlPlane) -> None:
    host.manifest.unlink()
    (problem,) = host.read()["problems"]
    assert (
        problem.startswith(f"cp-1: {host.manifest} cannot be read ([Errno 2] No such file")
        and "set extended_scheduler_manifest_path" in problem
    )


def test_the_metadata_of_other_manifests_with_the_name_are_read(host: ControlPlane) -> None:
    folder = host.manifest.parent
    metadata = "metadata:\n  name: kube-scheduler\n\n  # its own\n  namespace: kube-system\n"
    (folder / "copy.bak").write_text(f"apiVersion: v1\n{metadata}spec:\n  password: x\n")
    (folder / "copy.json").write_text('{"kind": "Pod", "metadata": {"name": "kube-scheduler"}, "spec": {}}')
    (folder / ".hidden.yaml").write_text(metadata)
    (folder / "other.yaml").write_text("metadata:\n  name: own\nspec:\n  containers:\n  - name: kube-scheduler\n")
    (folder / "folder").mkdir()
    assert host.read()["others"] == {
        str(folder / "copy.bak"): metadata,
        str(folder / "copy.json"): '{"metadata": {"name": "kube-scheduler"}}',
    }
