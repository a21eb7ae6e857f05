# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variant whose scheduler evicts nothing and leads by a Lease."""

from __future__ import annotations

from lab.pytest_fixtures import ClusterFactory
from tests.integration.workloads import IMAGE, budget, deployment, pod_uids, wait_rolled_out, wait_until

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


def test_its_scheduler_leaves_pods_of_lower_priority_alone(fresh_cluster: ClusterFactory) -> None:
    cluster = fresh_cluster("single-worker", variant="budget_safe")
    wait_until(lambda: cluster.api.find(LEASE), what="the scheduler's Lease")
    spec = cluster.get(LEASE)["spec"]
    assert spec["holderIdentity"] and spec["leaseDurationSeconds"] == 15
    low = deployment("default", "low", 1, cpu="7")
    cluster.apply([low, budget("default", "low", "low", minAvailable=1)])
    wait_rolled_out(cluster, low)
    before = pod_uids(cluster, low)
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "7"}}}
    high = {"priorityClassName": "system-cluster-critical", "containers": [container]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "high", "namespace": "kube-system"}, "spec": high})
    path = "/api/v1/namespaces/kube-system/pods/high"
    wait_until(lambda: cluster.get(path)["status"].get("conditions"), what="the scheduler's word")
    (condition,) = cluster.get(path)["status"]["conditions"]
    assert condition["reason"] == "Unschedulable" and "preemption" not in condition["message"]
    assert pod_uids(cluster, low) == before and not cluster.get(path)["status"].get("nominatedNodeName")
