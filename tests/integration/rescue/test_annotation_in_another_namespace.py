# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everyone who may create pods in a namespace may annotate them: outside kube-system the annotation makes no pod critical by default."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import SCENE_LABEL, SYSTEM, TOLERATION, Scene
from tests.integration.workloads import IMAGE

ANNOTATION = "scheduler.alpha.kubernetes.io/critical-pod"


@pytest.fixture
def annotated(scene: Scene) -> str:
    """A pod of the scene's namespace that is critical by its annotation only, and fits on no node unless ``web`` is evicted."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    metadata = {"namespace": scene.namespace, "name": "annotated", "annotations": {ANNOTATION: ""}}
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "500m"}}}
    spec = {"containers": [container], "nodeSelector": {SCENE_LABEL: scene.id}, "tolerations": [TOLERATION]}
    scene.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    scene.wait_unschedulable("annotated", scene.namespace)
    return "annotated"


def run(cluster: Cluster, scene: Scene, **params: Any) -> dict[str, Any]:
    """A task of the module whose operator has added the scene's namespace."""
    rescues = Rescues(cluster, cluster.service_account("rescues"))
    return rescues.module(namespaces=[SYSTEM, scene.namespace], wait_timeout=20, **params)


def test_annotation_in_another_namespace_makes_no_pod_critical(cluster: Cluster, scene: Scene, annotated: str) -> None:
    """With ``all`` the same pod is rescued: its namespace is what the default refuses."""
    row: dict[str, Any]
    assert run(cluster, scene)["pods"] == []
    (row,) = run(cluster, scene, name=annotated)["pods"]
    assert (row["status"], row["victims"]) == ("impossible", []) and "honor_critical_annotation is kube-system" in row["message"], row
    (row,) = run(cluster, scene, name=annotated, honor_critical_annotation="none")["pods"]
    assert row["status"] == "impossible" and "honor_critical_annotation is none" in row["message"], row
    assert scene.evictions() == scene.evictions(dry_run=True) == scene.held() == []
    (row,) = run(cluster, scene, name=annotated, honor_critical_annotation="all")["pods"]
    assert row["status"] == "rescued" and victims(row) == {"web"} and len(scene.evictions()) == 1, row


def test_annotation_in_kube_system_makes_a_pod_critical_although_another_namespace_was_added(cluster: Cluster, scene: Scene) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns", priority="", annotations={ANNOTATION: ""})
    (row,) = run(cluster, scene, name=pod)["pods"]
    assert row["status"] == "rescued" and victims(row) == {"web"}, row
