# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that is away for longer than the Lease lasts, while k8s_critical_rescue holds a node."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory
from tests.integration.rescue.rescues import Json, Rescues
from tests.integration.rescue.scene import ATTEMPTS, HOLD_KEY, SYSTEM, Scene, priority_classes
from tests.integration.wire import wire
from tests.integration.workloads import wait_until

ANNOTATION = {"scheduler.alpha.kubernetes.io/critical-pod": ""}


@pytest.fixture(scope="module")
def cluster(fresh_module_cluster: ClusterFactory) -> Cluster:
    """Its scheduler has no Lease, so that it outlives the API server and binds as soon as that is back."""
    made = fresh_module_cluster("single-worker")
    made.apply(priority_classes())
    return made


@pytest.fixture
def scene(cluster: Cluster) -> Iterator[Scene]:
    made = Scene(cluster)
    yield made
    made.close()


@pytest.fixture
def user(cluster: Cluster) -> Path:
    """To whom roles apply, unlike the administrator."""
    return cluster.service_account("rescue-faults")


def full_node(scene: Scene, *, grace: int) -> tuple[str, str]:
    """A full node, and a pod that is critical by its annotation only: the scheduler does not preempt for it."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=grace)
    return node, scene.critical("dns", priority="", annotations=ANNOTATION)


@contextlib.contextmanager
def cut_off(scene: Scene, user: Path, folder: Path, **options: Any) -> Iterator[tuple[Rescues, subprocess.Popen[str], str, str]]:
    """A run that holds a node and does not know yet that its pod is bound there; then the API server is killed."""
    node, pod = full_node(scene, grace=3)
    with wire(scene.cluster, folder, user=user) as (line, kubeconfig):
        process = Rescues(scene.cluster, kubeconfig).start(name=pod, **options)
        try:
            wait_until(lambda: len(scene.evictions()) == 1, what="the eviction")
            line.hold()
            wait_until(lambda: scene.bound_to(pod) == node, what="the bound pod")
            scene.cluster.kill("kube-apiserver")
            line.cut()
            yield Rescues(scene.cluster, user), process, node, pod
        finally:
            process.kill()
            process.wait()


def bring_back(cluster: Cluster) -> None:
    """The API server, and with it those that would otherwise pause for a while before they ask again."""
    cluster.start("kube-apiserver")
    for component in ("kube-controller-manager", "kube-scheduler", "kwok-controller"):
        cluster.kill(component)
        cluster.start(component)


def under_way(cluster: Cluster) -> list[Json]:
    data = (cluster.api.find(ATTEMPTS) or {}).get("data") or {}
    return [entry for entry in map(json.loads, data.values()) if entry["under_way"]]


@pytest.mark.parametrize("away_s", [18, pytest.param(53, marks=pytest.mark.full)])
def test_a_run_releases_its_node_after_an_outage_longer_than_the_lease(scene: Scene, user: Path, tmp_path: Path, away_s: int) -> None:
    with cut_off(scene, user, tmp_path, wait_timeout=120) as (rescues, process, node, pod):
        time.sleep(away_s)
        bring_back(scene.cluster)
        result = rescues.result(process)
    (row,) = result["pods"]
    assert (row["status"], row["node"]) == ("rescued", node), result
    assert scene.held() == [] and scene.taints(node) == [] and under_way(scene.cluster) == []
    assert result["released"] == [{"node": node, "pod": f"{SYSTEM}/{pod}"}] and len(scene.evictions()) == 1


def test_a_run_that_cannot_release_its_node_fails_and_names_it_and_check_mode_names_it_too(
    scene: Scene, user: Path, tmp_path: Path
) -> None:
    with cut_off(scene, user, tmp_path, wait_timeout=5) as (rescues, process, node, pod):
        try:
            result = rescues.result(process)
        finally:
            bring_back(scene.cluster)
    assert process.returncode != 0 and result["failed"], result
    for words in (f"node {node} has the taint {HOLD_KEY}=", f"for pod {SYSTEM}/{pod}", "state=released"):
        assert words in result["msg"], result
    assert scene.held() == [node]
    plan = rescues.run(check_mode=True)
    assert plan["released"] == [{"node": node, "pod": f"{SYSTEM}/{pod}"}] and plan["changed"] and scene.held() == [node]
    assert rescues.run()["released"] == plan["released"]
    assert scene.held() == [] and scene.taints(node) == [] and under_way(scene.cluster) == []


def test_check_mode_names_a_node_that_is_held_for_a_pod_that_waits(scene: Scene, user: Path) -> None:
    node, pod = full_node(scene, grace=30)
    rescues = Rescues(scene.cluster, user)
    process = rescues.start(name=pod, grace_period=30)
    wait_until(lambda: len(scene.evictions()) == 1, what="the eviction")
    process.kill()
    process.wait()
    rescues.run(check_mode=True)
    assert any(f"node {node} has the taint" in warning and pod in warning for warning in rescues.warnings), rescues.warnings
