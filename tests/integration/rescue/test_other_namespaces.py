# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A priority class makes no pod critical outside of `namespaces`, and a quota limits who may use it."""

from __future__ import annotations

import json

import pytest

from lab.cluster import Cluster
from lab.errors import LabError
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import SCENE_LABEL, SYSTEM, TOLERATION, Json, Scene
from tests.integration.workloads import IMAGE, wait_until

NEVER_PREEMPTS, PRIORITY = "scene-never", 1000


def pod(scene: Scene, name: str, priority_class: str) -> Json:
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "500m"}}}
    spec = {"containers": [container], "nodeSelector": {SCENE_LABEL: scene.id}, "tolerations": [TOLERATION]}
    metadata = {"namespace": scene.namespace, "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "priorityClassName": priority_class}}


def test_pod_of_another_namespace_is_not_rescued_by_its_priority(cluster: Cluster, scene: Scene) -> None:
    """With its namespace in ``namespaces`` the same pod is rescued."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    scene.cluster.apply(pod(scene, "high", NEVER_PREEMPTS))
    scene.wait_unschedulable("high", scene.namespace)
    rescues = Rescues(cluster, cluster.service_account("rescues"))

    result = rescues.module(priority_threshold=PRIORITY, wait_timeout=20)
    assert [row for row in result["pods"] if row["namespace"] == scene.namespace] == []
    assert scene.evictions() == scene.evictions(dry_run=True) == scene.held() == []

    named = {"name": "high", "namespaces": [SYSTEM, scene.namespace]}
    (row,) = rescues.module(priority_threshold=PRIORITY, wait_timeout=20, **named)["pods"]
    assert row["status"] == "rescued" and victims(row) == {"web"}, row


def test_quota_with_a_scope_limits_a_priority_class(cluster: Cluster, scene: Scene) -> None:
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["scene-high"]}]}
    metadata = {"namespace": scene.namespace, "name": "high"}
    spec = {"hard": {"pods": "0"}, "scopeSelector": scope}
    cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})
    path = f"/api/v1/namespaces/{scene.namespace}/resourcequotas/high"
    wait_until(lambda: cluster.get(path).get("status", {}).get("hard"), what="the status of the quota")

    with pytest.raises(LabError, match="exceeded quota: high, requested: pods=1, used: pods=0, limited: pods=0"):
        cluster.kubectl("create", "-f", "-", input=json.dumps(pod(scene, "refused", "scene-high")))
    assert "created" in cluster.kubectl("create", "-f", "-", input=json.dumps(pod(scene, "admitted", "scene-low")))
