# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods that name their node (kubernetes ``plugins/nodename/node_name.go``)."""

from __future__ import annotations

import typing as t

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import PASSED, Reason, Reasons

OTHER_NODE: Reasons = (Reason("node_name", "node(s) didn't match the requested node name"),)


def pre_filter(pod: Pod) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects every node except the one that the pod names. Return None if the pod names no node."""
    name = pod.spec.node_name
    if not name:
        return None
    return lambda node: PASSED if node.name == name else OTHER_NODE
