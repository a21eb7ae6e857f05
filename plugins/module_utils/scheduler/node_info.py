# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One node with its pods: the scheduler's NodeInfo (kubernetes ``pkg/scheduler/framework/types.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable

from ..model.api.node import Node
from ..model.api.pod import Container, Pod, is_sidecar
from .pod_requests import POD_SLOTS, pod_requests, scored_on_node
from .storage.storage_index import AttachedVolumes

ANY_ADDRESS = "0.0.0.0"

Port = tuple[str, int]
"""Protocol and number."""

UsedPorts = dict[Port, tuple[str, ...]]
"""The addresses on which a host port is in use, by port."""


class HostPort(t.NamedTuple):
    """A host port that a pod requires, with its address."""

    port: Port
    address: str


class PodLoad(t.NamedTuple):
    """The requests of a pod, in scheduler units, and its host ports. ``scored``: its cpu and memory, as the scores count them."""

    requests: dict[str, int]
    ports: tuple[HostPort, ...]
    scored: tuple[int, int]

    @classmethod
    def of(cls, pod: Pod) -> PodLoad:
        """Return the load of a pod that has a node."""
        requests = pod_requests(pod)
        return cls(requests, host_ports(pod), scored_on_node(pod, requests))


class NodeInfo:
    """A node and the pods on it. Read only: ``with_pod`` and ``without_pod`` return a new one.

    ``allocatable`` and ``requested`` are in scheduler units (``pod_requests``). ``pods`` are by key (``pod_key``). ``attached`` and
    ``planner_cache`` store results that follow from the node and its pods alone. ``StorageIndex`` sets ``attached`` at its first use, and a
    planner sets ``planner_cache``.
    """

    __slots__ = ("_scored", "allocatable", "allowed_pods", "attached", "node", "planner_cache", "pods", "requested", "used_ports")

    def __init__(
        self,
        node: Node,
        allocatable: dict[str, int],
        requested: dict[str, int],
        used_ports: UsedPorts,
        pods: dict[str, tuple[Pod, PodLoad]],
    ) -> None:
        self.node = node
        self.allocatable = allocatable
        self.allowed_pods = allocatable.get(POD_SLOTS, 0)
        self.requested = requested
        self.used_ports = used_ports
        self.pods = pods
        self.attached: AttachedVolumes | None = None
        self.planner_cache: object = None
        self._scored: tuple[int, int] | None = None

    @classmethod
    def build(cls, node: Node, allocatable: dict[str, int], pods: dict[str, tuple[Pod, PodLoad]]) -> NodeInfo:
        """Return the node with all pods that are on it."""
        requested: dict[str, int] = {}
        for _pod, load in pods.values():
            for name, amount in load.requests.items():
                requested[name] = requested.get(name, 0) + amount
        return cls(node, allocatable, requested, _used_ports(load for _pod, load in pods.values() if load.ports), pods)

    def scored(self) -> tuple[int, int]:
        """Return the cpu and the memory of all pods, as the scores count them: the scheduler's NonZeroRequested."""
        if self._scored is None:
            cpu = memory = 0
            for _pod, load in self.pods.values():
                cpu += load.scored[0]
                memory += load.scored[1]
            self._scored = cpu, memory
        return self._scored

    def with_pod(self, key: str, pod: Pod, load: PodLoad) -> NodeInfo:
        """Return the node with one more pod."""
        pods = {**self.pods, key: (pod, load)}
        requested = dict(self.requested)
        for name, amount in load.requests.items():
            requested[name] = requested.get(name, 0) + amount
        return NodeInfo(self.node, self.allocatable, requested, self._ports_for(pods, load), pods)

    def without_pod(self, key: str) -> NodeInfo:
        """Return the node without this pod. Return the same object if the pod is not on it."""
        if key not in self.pods:
            return self
        pods = dict(self.pods)
        _pod, load = pods.pop(key)
        requested = dict(self.requested)
        for name, amount in load.requests.items():
            requested[name] -= amount
        return NodeInfo(self.node, self.allocatable, requested, self._ports_for(pods, load), pods)

    def without_pods(self, keys: Collection[str]) -> NodeInfo:
        """Return the node without the pods that have these keys."""
        pods = {key: there for key, there in self.pods.items() if key not in keys}
        return NodeInfo.build(self.node, self.allocatable, pods)

    def without_attached_volumes(self) -> NodeInfo:
        """Return the same node and pods without the stored result about attached volumes."""
        other = NodeInfo(self.node, self.allocatable, self.requested, self.used_ports, self.pods)
        other.planner_cache = self.planner_cache
        return other

    def _ports_for(self, pods: dict[str, tuple[Pod, PodLoad]], changed: PodLoad) -> UsedPorts:
        return _used_ports(load for _pod, load in pods.values()) if changed.ports else self.used_ports


def _used_ports(loads: Iterable[PodLoad]) -> UsedPorts:
    used: UsedPorts = {}
    for load in loads:
        for port, address in load.ports:
            used[port] = (*used.get(port, ()), address)
    return used


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of containers that run as long as the pod; with ``hostNetwork`` every container port is a host port.

    Source: kubernetes ``pkg/scheduler/util/utils.go`` (GetHostPorts) and ``core/v1/defaults.go`` (defaultHostNetworkPorts).
    """
    found: list[HostPort] = []
    for container in (*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers or ())):
        found.extend(_ports_of(container, host_network=pod.spec.host_network))
    return tuple(found)


def _ports_of(container: Container, *, host_network: bool) -> Iterable[HostPort]:
    for port in container.ports or ():
        number = port.host_port or (port.container_port if host_network else 0)
        if number > 0:
            yield HostPort((port.protocol or "TCP", number), port.host_ip or ANY_ADDRESS)


def pod_key(pod: Pod) -> str:
    """Return the uid of the pod, or namespace and name if it has no uid yet. Raise ValueError if it has neither uid nor name."""
    metadata = pod.metadata
    if not metadata.uid and not metadata.name:
        raise ValueError("a pod without uid and name cannot be placed: give simulated pods a uid of their own")
    return metadata.uid or f"{metadata.namespace}/{metadata.name}"
