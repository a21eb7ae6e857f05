# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An autoscaler without metrics does not scale, whatever number its status keeps."""

from __future__ import annotations

import json
from typing import Any

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, pile_up, pods_of, wait_until


def test_an_old_number_of_an_autoscaler_without_metrics_forbids_nothing(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 3)
    pile_up(cluster, web)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9}
    metadata = {"name": "web", "namespace": namespace}
    cluster.apply({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec})
    # The lab has no metrics server.
    wait_until(lambda: ("ScalingActive", "False") in conditions(cluster, namespace), what="the autoscaler that finds no metrics")
    patch = json.dumps({"status": {"desiredReplicas": 5}})
    cluster.kubectl("patch", "hpa/web", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    tries = failures(cluster, namespace)
    wait_until(lambda: failures(cluster, namespace) > tries, what="one more try of the autoscaler")
    assert status(cluster, namespace)["desiredReplicas"] == 5 and len(pods_of(cluster, web)) == 3

    (found,) = modules.check(namespace)["workloads"]
    assert found["restart_helps"] is True, found
    done = modules.restart(check=modules.check(namespace))["workloads"]
    assert [(entry["action"], entry["outcome"]) for entry in done] == [("restarted", "improved")], done


def status(cluster: Cluster, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/web")["status"]
    return found


def conditions(cluster: Cluster, namespace: str) -> list[tuple[str, str]]:
    return [(one["type"], one["status"]) for one in status(cluster, namespace).get("conditions", [])]


def failures(cluster: Cluster, namespace: str) -> int:
    """The number of times that the autoscaler has found no metrics."""
    counts = "jsonpath={.items[?(@.reason=='FailedComputeMetricsReplicas')].count}"
    return int(cluster.kubectl("get", "events", "-n", namespace, "--output", counts) or 0)
