# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Cordoned nodes (kubernetes ``plugins/nodeunschedulable/node_unschedulable.go``)."""

from __future__ import annotations

import typing as t

from ...model.api.node import Node, Taint
from ...model.api.pod import Pod
from ...model.reason import PASSED, Reason, Reasons
from .taint_toleration import tolerates

CORDONED: Reasons = (Reason("node_unschedulable", "node(s) were unschedulable"),)
CORDON_TAINT_KEY = "node.kubernetes.io/unschedulable"


def pre_filter(pod: Pod) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects cordoned nodes. Return None if the pod tolerates the taint of cordoned nodes."""
    if tolerates(pod.spec.tolerations or (), Taint(key=CORDON_TAINT_KEY, effect="NoSchedule")):
        return None
    return lambda node: CORDONED if node.spec.unschedulable else PASSED
