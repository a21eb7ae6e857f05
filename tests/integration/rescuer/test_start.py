# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rescuer that cannot start logs the cause and ends with the documented exit code."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import Cluster
from tests.integration.rescue.conftest import separate_cluster as cluster
from tests.integration.rescue.scene import SYSTEM, Scene
from tests.integration.rescuer.conftest import Start
from tests.integration.rescuer.daemons import start
from tests.integration.rescuer.test_rescuer import full_node, wait_bound, wait_free
from tests.integration.roles.installed import remove_all
from tests.integration.workloads import wait_until
from tools.rendered_base import BASE

__all__ = ["cluster"]

NAME = "kube-scheduling-rescuer"


def in_base(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file in deploy/."""
    document = yaml.safe_load((BASE / f"{name}.yaml").read_text())
    return document["items"] if document["kind"] == "List" else [document]


def ended(log: Path, *flags: str, **environment: str) -> tuple[int, str]:
    """Exit code and output of a rescuer that ends by itself."""
    process = start(log, *flags, **environment)
    try:
        return process.wait(60), log.read_text()
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--grace-perod=1"], "--grace-perod is not a flag; the nearest is --grace-period"),
        (["--kubeconfig=/nowhere/config"], "/nowhere/config"),
        (["--config=/nowhere/rescuer.yml"], "/nowhere/rescuer.yml cannot be read"),
    ],
)
def test_a_wrong_setting_is_2(tmp_path: Path, flags: list[str], words: str) -> None:
    code, output = ended(tmp_path / "log", "--listen-address=", *flags)
    assert code == 2 and words in output and "Traceback" not in output


def test_an_address_that_is_taken_is_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, output = ended(tmp_path / "log", f"--listen-address=127.0.0.1:{taken.getsockname()[1]}")
    assert code == 2 and "in use" in output


def test_an_api_server_that_is_not_there_is_3(cluster: Cluster, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = re.sub(r"server: \S+", f"server: https://127.0.0.1:{port}", cluster.kubeconfig.read_text())
    (tmp_path / "config").write_text(text)
    code, output = ended(tmp_path / "log", "--listen-address=", f"--kubeconfig={tmp_path / 'config'}")
    assert code == 3 and "no answer from " in output and "Traceback" not in output


def test_missing_roles_are_3(cluster: Cluster, tmp_path: Path) -> None:
    kubeconfig = cluster.service_account("nobody", cluster_role=None)
    code, output = ended(tmp_path / "log", "--listen-address=", f"--kubeconfig={kubeconfig}")
    assert code == 3 and "Grant the verb 'list' on " in output and "Traceback" not in output


def test_a_namespace_that_is_not_there_is_said_at_the_start(daemons: Start) -> None:
    daemon = daemons("--system-namespace=kube-system,kube-sytem")
    wait_until(
        lambda: daemon.said("namespaces: there is no namespace kube-sytem (the nearest is kube-system)"),
        what="it",
    )


def test_the_rights_in_the_base_are_enough_and_it_survives_their_loss(scene: Scene, cluster: Cluster, daemons: Start) -> None:
    rights = [item for name in ("namespace", "rescuer-permissions") for item in in_base(name)]
    cluster.apply(rights)
    daemon = daemons(kubeconfig=cluster.service_account(NAME, namespace="kube-scheduling", cluster_role=None))
    wait_until(lambda: daemon.leads, what="a leader")
    node = full_node(scene)
    wait_bound(scene, scene.critical("dns"), node, daemon)
    wait_free(scene)
    wait_until(lambda: daemon.said("pod no longer waits"), what="the end")
    assert [line for line in daemon.lines if line["level"] != "info"] == []
    cluster.kubectl("delete", "rolebinding", NAME, "-n", SYSTEM)
    wait_until(lambda: not daemon.leads, what="a lost Lease")
    wait_until(lambda: not daemon.ready, what="no readiness")
    assert "leases" in daemon.ask("/readyz")[1] and daemon.ask("/healthz")[0] == 200
    cluster.apply(rights)
    wait_until(lambda: daemon.leads and daemon.ready, what="the Lease again")
    assert daemon.stop() == 0
    remove_all(cluster)


def alive(cluster: Cluster, component: str) -> bool:
    return any(status.alive for status in cluster.status() if status.component == component)


def test_an_api_server_that_gives_no_answer_takes_the_lease_and_not_the_end(scene: Scene, cluster: Cluster, daemons: Start) -> None:
    daemon = daemons()
    wait_until(lambda: daemon.leads, what="a leader")
    scene.nodes(cpu="1")
    for number in range(4):
        scene.critical(f"dns-{number}", cpu="2")
    wait_until(lambda: daemon.metric("pending_critical_pods", status="impossible") == 4, what="impossible pods")
    cluster.pause("kube-apiserver")
    try:
        wait_until(lambda: not daemon.leads, what="a lost Lease")
        wait_until(lambda: not daemon.ready, what="no readiness")
        assert daemon.ask("/healthz")[0] == 200
        assert daemon.stop() == 0
    finally:
        cluster.resume("kube-apiserver")
        # It has lost its own Lease, and ends.
        wait_until(lambda: not alive(cluster, "kube-scheduler"), timeout_s=60, what="the end of the scheduler")
        cluster.start("kube-scheduler")
    cluster.wait_ready()
