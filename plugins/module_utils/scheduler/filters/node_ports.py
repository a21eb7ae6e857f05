# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes on which the host ports of a pod are free (kubernetes ``plugins/nodeports/node_ports.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...model.api.pod import Pod
from ...model.reason import PASSED, Reason, Reasons
from ..node_info import ANY_ADDRESS, HostPort, NodeInfo, Port, host_ports


def clashes(wanted: HostPort, used: Mapping[Port, tuple[str, ...]]) -> bool:
    """Return whether the port is in use on the same address, or on any address if one of the two is for all addresses."""
    addresses = used.get(wanted.port)
    if not addresses:
        return False
    return wanted.address == ANY_ADDRESS or ANY_ADDRESS in addresses or wanted.address in addresses


TAKEN: Reasons = (Reason("host_ports", "node(s) didn't have free ports for the requested pod ports"),)


def pre_filter(pod: Pod) -> t.Callable[[NodeInfo], Reasons] | None:
    """Return the check that rejects nodes on which a host port of the pod is in use. Return None if the pod has no host ports."""
    wanted = host_ports(pod)
    if not wanted:
        return None

    def check(info: NodeInfo) -> Reasons:
        used = info.used_ports
        return TAKEN if used and any(clashes(port, used) for port in wanted) else PASSED

    return check
