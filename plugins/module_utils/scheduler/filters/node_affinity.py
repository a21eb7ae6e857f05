# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Node selector and required node affinity (kubernetes ``plugins/nodeaffinity``, component-helpers ``nodeaffinity.go``)."""

from __future__ import annotations

import typing as t

from ...model.api.node import Node, NodeSelector
from ...model.api.pod import Pod
from ...model.reason import PASSED, Reason, Reasons
from ...model.selectors.node_selector import NAME_FIELD, compile_selector

MISMATCH: Reasons = (Reason("node_affinity", "node(s) didn't match Pod's node affinity/selector"),)
UNNAMED: Reasons = (Reason("node_affinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]"),)
ENFORCED: Reasons = (Reason("scheduler_node_affinity", "node(s) didn't match scheduler-enforced node affinity"),)
CONFLICT: Reasons = (Reason("node_affinity_conflict", "pod affinity terms conflict"),)


def pre_filter_names(pod: Pod) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects nodes that the affinity excludes by name. Return None if it names no nodes.

    It runs before all other filters, as the plugin's PreFilter does.
    """
    names = named_nodes(required_node_affinity(pod))
    if names is None:
        return None
    if not names:
        return lambda _node: CONFLICT
    return lambda node: PASSED if node.name in names else UNNAMED


def is_conflict(pod: Pod) -> bool:
    """Return whether the affinity names nodes in a way that no node can match. The scheduler checks this first."""
    return named_nodes(required_node_affinity(pod)) == frozenset()


def pre_filter(pod: Pod) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects nodes without a label of the node selector, or that match no term of the required affinity.

    Return None if the pod has neither a node selector nor required node affinity.
    """
    selector = tuple((pod.spec.node_selector or {}).items())
    required = required_node_affinity(pod)
    if not selector and required is None:
        return None
    matches = None if required is None else compile_selector(required)

    def check(node: Node) -> Reasons:
        labels = node.labels
        for key, value in selector:
            if labels.get(key) != value:
                return MISMATCH
        return PASSED if matches is None or matches(node) else MISMATCH

    return check


def pre_filter_added(added: NodeSelector | None) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects nodes that match no term of the affinity that the scheduler's profile adds to every pod.

    Return None if the profile adds none. It runs before the check of the pod's own affinity.
    """
    if added is None:
        return None
    matches = compile_selector(added)
    return lambda node: PASSED if matches(node) else ENFORCED


def required_node_affinity(pod: Pod) -> NodeSelector | None:
    """Return the pod's required node affinity. Return None if it has none."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """Return the only nodes that can match if every term names some. Return None if a term names no nodes."""
    names: frozenset[str] = frozenset()
    for term in required.node_selector_terms if required is not None else ():
        named = [frozenset(field.values or ()) for field in term.match_fields or () if (field.key, field.operator) == (NAME_FIELD, "In")]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return names if required is not None and required.node_selector_terms else None
