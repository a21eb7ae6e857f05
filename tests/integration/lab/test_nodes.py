# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that a user adds, and those of the base scenario."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lab.api import ApiClient
from lab.cluster import Cluster
from lab.scenario import RACK_LABEL, ZONE_LABEL, NodeGroup, Scenario
from tests.integration.lab.conftest import Pods, wait_for

FAKE = {"kwok.x-k8s.io/node": "fake"}


@pytest.fixture
def by_hand(lab_cluster: Cluster) -> Iterator[str]:
    """Name for a node of the test, which is removed afterwards.

    Never the same one again: until the Lease of the old node is collected, kwok would leave the new one alone now and then.
    """
    name = f"by-hand-{secrets.token_hex(3)}"
    yield name
    lab_cluster.api.request("DELETE", f"/api/v1/nodes/{name}")


def add(api: ApiClient, name: str, *, annotations: dict[str, str], **status: Any) -> None:
    api.post("/api/v1/nodes", {"metadata": {"name": name, "annotations": annotations}, "status": status})


def annotate(api: ApiClient, name: str, annotations: dict[str, str | None]) -> None:
    api.merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": annotations}})


def is_ready(api: ApiClient, name: str) -> bool:
    conditions = api.get(f"/api/v1/nodes/{name}")["status"].get("conditions", [])
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def test_node_added_by_hand_is_ready_soon_and_keeps_its_capacity(lab_cluster: Cluster, by_hand: str) -> None:
    room = {"cpu": "3", "memory": "5Gi", "pods": "7", "example.com/gpu": "2"}
    api = lab_cluster.api
    add(api, by_hand, annotations=FAKE, capacity=room, allocatable=room | {"cpu": "2500m"})
    wait_for(lambda: is_ready(api, by_hand))
    status = api.get(f"/api/v1/nodes/{by_hand}")["status"]
    assert status["capacity"] == room
    assert status["allocatable"] == room | {"cpu": "2500m"}


def test_node_without_capacity_gets_a_default(lab_cluster: Cluster, by_hand: str) -> None:
    api = lab_cluster.api
    add(api, by_hand, annotations=FAKE)
    wait_for(lambda: is_ready(api, by_hand))
    assert api.get(f"/api/v1/nodes/{by_hand}")["status"]["allocatable"]["cpu"] == "8"


def test_node_can_be_made_not_ready_and_ready_again(lab_cluster: Cluster, by_hand: str) -> None:
    api = lab_cluster.api
    add(api, by_hand, annotations=FAKE)
    wait_for(lambda: is_ready(api, by_hand))
    annotate(api, by_hand, {"lab.onprem/ready": "false"})
    wait_for(lambda: not is_ready(api, by_hand))
    annotate(api, by_hand, {"lab.onprem/ready": None})
    wait_for(lambda: is_ready(api, by_hand))


def test_node_without_the_annotation_and_its_pods_are_not_changed(lab_cluster: Cluster, by_hand: str, pods: Pods) -> None:
    api = lab_cluster.api
    add(api, by_hand, annotations={})
    pods.create("untouched", node=by_hand)
    # What comes later is changed.
    later = f"{by_hand}-later"
    add(api, later, annotations=FAKE)
    try:
        pods.running("touched", node=later)
        wait_for(lambda: is_ready(api, later))
    finally:
        api.request("DELETE", f"/api/v1/nodes/{later}")
    assert not is_ready(api, by_hand)
    assert pods.phase("untouched") == "Pending"


def test_base_scenario_has_even_zones_and_racks(lab_cluster: Cluster) -> None:
    nodes = lab_cluster.get("/api/v1/nodes")["items"]
    workers = [node["metadata"]["labels"] for node in nodes if node["metadata"]["name"].startswith("worker-")]
    assert Counter(labels[ZONE_LABEL] for labels in workers) == {"zone-a": 3, "zone-b": 3}
    assert Counter(labels[RACK_LABEL] for labels in workers) == {"rack-1": 2, "rack-2": 2, "rack-3": 2}
    control_plane = next(node for node in nodes if node["metadata"]["name"] == "control-plane-1")
    assert control_plane["spec"]["taints"] == [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]


def test_add_nodes_twice_creates_them_once(lab_cluster: Cluster) -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    more = Scenario("more", (NodeGroup(prefix="extra", count=2, taints=(taint,), unschedulable=True),))
    lines: list[str] = []
    try:
        lab_cluster.add_nodes(more, log=lines.append)
        lab_cluster.add_nodes(more, log=lines.append)
        assert "2 nodes created, 0 were there" in lines[0]
        assert "0 nodes created, 2 were there" in lines[1]
        spec = lab_cluster.get("/api/v1/nodes/extra-2")["spec"]
        assert spec["unschedulable"]
        assert taint in spec["taints"]
    finally:
        for name in ("extra-1", "extra-2"):
            lab_cluster.api.request("DELETE", f"/api/v1/nodes/{name}")
