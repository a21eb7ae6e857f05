# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A static pod on a host: its files, its readiness, the manifest that worked before, and its end. No program of the host is run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts import static_pod as installation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common import static_pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.static_pod import StaticPod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import Answer, HostError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.static_pod import HEADER, MARK, StaticPodHost

from tests.static_pods import issued_kubeconfig

GOOD, BAD = Answer(200, "", ""), Answer(503, "", "HTTP Error 503: no cache")
ERROR = 'pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \\"StartContainer\\" with ErrImageNeverPull" pod="x"\n'


class Place:
    """The folders of a host, and a kubelet that runs the pod of the manifest."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.manifests, self.folder = folder / "manifests", folder / "rescuer"
        self.manifests.mkdir()
        self.manifest = self.manifests / "rescuer.yaml"
        self.made, self.listeners, self.answer = issued_kubeconfig(), "", GOOD
        self.works, self.images, self.left = True, ["", "1", "2"], 0
        self.asked: list[str] = []
        monkeypatch.setattr(StaticPod, "processes", lambda _pod: {pid: Path("/proc", str(pid)) for pid in self.processes()})
        monkeypatch.setattr(installation, "values_of", lambda process, _name: self.processes()[int(process.name)])
        monkeypatch.setattr(static_pod, "LOGS", str(folder / "logs"))
        monkeypatch.setattr(time, "sleep", lambda _s: None)

    def processes(self) -> dict[int, list[str]]:
        if not self.manifest.exists():
            self.left -= 1
            return {7: []} if self.left >= 0 else {}
        containers = json.loads(self.manifest.read_text().removeprefix(HEADER))["spec"]["containers"]
        marks = [{one["name"]: one["value"] for one in container["env"]}[MARK] for container in containers]
        return {7 + n: ["PATH=/", f"{MARK}={mark}"] for n, mark in enumerate(marks) if containers[n]["image"] in self.images}

    def run(self, words: Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        program = words[0]
        assert program != "kubeadm" or (data == "CLUSTER" and list(words[1:]) == ["kubeconfig", "user", *words[3:4], "--config=/dev/stdin"])
        return {
            "kubeadm": (0, self.made, "a warning"),
            "ss": (0, self.listeners, ""),
            "journalctl": (0, ERROR, ""),
        }.get(program, (127, "", f"{program}: not found"))

    def ask(self, url: str) -> Answer:
        self.asked.append(url)
        return self.answer

    def host(self, *, dry: bool = False, numbers: Sequence[int] = (1,), image: str = "1", **given: Any) -> StaticPodHost:
        containers = [{"name": f"extender-{n}", "image": image, "ports": [{"containerPort": 9250 + n}]} for n in numbers]
        wanted = {
            "host": "cp-1",
            "name": "pod",
            "folder": str(self.folder),
            "manifest_path": str(self.manifest),
            "pod": {"metadata": {"name": "pod"}, "spec": {"containers": containers}},
            "uid": os.getuid(),
            "settings": {"config.yml": "a: 1\n"},
            "user": "rescuer",
            "renew_days": 30,
            "kubeadm": "kubeadm",
            "kubeadm_config": "",
            "cluster": "CLUSTER",
            "port": 9251,
            "wait_timeout": 4,
            "with_earlier": False,
            "nodes": [],
            "leftovers": [],
        }
        return StaticPodHost(SimpleNamespace(**{**wanted, **given}), self.run, self.ask, Changes(dry))

    def present(self, **given: Any) -> bool:
        host = self.host(**given)
        host.present()
        return host.changes.changed

    def refused(self, **given: Any) -> str:
        with pytest.raises(HostError) as error:
            self.host(**given).present()
        return str(error.value)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder.parent)) for path in self.folder.parent.rglob("*") if path.is_file())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_files_are_planned_made_and_kept(place: Place) -> None:
    assert place.present(dry=True) and place.names() == []
    assert place.present() and place.names() == ["manifests/rescuer.yaml", "rescuer/config.yml", "rescuer/kubeconfig"]
    assert place.asked == ["http://127.0.0.1:9251/readyz"]
    assert {oct(path.stat().st_mode)[-4:] for path in place.folder.iterdir()} == {"0600"} and oct(place.folder.stat().st_mode)[
        -4:
    ] == "0700"
    assert not place.present() and not place.present(dry=True)
    (place.folder / "kubeconfig").chmod(0o644)
    place.folder.chmod(0o755)
    host = place.host()
    host.present()
    assert host.changes.changed and not place.present() and "S2V5" not in str(host.changes.diffs)


@pytest.mark.parametrize(
    ("made", "used"),
    [
        (issued_kubeconfig(), issued_kubeconfig(days=29)),
        (issued_kubeconfig(), issued_kubeconfig(user="another")),
        (issued_kubeconfig(server="https://10.0.0.2:6443"), issued_kubeconfig()),
        (issued_kubeconfig(authority="Qg=="), issued_kubeconfig()),
        (issued_kubeconfig(), "not a kubeconfig"),
    ],
)
def test_a_kubeconfig_that_differs_or_ends_is_made_again_and_replaces_the_pod(place: Place, made: str, used: str) -> None:
    place.made = used
    place.present()
    before, place.made = place.manifest.read_text(), made
    assert place.present() and (place.folder / "kubeconfig").read_text() == made and place.manifest.read_text() != before
    assert not place.present()


def test_a_host_without_kubeadm_is_named_and_nothing_is_written(place: Place) -> None:
    assert place.refused(kubeadm="/nowhere/kubeadm").startswith("cp-1: /nowhere/kubeadm kubeconfig user made no kubeconfig: ")
    assert place.names() == []


def test_only_a_kubeconfig_is_made_without_a_pod(place: Place) -> None:
    assert place.present(pod={}, manifest_path="", settings={}) and place.names() == ["rescuer/kubeconfig"]


def test_a_manifest_that_does_not_work_is_replaced_by_the_one_before(place: Place) -> None:
    message = place.refused(image="broken")
    assert message.startswith(
        f"cp-1: the static pod pod is not ready after 4 s: no process of {place.manifest} runs. The kubelet says: failed to"
    )
    assert '"StartContainer" with ErrImageNeverPull. There was none before, so its manifest is removed.' in message
    assert place.names() == ["rescuer/config.yml", "rescuer/kubeconfig"]

    place.present()
    worked = place.manifest.read_text()
    assert "The manifest that worked before is restored." in place.refused(image="broken") and place.manifest.read_text() == worked
    place.answer = BAD
    assert "http://127.0.0.1:9251/readyz: Status code was 503 and not [200]: HTTP Error 503" in place.refused(image="2")
    assert place.manifest.read_text() == worked and "Its manifest has not changed." in place.refused()
    assert place.names() == ["manifests/rescuer.yaml", "rescuer/config.yml", "rescuer/kubeconfig"]


def test_after_an_interruption_the_manifest_that_worked_is_still_known(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.present()
    worked = place.manifest.read_text()
    with monkeypatch.context() as patch:

        def end(*_arguments: Any, **_options: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(installation, "wait_until", end)
        with pytest.raises(KeyboardInterrupt):
            place.host(image="broken").present()
    assert place.manifest.read_text() != worked
    place.refused(image="broken too")
    assert place.manifest.read_text() == worked


def test_zero_seconds_do_not_wait(place: Place) -> None:
    assert place.present(image="broken", wait_timeout=0) and place.asked == []
    assert place.names() == ["manifests/rescuer.yaml", "rescuer/config.yml", "rescuer/kubeconfig"]


def test_earlier_containers_and_their_settings_stay_until_the_final_manifest(place: Place) -> None:
    def extenders(mark: str, *numbers: int) -> dict[str, str]:
        return {f"extender-{n}-{mark * 12}.yaml": mark for n in numbers}

    def change(**given: Any) -> bool:
        return place.present(numbers=[1], settings=extenders("b", 1), **given)

    (place.folder).mkdir()
    (place.folder / "token").touch()
    containers = [{"name": f"extender-{n}", "image": "1", "args": [f"extender-{n}-{'a' * 12}.yaml"], "ports": []} for n in (1, 2)]
    place.present(pod={"metadata": {}, "spec": {"containers": containers}}, settings=extenders("a", 1, 2))
    assert change(with_earlier=True) and not change(with_earlier=True)
    names = [path.name for path in sorted(place.folder.iterdir())]
    assert names == ["extender-1-bbbbbbbbbbbb.yaml", "extender-2-aaaaaaaaaaaa.yaml", "kubeconfig", "token"]
    assert change() and not change() and not change(with_earlier=True)
    assert [path.name for path in sorted(place.folder.iterdir())] == ["extender-1-bbbbbbbbbbbb.yaml", "kubeconfig", "token"]


def test_files_are_removed_after_the_end_of_the_pod_and_those_of_others_stay(place: Place) -> None:
    place.present()
    backup = place.folder.parent / "backup"
    backup.mkdir()
    for path in (
        backup / "original.yaml",
        place.folder / "token",
        place.folder / ".kubeconfig-aB3",
        place.manifests / ".rescuer.yaml.previous",
    ):
        path.touch()
    given = {"wait_timeout": 3, "leftovers": [f"{backup}/*.yaml", str(backup), str(place.folder.parent / "manifests")]}
    planned = place.host(dry=True, **given)
    planned.absent()
    assert planned.changes.changed and place.manifest.exists()

    place.left = 9
    with pytest.raises(HostError, match=r"is removed, and the static pod pod still runs after 3 s \(PID 7\)\. Its files stay"):
        place.host(**given).absent()
    assert not place.manifest.exists() and (place.folder / "kubeconfig").exists()
    place.left = 2
    host = place.host(**given)
    host.absent()
    assert host.changes.changed and place.names() == ["rescuer/token"] and not backup.exists() and not place.manifests.exists()
    again = place.host(**given)
    again.absent()
    assert not again.changes.changed


def test_a_pod_that_names_a_host_of_another_cluster_changes_nothing_there(place: Place) -> None:
    place.present()
    uid = "0123456789abcdef" * 2
    (place.folder.parent / "logs" / f"kube-system_pod-b-1_{uid}").mkdir(parents=True)
    foreign, own = (place.host(nodes=[node, ""]) for node in ("a-1", "b-1"))
    foreign.absent()
    assert not foreign.changes.changed and not foreign.verified()["is_there"] and own.verified()["is_there"]
    own.absent()
    assert own.changes.changed and not place.manifest.exists()


def test_a_failed_kubeadm_shows_no_key(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "run", lambda _words, data: (1, place.made, ""))
    assert place.refused().endswith("kubeconfig user made no kubeconfig: it has the exit code 1")


def test_what_is_missing_is_named(place: Place) -> None:
    found = place.host().verified()
    assert found["problems"] == [
        "cp-1: the static pod pod is not installed: run the playbook onprem.kube_scheduling.site",
        "cp-1: the client certificate of the static pod pod is missing: run the playbook onprem.kube_scheduling.site, which makes it",
    ]
    assert not found["is_there"]
    place.present()
    good = place.host().verified()
    assert good["problems"] == [] and good["remarks"] == ["cp-1: the client certificate of the static pod pod expires in 364 days"]
    assert good["is_there"]
    differs = "cp-1: the static pod pod is not as the variables say: run the playbook onprem.kube_scheduling.site"
    assert place.host(image="2").verified()["problems"] == [differs]
    assert place.host(settings={"config.yml": "a: 2\n"}).verified()["problems"] == [differs]
    place.answer = BAD
    (problem,) = place.host().verified()["problems"]
    assert problem.startswith("cp-1: the static pod pod is not ready: http://127.0.0.1:9251/readyz: Status code was 503")
    place.made, place.answer = issued_kubeconfig(days=-1), GOOD
    place.present(user="another")
    (problem,) = place.host().verified()["problems"]
    assert "the client certificate of the static pod pod has expired: " in problem


@pytest.mark.parametrize(
    ("listeners", "is_refused"),
    [
        ("", False),
        ('LISTEN 0 5 127.0.0.1:9251 0.0.0.0:* users:(("python3",pid=7,fd=3))\n', False),
        ('LISTEN 0 5 127.0.0.1:9251 0.0.0.0:* users:(("nginx",pid=77,fd=3))\n', True),
        ('LISTEN 0 5 *:9251 *:* users:(("nginx",pid=77,fd=3))\n', True),
        ('LISTEN 0 5 10.0.0.7:9251 0.0.0.0:* users:(("nginx",pid=77,fd=3))\n', False),
        ("LISTEN 0 64 [::]:9251 [::]:*\n", True),
    ],
)
def test_a_port_of_another_program_is_refused(place: Place, listeners: str, is_refused: bool) -> None:
    place.present()
    place.listeners = listeners
    refused = ["cp-1: another program uses port 9251, which the static pod needs: set critical_rescuer_port to a free port"]
    assert place.host().checked()["problems"] == (refused if is_refused else [])


def test_a_folder_with_files_of_others_is_refused(place: Place) -> None:
    place.folder.mkdir()
    for name in ("admin.conf", "kubeconfig", ".kubeconfig-aB3", ".kubeconfig.x8_", "config.yml", "config-0123456789ab.yml"):
        (place.folder / name).touch()
    (problem,) = place.host().checked()["problems"]
    assert problem.startswith(f"cp-1: critical_rescuer_static_folder is {place.folder}, which has other files (admin.conf): set it to")
