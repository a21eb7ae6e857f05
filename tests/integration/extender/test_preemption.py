# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent ``budgets``: the stock scheduler's preemption keeps PodDisruptionBudgets, because the extender drops nodes with violations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.extender.conftest import StartExtender, StartScheduler, schedulers
from tests.integration.extender.extender_process import Extender, pod_of
from tests.integration.rescue.conftest import cluster, scene
from tests.integration.rescue.scene import SYSTEM, Scene
from tests.integration.workloads import wait_until

__all__ = ["cluster", "scene"]

PROTECTED, UNPROTECTED, UNAVAILABLE = "keeps-budgets", "breaks-budgets", "full-limit"
BUDGETS = {"profiles": {PROTECTED: {"agents": [{"name": "budgets"}]}}}
OVERLOADED = {"mean-free-cpu": "0", "std-free-cpu": "0", "mean-free-memory": "0", "std-free-memory": "0"}


@pytest.fixture
def start(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartScheduler]:
    """Starts second schedulers whose extender has only the verb preempt. They end after the test."""
    yield from schedulers(cluster, tmp_path_factory)


@pytest.fixture(scope="module")
def extender(start_extender: StartExtender) -> Extender:
    return start_extender(BUDGETS)


def preempting(start: StartScheduler, extender: Extender, **changes: Any) -> None:
    """Start a scheduler whose preemption asks the extender.

    A scheduler that starts after the budgets exist knows them. A running one may decide before its watch brings a budget's status, and it
    does not try the pod again when only that status changes.
    """
    start(extender, profiles=(PROTECTED,), preemptVerb="preempt", **changes)


def full_node(scene: Scene, name: str, *, protected: bool) -> str:
    """Return a full node, with a pod on it that a PodDisruptionBudget protects or not."""
    (node,) = scene.nodes()
    scene.occupant(name, node, cpu="800m", priority="scene-low")
    if protected:
        scene.budget(name, name, allowed=0, replicas=1)
    return node


def uids(scene: Scene, *apps: str) -> set[str]:
    """Return the UIDs of the pods that are not being deleted."""
    return {pod["metadata"]["uid"] for app in apps for pod in scene.pods(app) if "deletionTimestamp" not in pod["metadata"]}


def wait_for_later_pod(scene: Scene, name: str, profile: str) -> None:
    """Create a small pod, and wait until the scheduler has tried it. The scheduler is then done with all pods that it tried before."""
    pod = scene.critical(name, cpu="10m", priority="scene-low", schedulerName=profile, wait=False)

    def is_tried() -> bool:
        status = scene.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{pod}")["status"]
        return any(condition["type"] == "PodScheduled" for condition in status.get("conditions") or ())

    wait_until(is_tried, what=f"the scheduler's result for {pod}")


def test_without_another_node_the_pod_waits(scene: Scene, extender: Extender, start: StartScheduler) -> None:
    for name in ("one", "two"):
        full_node(scene, name, protected=True)
    preempting(start, extender)
    before = uids(scene, "one", "two")
    asked = extender.metric("requests_total", verb="preempt")
    pod = scene.critical("high", schedulerName=PROTECTED)
    wait_until(lambda: extender.metric("requests_total", verb="preempt") > asked, what="a request of the preemption")
    wait_for_later_pod(scene, "later", PROTECTED)
    assert not scene.bound_to(pod) and not scene.nominated(pod)
    assert uids(scene, "one", "two") == before


def test_only_the_unprotected_pod_is_preempted(scene: Scene, extender: Extender, start: StartScheduler) -> None:
    for name in ("one", "two"):
        full_node(scene, name, protected=True)
    free = full_node(scene, "three", protected=False)
    preempting(start, extender)
    before, victim = uids(scene, "one", "two"), uids(scene, "three")
    pod = scene.critical("high", schedulerName=PROTECTED, wait=False)
    wait_until(lambda: scene.bound_to(pod) == free, what="the pod on the node without a budget")
    assert uids(scene, "one", "two") == before and not victim & uids(scene, "three")


def test_a_budget_that_allows_a_disruption_is_used(scene: Scene, extender: Extender, start: StartScheduler) -> None:
    """The preempted pod has no controller. A new pod could take its place, and then the budget allows no disruption for a while."""
    first, second = scene.nodes(2)
    scene.bare("web", first, cpu="800m", priority="scene-low")
    scene.bare("other", second, cpu="800m", priority="scene-low")
    for name in ("web", "other"):
        scene.wait_ready(name, 1)
    scene.budget("web", "web", allowed=1, replicas=1)
    scene.budget("other", "other", allowed=0, replicas=1)
    preempting(start, extender)
    pod = scene.critical("high", schedulerName=PROTECTED, wait=False)
    wait_until(lambda: scene.bound_to(pod) == first, what="the pod on the node whose budget allows it")


def test_stock_preemption_breaks_the_budget(scene: Scene, extender: Extender, start: StartScheduler) -> None:
    """The same scene without the agent: this is what the agent prevents."""
    start(extender, profiles=(UNPROTECTED,), preemptVerb="preempt")
    node = full_node(scene, "one", protected=True)
    pod = scene.critical("high", schedulerName=UNPROTECTED, wait=False)
    wait_until(lambda: scene.bound_to(pod) == node, what="the pod on the node of the protected one")


@pytest.mark.parametrize("ignorable", [False, True])
def test_an_extender_that_is_down(scene: Scene, start_extender: StartExtender, start: StartScheduler, ignorable: bool) -> None:
    """With ``ignorable: false`` preemption stops; with ``true`` it continues and breaks budgets."""
    extender = start_extender(BUDGETS)
    preempting(start, extender, ignorable=ignorable, httpTimeout="500ms")
    extender.kill()
    node = full_node(scene, "one", protected=True)
    before = uids(scene, "one")
    pod = scene.critical("high", schedulerName=PROTECTED, wait=False)
    if ignorable:
        wait_until(lambda: scene.bound_to(pod) == node, what="the pod, without the protection")
        return
    scene.wait_unschedulable(pod)
    wait_for_later_pod(scene, "later", PROTECTED)
    assert not scene.bound_to(pod) and not scene.nominated(pod) and uids(scene, "one") == before
    extender.start()
    # The end of a pod makes the scheduler try again.
    scene.bare("short", node, cpu="10m")
    scene.api.request("DELETE", f"/api/v1/namespaces/{scene.namespace}/pods/short", {"gracePeriodSeconds": 0})
    wait_until(lambda: extender.metric("requests_total", verb="preempt") >= 1, what="a request of the preemption")
    wait_for_later_pod(scene, "last", PROTECTED)
    assert not scene.bound_to(pod) and not scene.nominated(pod) and uids(scene, "one") == before


def test_preemption_spares_the_pods_of_nodes_that_the_filter_rejects(
    scene: Scene, start_extender: StartExtender, start: StartScheduler
) -> None:
    """All nodes are full and over the limit of the filter. Without the verb preempt their pods would be deleted node after node."""
    nodes = [full_node(scene, name, protected=False) for name in ("one", "two", "three")]
    for node in nodes:
        scene.api.merge_patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": OVERLOADED}})
    extender = start_extender(
        {
            "sources": {"kubernetes": {"kubeconfig": str(scene.cluster.kubeconfig)}},
            "profiles": {UNAVAILABLE: {"agents": [{"name": "safe_overload", "filter": True, "args": {"source": "annotations"}}]}},
        }
    )
    wait_until(lambda: all(_is_rejected(extender, node) for node in nodes), what="the rejection of all nodes")
    start(extender, profiles=(UNAVAILABLE,), preemptVerb="preempt", filterVerb="filter")
    before = uids(scene, "one", "two", "three")
    pod = scene.critical("high", schedulerName=UNAVAILABLE)
    wait_for_later_pod(scene, "later", UNAVAILABLE)
    assert not scene.bound_to(pod) and not scene.nominated(pod) and uids(scene, "one", "two", "three") == before


def _is_rejected(extender: Extender, node: str) -> bool:
    _status, answer = extender.post("filter", {"Pod": pod_of(UNAVAILABLE), "NodeNames": [node]})
    return node in answer["FailedNodes"]
