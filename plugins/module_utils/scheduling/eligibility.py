# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes that are open to a pod by rules that no other pod can change; room and host ports do not count."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ..model.objects import Node, Pod
from .reasons import PASSED, Reason, Reasons
from .rules import node_affinity, node_name, node_unschedulable, taint_toleration

NOT_READY: Reasons = (Reason("NodeStatus", "node_not_ready", "node(s) were not ready"),)

# In the order in which the scheduler asks its plugins: the first that rejects gives the reasons.
STATIC_RULES: tuple[t.Callable[[Pod], t.Callable[[Node], Reasons] | None], ...] = (
    node_affinity.prepare_names,
    node_unschedulable.prepare,
    node_name.prepare,
    taint_toleration.prepare,
    node_affinity.prepare,
)


def eligible_nodes(pod: Pod, nodes: Iterable[Node]) -> list[str]:
    """Names of the nodes that are Ready, schedulable, and allowed by the pod's selector, required node affinity and tolerations."""
    check = _checker(pod)
    return [node.name for node in nodes if not check(node)]


def ineligibility(pod: Pod, node: Node) -> Reason | None:
    """Why the node is not eligible, or None.

    A node that is not Ready has a code of its own, ``node_not_ready``: the scheduler itself sees only the taint that follows.
    """
    return next(iter(_checker(pod)(node)), None)


def static_checks(pod: Pod) -> list[t.Callable[[Node], Reasons]]:
    """The static rules that have something to say about the pod, in the scheduler's order."""
    return [check for check in (prepare(pod) for prepare in STATIC_RULES) if check is not None]


def _checker(pod: Pod) -> t.Callable[[Node], Reasons]:
    checks = static_checks(pod)

    def check(node: Node) -> Reasons:
        if not node.ready:
            return NOT_READY
        return next((reasons for reasons in (rule(node) for rule in checks) if reasons), PASSED)

    return check
