# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""scheduler_profile on a file of the host, with the real kube-scheduler as its validation."""

from __future__ import annotations

import base64
import stat
import threading
from pathlib import Path

import pytest

from lab import binaries
from tests.integration.scheduler_config.profile_tasks import Task, run_tasks
from tests.integration.scheduler_config.scheduler_program import ask_file, existing_files
from tests.unit.scheduler_config.configurations import EXTENDER, Json, plugins

TEXT = """\
# The scheduler of this cluster.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: "{kubeconfig}"   # its own user
"""


@pytest.fixture(scope="module")
def program() -> str:
    """The path of kube-scheduler."""
    return str(binaries.ensure() / "kube-scheduler")


@pytest.fixture
def validation(program: str) -> Json:
    """The option for the validation by the real program."""
    return {"validate": f"{program} --config %s --write-config-to /dev/null --secure-port 0"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An existing configuration without profiles."""
    path = tmp_path / "config.yaml"
    path.write_text(TEXT.format(kubeconfig=existing_files(tmp_path)["kubeconfig"]))
    path.chmod(0o640)
    return path


def test_a_profile_is_added_changed_and_removed(file: Path, validation: Json, program: str, tmp_path: Path) -> None:
    path, before = str(file), file.read_text()
    added = Task(path=path, name="network-traffic", extenders=[EXTENDER], **validation)
    changed = Task(path=path, name="network-traffic", plugins=plugins("score", disabled=("ImageLocality",)), backup=True, **validation)
    absent: Json = {"path": path, "state": "absent", "name": "network-traffic", "extenders": [{"urlPrefix": EXTENDER["urlPrefix"]}]}
    keep = {"ansible.builtin.copy": {"src": path, "dest": str(tmp_path / "added.yaml"), "remote_src": True, "mode": "0600"}}
    results = run_tasks(
        tmp_path,
        Task(check_mode=True, path=path, name="network-traffic", extenders=[EXTENDER]),
        {"ansible.builtin.copy": {"src": path, "dest": str(tmp_path / "checked.yaml"), "remote_src": True, "mode": "0600"}},
        *(added, added, keep, changed, changed),
        *(Task(**absent), Task(**absent)),
    )
    assert [result["changed"] for result in results] == [True, True, True, False, True, True, False, True, False]
    assert not any(result.get("failed") for result in results)
    assert (tmp_path / "checked.yaml").read_text() == before
    with_profile = (tmp_path / "added.yaml").read_text()
    assert with_profile.startswith(before) and "- schedulerName: default-scheduler\n- schedulerName: network-traffic\n" in with_profile
    assert ask_file(program, tmp_path / "added.yaml").accepted
    assert results[0]["diff"]["before"] == before and results[0]["diff"]["after"] == with_profile
    assert results[0]["config"] == results[2]["config"] and not results[3].get("warnings")
    assert Path(results[5]["backup_file"]).read_text() == with_profile
    assert file.read_text() == before + "profiles:\n- schedulerName: default-scheduler\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_file_that_the_program_refuses_is_not_written(file: Path, validation: Json, tmp_path: Path) -> None:
    before = file.read_text()
    (result,) = run_tasks(
        tmp_path, Task(path=str(file), name="a", known_plugins=["Other"], plugins=plugins("score", "Other"), **validation)
    )
    assert result["failed"] and "ScorePlugin" in result["msg"] and "does not exist" in result["msg"]
    assert f"the file {file} is not changed" in result["msg"]
    assert file.read_text() == before


WRONG: list[tuple[Json, str]] = [
    ({"name": "a", "plugins": plugins("score", "Other")}, "profiles[1].plugins.score.enabled[0]: kube-scheduler has no plugin 'Other'"),
    ({"name": "default-scheduler", "state": "absent"}, "has it implicitly"),
    ({"name": "a", "extenders": [{"weight": 1}]}, "extenders[0].urlPrefix: it is missing"),
    ({"plugins": {}}, "one of the following is required: name, extenders, leader_election, client_connection"),
    ({"extenders": [], "plugins": {}}, "plugins: it belongs to a profile"),
    ({"name": "a", "kubernetes_version": None}, "required: kubernetes_version, api_version"),
    ({"name": "a", "kubernetes_version": "1.18"}, "kubernetes_version: 1.18 is too old"),
    ({"name": "a", "configmap": {"name": "x"}}, "mutually exclusive"),
    ({"name": "a", "state": "absent", "leader_election": {}}, "leader_election: it has no effect"),
    ({"name": "a", "validate": "true"}, "validate: it does not contain %s"),
    ({"name": "a", "manifest": "/nowhere.yaml"}, "manifest: there is no file /nowhere.yaml on the host"),
    ({"name": "a", "nonsense": 1}, "Unsupported parameters"),
    ({"name": "a", "path": "/"}, "/ is not a file"),
]


def test_wrong_options_change_nothing(file: Path, tmp_path: Path) -> None:
    before = file.read_text()
    results = run_tasks(tmp_path, *(Task(**{"path": str(file), **options}) for options, _said in WRONG))
    assert [
        said for (_options, said), result in zip(WRONG, results, strict=True) if said not in result["msg"] or not result["failed"]
    ] == []
    assert file.read_text() == before


def test_a_new_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    first, second, third = run_tasks(
        tmp_path, Task(path=str(file), name="a"), Task(path=str(file), name="a", mode="0644"), Task(path=str(file), name="a", mode="0644")
    )
    assert (first["changed"], second["changed"], third["changed"]) == (True, True, False)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    # It has the Lease of the cluster, so the pods without a schedulerName need it.
    assert [profile["schedulerName"] for profile in first["config"]["profiles"]] == ["default-scheduler", "a"] and not first.get("warnings")
    (other,) = run_tasks(tmp_path, Task(path=str(tmp_path / "other.yaml"), name="default-scheduler"))
    assert stat.S_IMODE((tmp_path / "other.yaml").stat().st_mode) == 0o600 and not other.get("warnings")


def test_a_private_key_is_written_and_not_shown(file: Path, tmp_path: Path) -> None:
    secret = base64.b64encode(b"the private key of the extender").decode()
    extender = {**EXTENDER, "enableHTTPS": True, "tlsConfig": {"insecure": True, "keyData": secret, "certData": secret}}
    first, second = run_tasks(
        tmp_path,
        Task(path=str(file), extenders=[extender]),
        Task(path=str(file), extenders=[{**extender, "weight": 9}]),
    )
    assert file.read_text().count(secret) == 2
    assert first["config"]["extenders"][0]["tlsConfig"]["keyData"] == second["config"]["extenders"][0]["tlsConfig"]["keyData"] == "(hidden)"
    for result in (first, second):
        assert secret not in result["diff"]["after"].replace(f"certData: {secret}", "") and "keyData: (hidden)" in result["diff"]["after"]


def test_a_symbolic_link_stays_one(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    (result,) = run_tasks(tmp_path, Task(path=str(link), name="a"))
    assert result["changed"] and link.is_symlink() and "schedulerName: a" in file.read_text()


def test_the_flags_of_a_manifest_are_taken_over(tmp_path: Path) -> None:
    manifest = tmp_path / "kube-scheduler.yaml"
    manifest.write_text(
        "kind: Pod\nspec:\n  containers:\n  - name: kube-scheduler\n    command:\n    - kube-scheduler\n"
        "    - --kubeconfig=/etc/kubernetes/scheduler.conf\n    - --kube-api-qps=20\n    - --leader-elect=true\n"
    )
    path = str(tmp_path / "config.yaml")
    taken, refused = run_tasks(
        tmp_path,
        Task(path=path, name="default-scheduler", manifest=str(manifest)),
        Task(path=path, name="default-scheduler", manifest=str(manifest), leader_election={"leaderElect": False}),
    )
    assert taken["config"]["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 20.0}
    assert "--leader-elect: the flag of kube-scheduler overrides" in refused["msg"]


def test_changes_of_another_program_are_not_lost(file: Path, tmp_path: Path) -> None:
    """The other program adds a line every few milliseconds, so no read is still current when the file would be written."""
    before, ended = file.read_text(), threading.Event()
    lines = 0

    def edit() -> None:
        nonlocal lines
        while not ended.wait(0.005):
            with file.open("a") as opened:
                opened.write(f"# {lines}\n")
            lines += 1

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        (result,) = run_tasks(tmp_path, Task(path=str(file), name="a"))
    finally:
        ended.set()
        editor.join()
    assert result["failed"] and "is changed by another program" in result["msg"]
    assert file.read_text() == before + "".join(f"# {number}\n" for number in range(lines))
