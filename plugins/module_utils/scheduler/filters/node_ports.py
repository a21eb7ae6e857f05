# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The host ports of pods, and the nodes on which they are free (kubernetes ``plugins/nodeports/node_ports.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ...model.api.pod import Container, Pod, is_sidecar
from ...model.reason import PASSED, Reason, Reasons

ANY_ADDRESS = "0.0.0.0"

Port = tuple[str, int]
"""Protocol and number."""

UsedPorts = dict[Port, tuple[str, ...]]
"""The addresses on which a host port is in use, by port."""


class HostPort(t.NamedTuple):
    """A host port that a pod requires, with its address."""

    port: Port
    address: str


class HasUsedPorts(t.Protocol):
    """A node with the host ports that its pods use: a ``NodeInfo``."""

    @property
    def used_ports(self) -> UsedPorts:
        """The addresses by port."""


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


def clashes(wanted: HostPort, used: Mapping[Port, tuple[str, ...]]) -> bool:
    """Return whether the port is in use on the same address, or on any address if one of the two is for all addresses."""
    addresses = used.get(wanted.port)
    if not addresses:
        return False
    return wanted.address == ANY_ADDRESS or ANY_ADDRESS in addresses or wanted.address in addresses


TAKEN: Reasons = (Reason("host_ports", "node(s) didn't have free ports for the requested pod ports"),)


def pre_filter(pod: Pod) -> t.Callable[[HasUsedPorts], Reasons] | None:
    """Return the check that rejects nodes on which a host port of the pod is in use. Return None if the pod has no host ports."""
    wanted = host_ports(pod)
    if not wanted:
        return None

    def check(info: HasUsedPorts) -> Reasons:
        used = info.used_ports
        return TAKEN if used and any(clashes(port, used) for port in wanted) else PASSED

    return check
