# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rescues beside the scheduler's own preemption: they act where it does not help, and do nothing if it helps.

Preemption does not keep to budgets, so that budgets are checked over this program's requests only.
"""

from __future__ import annotations

import pytest

from tests.integration.requests_seen import requests_seen
from tests.integration.rescue.conftest import preempting_cluster as cluster
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import CRITICAL, Scene
from tests.integration.workloads import wait_until

__all__ = ["cluster"]

ANNOTATED = {"scheduler.alpha.kubernetes.io/critical-pod": ""}
HANG = {"lab.onprem/on-delete": "hang"}


def ours(scene: Scene) -> list[str]:
    """Pods that this program has had evicted or deleted; it must not do the latter at all."""
    found = requests_seen(scene.cluster, scene.mark, resource="pods")
    assert not [event for event in found if event.verb in ("delete", "deletecollection")]
    return [event.name for event in found if event.subresource == "eviction" and event.code == 201 and "dryRun" not in event.path]


def refused(scene: Scene) -> list[str]:
    """Pods whose eviction a budget has refused to this program."""
    return [event.name for event in requests_seen(scene.cluster, scene.mark, resource="pods", verb="create") if event.code == 429]


def test_what_the_scheduler_solves_by_itself_is_left_to_it(scene: Scene, rescues: Rescues) -> None:
    """The pod is not even marked Unschedulable when the run begins, or its victims are just ending."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=3)
    pod = scene.critical("dns")
    wait_until(lambda: scene.nominated(pod) == node, what="the nomination")
    row = rescues.one(pod, settle_time=2)
    assert (row["status"], row["node"], row["victims"]) == ("rescued", node, [])
    assert ours(scene) == [] and scene.held() == []


def test_a_preemption_that_takes_longer_than_the_settle_time_is_waited_for(scene: Scene, rescues: Rescues) -> None:
    first, _second = scene.nodes(2)
    scene.occupant("slow", first, cpu="800m", grace=5, priority="scene-low")
    scene.occupant("other", _second, cpu="800m", priority="scene-high")
    pod = scene.critical("dns")
    plan = rescues.run(name=pod, check_mode=True)["pods"][0]
    assert plan["status"] == "waiting" and first in plan["message"]
    row = rescues.one(pod)
    assert (row["status"], row["node"], row["victims"]) == ("rescued", first, [])
    assert ours(scene) == [] and scene.bound_to(pod) == first


def test_equal_priority_which_preemption_does_not_touch(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("other", node, cpu="800m", priority=CRITICAL)
    pod = scene.critical("dns")
    row = rescues.one(pod, settle_time=2)
    assert row["status"] == "impossible" and "allow_equal_priority" in row["message"] and ours(scene) == []
    row = rescues.one(pod, settle_time=2, allow_equal_priority=True)
    assert (row["status"], row["node"], victims(row)) == ("rescued", node, {"other"})
    assert len(ours(scene)) == 1 and scene.held() == []


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_budgets_of_pods_that_preemption_does_not_touch(scene: Scene, rescues: Rescues, allowed: int) -> None:
    """Two of the three pods would have to be evicted."""
    (node,) = scene.nodes(cpu="900m")
    scene.occupant("other", node, cpu="300m", priority=CRITICAL, replicas=3)
    scene.budget("other", "other", allowed=allowed, replicas=3)
    row = rescues.one(scene.critical("dns", cpu="500m"), allow_equal_priority=True)
    assert row["status"] == ("rescued" if allowed == 2 else "impossible")
    assert len(ours(scene)) == (2 if allowed == 2 else 0) and refused(scene) == [] and scene.held() == []


def test_a_pod_that_only_its_annotation_makes_critical(scene: Scene, rescues: Rescues) -> None:
    """For the scheduler its priority is 0, as that of what is in its way."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("old", priority="", annotations=ANNOTATED)
    assert not scene.nominated(pod)
    row = rescues.one(pod, settle_time=2)
    assert (row["status"], row["node"], victims(row)) == ("rescued", node, {"web"})
    assert len(ours(scene)) == 1 and scene.held() == []


@pytest.mark.parametrize("tolerates", [True, False])
def test_victims_of_a_preemption_that_hang(scene: Scene, rescues: Rescues, tolerates: bool) -> None:
    """While they are within their grace period the scheduler is waited for; then another node is taken, and the plan says why."""
    first, second = scene.nodes(2)
    scene.occupant("stuck", first, cpu="800m", priority="scene-low", annotations=HANG)
    (stuck,) = scene.pods("stuck")
    path = f"/api/v1/namespaces/{scene.namespace}/pods/{stuck['metadata']['name']}"
    scene.api.merge_patch(path, {"metadata": {"finalizers": ["example.com/never"]}})
    scene.occupant("web", second, cpu="800m", priority="scene-high")
    pod = scene.critical("dns", tolerates=tolerates)
    try:
        wait_until(lambda: scene.nominated(pod) == first, what="the nomination")
        plan = rescues.one(pod, check_mode=True)
        assert plan["status"] == "waiting" and first in plan["message"]
        wait_until(lambda: rescues.one(pod, check_mode=True)["status"] != "waiting", what="the end of the wait")
        plan = rescues.one(pod, check_mode=True)
        assert (plan["status"], plan["node"], victims(plan)) == ("planned", second, {"web"})
        assert first in plan["message"] and stuck["metadata"]["name"] in plan["message"]
        row = rescues.one(pod)
        assert (row["status"], row["node"], victims(row)) == ("rescued", second, {"web"})
        assert len(ours(scene)) == 1 and scene.held() == []
    finally:
        scene.api.merge_patch(path, {"metadata": {"finalizers": None}})
