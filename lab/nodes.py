# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node objects of a scenario: made, created, and waited for.

Nodes that exist already are left as they are, so that a scenario can be applied again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Address
from typing import Any

from lab import etcd_bulk_load
from lab.api import ApiClient
from lab.binaries import kubernetes_version
from lab.errors import LabError
from lab.scenario import RACK_LABEL, ZONE_LABEL, NodeGroup, Scenario

PARALLEL_REQUESTS = 8
BULK_FROM = 200
PROGRESS_EVERY_S = 5.0
FIRST_ADDRESS = IPv4Address("172.20.0.1")
READY_TIMEOUT_S = 120.0
RECREATE_AFTER_S = 20.0
"""Seconds after which nodes that kwok has not taken over are deleted and created again."""
NOT_READY_TAINT = "node.kubernetes.io/not-ready"


def create(api: ApiClient, scenario: Scenario, *, etcd_address: str, log: Callable[[str], None]) -> None:
    """Create the scenario's missing nodes and wait until those are Ready.

    Few nodes go through the API server; from BULK_FROM on they are written straight into etcd.
    """
    started = time.monotonic()
    existing = set(_usable_by_name(api))
    missing = [node for node in manifests_of(scenario) if node["metadata"]["name"] not in existing]
    if len(missing) < BULK_FROM:
        _create_all(api, missing)
    else:
        _check_groups(api, scenario)
        etcd_bulk_load.load(etcd_address, missing)
    if len(missing) >= BULK_FROM:
        _wait_leases(api, missing, len(existing) + len(missing), log)
    _wait_usable(api, {node["metadata"]["name"] for node in missing}, log)
    there = scenario.node_count - len(missing)
    seconds = time.monotonic() - started
    log(f"scenario {scenario.name}: {len(missing)} nodes created, {there} were there ({seconds:.1f} s)")


def _create_all(api: ApiClient, nodes: list[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        list(pool.map(lambda node: api.post("/api/v1/nodes", node), nodes))


def _check_groups(api: ApiClient, scenario: Scenario) -> None:
    """Have the API server check one node of each group, since etcd takes anything."""
    for group in scenario.groups:
        node = _manifest(group, 0, str(FIRST_ADDRESS))
        node["metadata"]["name"] += "-dry-run"
        api.post("/api/v1/nodes?dryRun=All", node)


def manifests_of(scenario: Scenario) -> Iterator[dict[str, Any]]:
    """The scenario's nodes as API objects; every node has its own address, in the order of the file."""
    position = 0
    for group in scenario.groups:
        for index in range(group.count):
            yield _manifest(group, index, str(FIRST_ADDRESS + position))
            position += 1


def _manifest(group: NodeGroup, index: int, address: str) -> dict[str, Any]:
    name = group.node_name(index)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        # Otherwise the controller manager adds these, one patch for each node.
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    }
    taints = [dict(taint) for taint in group.taints]
    if group.zones:
        labels[ZONE_LABEL] = group.zones[index % len(group.zones)]
    if group.racks:
        labels[RACK_LABEL] = group.racks[index % len(group.racks)]
    if group.control_plane:
        labels["node-role.kubernetes.io/control-plane"] = ""
        if group.tainted:
            taints.append({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": labels | dict(group.labels),
        },
        "spec": {"taints": taints, **({"unschedulable": True} if group.unschedulable else {})},
        "status": {
            "capacity": dict(group.capacity),
            "allocatable": dict(group.capacity) | dict(group.allocatable),
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": _node_info(),
            # Born Ready, which saves a write for each node; the Stages do it for nodes that a user adds.
            "conditions": [_ready_condition()],
        },
    }


def _ready_condition() -> dict[str, str]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def _node_info() -> dict[str, str]:
    version = f"v{kubernetes_version()}"
    return {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kubeletVersion": version,
        "kubeProxyVersion": version,
        "containerRuntimeVersion": "kwok",
        "kernelVersion": "kwok",
        "osImage": "kwok",
        "bootID": "",
        "machineID": "",
        "systemUUID": "",
    }


def _wait_usable(api: ApiClient, names: set[str], log: Callable[[str], None]) -> None:
    """Wait until the nodes are Ready and rid of the taint that the API server puts on every new node."""
    wait = _Wait("are not Ready yet", log)
    while waiting := names - {name for name, usable in _usable_by_name(api).items() if usable}:
        wait.pause(len(waiting), len(names))


def _wait_leases(api: ApiClient, nodes: list[dict[str, Any]], count: int, log: Callable[[str], None]) -> None:
    """Wait until kwok has taken all `count` nodes into its care; only then it runs their pods.

    A watch that breaks within a transaction of the bulk load misses its other objects (`etcd_bulk_load._close`). Kwok then never hears of
    some of the new `nodes`. They are created again through the API server, because it takes over nodes only when they appear.
    """
    wait = _Wait("are not taken over by kwok yet", log)
    recreate_at = wait.started + RECREATE_AFTER_S
    while (found := _lease_count(api)) < count:
        if time.monotonic() > recreate_at:
            recreate_without_lease(api, nodes)
            recreate_at = time.monotonic() + RECREATE_AFTER_S
        wait.pause(count - found, count)


def recreate_without_lease(api: ApiClient, nodes: list[dict[str, Any]]) -> None:
    """Delete those of the nodes that have no Lease, and create them again."""
    held = {lease["metadata"]["name"] for lease in api.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")["items"]}
    lost = [node for node in nodes if node["metadata"]["name"] not in held]
    for node in lost:
        api.request("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")
    _create_all(api, lost)


@dataclass
class _Wait:
    """A wait for nodes, with progress lines and an end."""

    what: str
    log: Callable[[str], None]
    started: float = field(default_factory=time.monotonic)
    next_line: float = field(default_factory=lambda: time.monotonic() + PROGRESS_EVERY_S)

    def pause(self, waiting: int, total: int) -> None:
        if time.monotonic() > self.started + READY_TIMEOUT_S:
            raise LabError(f"{waiting} of {total} nodes {self.what} after {READY_TIMEOUT_S:.0f} s: see kwok-controller.log")
        if time.monotonic() > self.next_line:
            self.log(f"  ... {waiting} of {total} nodes {self.what}")
            self.next_line = time.monotonic() + PROGRESS_EVERY_S
        # A list of thousands of nodes is too dear to ask for it all the time.
        time.sleep(0.05 + total / 5000)


def _usable_by_name(api: ApiClient) -> dict[str, bool]:
    nodes = api.get("/api/v1/nodes?resourceVersion=0")["items"]
    return {node["metadata"]["name"]: _is_usable(node) for node in nodes}


def _is_usable(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    taints = node["spec"].get("taints", [])
    ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    return ready and all(taint["key"] != NOT_READY_TAINT for taint in taints)


def _lease_count(api: ApiClient) -> int:
    leases = api.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=1")
    return len(leases["items"]) + int(leases["metadata"].get("remainingItemCount", 0))
