# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clusters at the same time: up, repeated up, single components killed and paused, down without leftovers."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import __main__ as command_line
from lab.binaries import kubernetes_version
from lab.cluster import Cluster, up
from lab.components import components
from lab.errors import LabError
from lab.processes import own_pids
from tests.integration.lab.conftest import wait_for


@pytest.fixture(scope="module")
def pair(lab_folder: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters brought up at the same time."""
    found: dict[str, Cluster] = {}

    def bring_up(name: str) -> None:
        found[name] = up(lab_folder / name, name)

    threads = [threading.Thread(target=bring_up, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield found["left"], found["right"]
    for cluster in found.values():
        cluster.down()


def pids_of(cluster: Cluster) -> dict[str, int | None]:
    return {row.component: row.pid for row in cluster.status()}


def addresses(cluster: Cluster) -> set[str]:
    return {component.health_address for component in components(cluster.layout)}


def test_clusters_have_their_own_ports_and_answer(pair: tuple[Cluster, Cluster]) -> None:
    left, right = pair
    assert not addresses(left) & addresses(right)
    for cluster in pair:
        assert all(row.alive for row in cluster.status())
        assert cluster.address("kube-apiserver") == cluster.server
        assert cluster.kubectl("version").count(f"v{kubernetes_version()}") == 2  # the client and the server


def test_repeated_up_starts_nothing(pair: tuple[Cluster, Cluster]) -> None:
    left, _ = pair
    before, lines = pids_of(left), list[str]()
    up(left.folder, left.name, log=lines.append)
    assert pids_of(left) == before
    assert lines == ["cluster left is up already"]


def test_the_command_line_says_what_a_shell_needs_and_that_there_are_no_nodes(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left, _ = pair
    monkeypatch.setattr(command_line, "default_folder", lambda _name: left.folder)
    monkeypatch.setattr(command_line, "end_on_signals", lambda: None)
    for arguments, said in ([], True), (["--scenario", "single-worker"], False), ([], False):
        assert command_line.main(["up", "--name", left.name, *arguments]) == 0
        printed = capsys.readouterr().out
        assert ("no nodes yet: add --scenario demo" in printed) == said
        assert f"export KUBECONFIG={left.kubeconfig}\n" in printed
    folder = re.search(r"^export PATH=(.*):\$PATH", printed, re.MULTILINE)
    assert folder and (Path(folder.group(1)) / "kubectl").is_file()


def test_up_with_other_wishes_is_refused(pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    left, _ = pair
    with pytest.raises(LabError, match="take it down first"):
        up(left.folder, left.name, variant="overload")
    other = "1.35" if kubernetes_version().startswith("1.34.") else "1.34"
    monkeypatch.setenv("LAB_KUBERNETES", other)
    with pytest.raises(LabError, match=rf"not as .*'kubernetes': '{re.escape(other)}\..*take it down first"):
        up(left.folder, left.name)


def test_up_starts_what_has_died(pair: tuple[Cluster, Cluster]) -> None:
    left, _ = pair
    before, lines = pids_of(left), list[str]()
    left.kill("kube-scheduler", signal=signal.SIGTERM)
    assert pids_of(left)["kube-scheduler"] is None
    up(left.folder, left.name, log=lines.append)
    after = pids_of(left)
    assert [name for name in after if after[name] != before[name]] == ["kube-scheduler"]
    assert any("kube-scheduler" in line and "starting it again" in line for line in lines)


def test_killed_api_server_comes_back_with_its_data(pair: tuple[Cluster, Cluster]) -> None:
    left, _ = pair
    left.kubectl("create", "namespace", "kept")
    left.kill("kube-apiserver")
    with pytest.raises(LabError, match="is the cluster up"):
        left.get("/version")
    left.start("kube-apiserver")
    assert left.get("/api/v1/namespaces/kept")["metadata"]["name"] == "kept"


def test_paused_api_server_does_not_answer_until_resumed(pair: tuple[Cluster, Cluster]) -> None:
    _, right = pair
    server = next(component for component in components(right.layout) if component.name == "kube-apiserver")
    right.pause("kube-apiserver")
    assert not server.healthy()
    right.resume("kube-apiserver")
    wait_for(server.healthy)


def test_unknown_component_and_program_are_named(pair: tuple[Cluster, Cluster]) -> None:
    _, right = pair
    with pytest.raises(LabError, match="no component 'scheduler'; it has: etcd, kube-apiserver"):
        right.kill("scheduler")
    with pytest.raises(LabError, match="no program 'kubelet'; known are etcd"):
        right.binary("kubelet")


def test_kubectl_failure_carries_its_message(pair: tuple[Cluster, Cluster]) -> None:
    _, right = pair
    with pytest.raises(LabError, match=r'kubectl get node absent: .*"absent" not found'):
        right.kubectl("get", "node", "absent")


def test_down_leaves_no_process_and_no_file(pair: tuple[Cluster, Cluster]) -> None:
    left, right = pair
    before = pids_of(left)
    right.pause("kwok-controller")
    right.down()
    assert not own_pids(right.layout.kwok)
    assert not right.folder.exists()
    assert pids_of(left) == before and before["etcd"] is not None
    right.down()  # again is fine
