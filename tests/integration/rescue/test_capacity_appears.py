# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capacity that appears beside a scheduler that preempts: only one of them evicts pods (kubernetes#65454)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.integration.rescue.conftest import preempting_cluster as cluster
from tests.integration.rescue.program import program
from tests.integration.rescue.scene import Scene
from tests.integration.workloads import wait_until

__all__ = ["cluster"]

PENDING_S = 12
"""Longer than the scheduler's back-off: it tries the pod again as soon as something changes."""

STANDS_STILL_S = 6
"""Longer than the time after which an impossible pod is judged again, and shorter than the scheduler's Lease."""


def uncordon(scene: Scene, node: str) -> None:
    scene.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})


def remove_taint(scene: Scene, node: str) -> None:
    scene.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"taints": None}})


def label(scene: Scene, node: str) -> None:
    scene.api.merge_patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"opened": "yes"}}})


def uids(scene: Scene) -> set[str]:
    return {pod["metadata"]["uid"] for pod in scene.pods()}


def preempted(scene: Scene) -> set[str]:
    """The uids of the pods that the scheduler has preempted, from its Events."""
    events = scene.cluster.get(f"/api/v1/namespaces/{scene.namespace}/events")["items"]
    return {event["involvedObject"]["uid"] for event in events if event["reason"] == "Preempted"}


@pytest.mark.parametrize("way", ["uncordon", "taint", "label"])
def test_scheduler_alone_evicts_pods_where_nodes_open(scene: Scene, way: str) -> None:
    nodes = scene.nodes(2)
    for node in nodes:
        scene.occupant(f"web-{node}", node, cpu="800m", priority="scene-low")
    before = uids(scene)
    selector = {"scene": scene.id, **({"opened": "yes"} if way == "label" else {})}
    for node in nodes:
        if way == "uncordon":
            scene.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
        elif way == "taint":
            scene.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [{"key": "down", "effect": "NoSchedule"}]}})
    pod = scene.critical("dns", nodeSelector=selector)
    opening: Callable[[Scene, str], None] = {"uncordon": uncordon, "taint": remove_taint, "label": label}[way]
    with program(scene, pod, settle_time=2) as found:
        found.tick_until(lambda: found.task.status == "impossible")
        found.tick_for(PENDING_S)
        for node in nodes:
            opening(scene, node)
        found.tick_until(lambda: scene.bound_to(pod))
        found.tick_for(3)
    assert scene.evictions() == []
    assert before - uids(scene), "a pod had to end"
    wait_until(lambda: before - uids(scene) == preempted(scene), what="an Event of the scheduler for each pod that ended")
    assert scene.held() == []


def test_slow_scheduler_gets_its_time_after_nodes_have_opened(scene: Scene) -> None:
    """The scheduler stands still when the nodes open. The rescue, which sees them first, leaves the preemption to it."""
    nodes = scene.nodes(2)
    for node in nodes:
        scene.occupant(f"web-{node}", node, cpu="800m", priority="scene-low", grace=5)
        scene.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    before = uids(scene)
    pod = scene.critical("dns")
    with program(scene, pod, settle_time=20) as found:
        found.tick_until(lambda: found.task.status == "impossible")
        scene.cluster.pause("kube-scheduler")
        try:
            for node in nodes:
                uncordon(scene, node)
            found.tick_for(STANDS_STILL_S)
        finally:
            scene.cluster.resume("kube-scheduler")
        found.tick_until(lambda: scene.bound_to(pod))
    assert scene.evictions() == []
    assert before - uids(scene), "a pod had to end"
    wait_until(lambda: before - uids(scene) == preempted(scene), what="an Event of the scheduler for each pod that ended")


def test_capacity_that_only_the_rescue_can_make_is_used_after_the_settle_time(scene: Scene) -> None:
    """Pods of equal priority, which the scheduler does not preempt, on a node that opens late."""
    (node,) = scene.nodes()
    scene.occupant("other", node, cpu="800m", priority="system-cluster-critical")
    scene.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    pod = scene.critical("dns")
    with program(scene, pod, settle_time=2, allow_equal_priority=True) as found:
        found.tick_until(lambda: found.task.status == "impossible")
        uncordon(scene, node)
        began_s = time.monotonic()
        found.tick_until(lambda: scene.evictions())
        assert time.monotonic() - began_s >= 2
        found.tick_until(lambda: scene.bound_to(pod) == node)
    assert len(scene.evictions()) == 1
