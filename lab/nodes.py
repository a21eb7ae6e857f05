# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node objects of a scenario, created in parallel.

Nodes that exist already are left as they are, so that a scenario can be applied again.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from typing import Any

from lab.api import ApiClient
from lab.binaries import KUBERNETES_VERSION
from lab.errors import LabError
from lab.scenario import RACK_LABEL, ZONE_LABEL, NodeGroup, Scenario

PARALLEL_REQUESTS = 8
PROGRESS_EVERY_S = 5.0
FIRST_ADDRESS = IPv4Address("172.20.0.1")
READY_TIMEOUT_S = 120.0
NOT_READY_TAINT = "node.kubernetes.io/not-ready"


def create(api: ApiClient, scenario: Scenario, log: Callable[[str], None]) -> None:
    """Create the scenario's missing nodes and wait until those are Ready."""
    started = time.monotonic()
    created = _create_missing(api, scenario, log)
    _wait_usable(api, created, log)
    seconds = time.monotonic() - started
    existing = scenario.node_count - len(created)
    log(f"scenario {scenario.name}: {len(created)} nodes created, {existing} were there ({seconds:.1f} s)")


def _create_missing(api: ApiClient, scenario: Scenario, log: Callable[[str], None]) -> set[str]:
    created: set[str] = set()
    next_line = time.monotonic() + PROGRESS_EVERY_S
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        for name in pool.map(lambda manifest: _create_one(api, manifest), manifests_of(scenario)):
            created |= {name} if name else set()
            if time.monotonic() > next_line:
                log(f"  ... {len(created)} of {scenario.node_count} nodes created")
                next_line = time.monotonic() + PROGRESS_EVERY_S
    return created


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
        },
    }


def _node_info() -> dict[str, str]:
    version = f"v{KUBERNETES_VERSION}"
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


def _create_one(api: ApiClient, manifest: dict[str, Any]) -> str | None:
    """Name of the node if it was created, None if it was there."""
    name: str = manifest["metadata"]["name"]
    response = api.request("POST", "/api/v1/nodes", manifest)
    if response.status == http.client.CONFLICT:
        return None
    if response.status != http.client.CREATED:
        raise LabError(f"Node {name}: HTTP {response.status}: {response.message}")
    return name


def _wait_usable(api: ApiClient, names: set[str], log: Callable[[str], None]) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    next_line = time.monotonic() + PROGRESS_EVERY_S
    # A list of thousands of nodes is too dear to ask for it all the time.
    pause_s = 0.05 + len(names) / 2500
    while waiting := names - _usable_names(api):
        if time.monotonic() > deadline:
            raise LabError(f"Node {min(waiting)} and {len(waiting) - 1} others are not Ready: see logs kwok-controller")
        if time.monotonic() > next_line:
            log(f"  ... {len(waiting)} of {len(names)} new nodes are not Ready yet")
            next_line = time.monotonic() + PROGRESS_EVERY_S
        time.sleep(pause_s)


def _usable_names(api: ApiClient) -> set[str]:
    nodes = api.get("/api/v1/nodes?resourceVersion=0")["items"]
    return {node["metadata"]["name"] for node in nodes if _is_usable(node)}


def _is_usable(node: dict[str, Any]) -> bool:
    """Ready, and rid of the taint that the API server puts on every new node."""
    conditions = node.get("status", {}).get("conditions", [])
    taints = node["spec"].get("taints", [])
    ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    return ready and all(taint["key"] != NOT_READY_TAINT for taint in taints)
