# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Free host ports (kubernetes ``plugins/nodeports/node_ports.go``)."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import PASSED, Reason, Reasons
from ..host_ports import clashes, host_ports
from ..node_info import NodeInfo

TAKEN: Reasons = (Reason("host_ports", "node(s) didn't have free ports for the requested pod ports"),)


def prepare(pod: Pod) -> t.Callable[[NodeInfo], Reasons] | None:
    """Rejects nodes on which a host port of the pod is taken."""
    wanted = host_ports(pod)
    if not wanted:
        return None

    def check(info: NodeInfo) -> Reasons:
        used = info.used_ports
        return TAKEN if used and any(clashes(port, used) for port in wanted) else PASSED

    return check
