# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rescues beside a scheduler that preempts: no rescue begins a cycle of evictions and preemptions."""

from __future__ import annotations

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import Scene, priority_classes

ANNOTATED = {"scheduler.alpha.kubernetes.io/critical-pod": ""}


@pytest.fixture(scope="module")
def cluster(fresh_module_cluster: ClusterFactory) -> Cluster:
    """With the scheduler as it comes."""
    made = fresh_module_cluster("single-worker")
    made.apply(priority_classes())
    never = {"metadata": {"name": "scene-never"}, "value": 1000, "preemptionPolicy": "Never"}
    made.apply([{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **never}])
    return made


def test_pod_whose_replacement_could_preempt_the_rescued_pod_is_not_evicted(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", priority="scene-middle")
    pod = scene.critical("old", priority="", annotations=ANNOTATED)
    row = rescues.one(pod, settle_time=2)
    assert (row["status"], scene.evictions()) == ("impossible", [])
    assert "would_preempt" in {blocker["reason"] for blocker in row["blockers"]} and "preempt" in row["reason"]


def test_pod_of_higher_priority_that_never_preempts_is_evicted_for_an_annotated_pod(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", priority="scene-never")
    pod = scene.critical("old", priority="", annotations=ANNOTATED)
    row = rescues.one(pod, settle_time=2)
    assert (row["status"], row["node"], victims(row)) == ("rescued", node, {"web"})
    assert scene.bound_to(pod) == node
