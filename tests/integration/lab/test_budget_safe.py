# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variant whose scheduler evicts nothing and leads by a Lease."""

from __future__ import annotations

from lab.cluster import Cluster
from tests.integration.rescue.conftest import cluster, scene
from tests.integration.rescue.scene import SYSTEM, Scene
from tests.integration.workloads import wait_until

__all__ = ["cluster", "scene"]

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/kube-scheduler"


def test_its_scheduler_leaves_pods_of_lower_priority_alone(cluster: Cluster, scene: Scene) -> None:
    wait_until(lambda: cluster.api.find(LEASE), what="the scheduler's Lease")
    spec = cluster.get(LEASE)["spec"]
    assert spec["holderIdentity"] and spec["leaseDurationSeconds"] == 15
    (node,) = scene.nodes()
    scene.occupant("low", node, cpu="800m")
    scene.budget("low", "low", allowed=0, replicas=1)
    (before,) = scene.pods("low")
    pod = scene.critical("high")
    (condition,) = cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{pod}")["status"]["conditions"]
    assert condition["reason"] == "Unschedulable" and "preemption" not in condition["message"]
    (after,) = scene.pods("low")
    assert after["metadata"]["uid"] == before["metadata"]["uid"] and not scene.nominated(pod)
