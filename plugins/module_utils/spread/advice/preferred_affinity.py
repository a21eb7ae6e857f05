# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Explanation of uneven replicas: a preferred affinity attracts new pods to the domains of the present ones."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ...model.api.node import Node
from ...model.api.pod import NodeAffinity, Pod
from ...model.reason import Reason
from ...model.selectors.label_selector import matches
from ...model.selectors.node_selector import term_matches

COUNTERACTING_NODE_AFFINITY = Reason(
    "preference_outweighs",
    "a preferred node affinity favours the nodes where the replicas are now; lower it, or add a spread constraint",
)
COUNTERACTING_POD_AFFINITY = Reason(
    "preference_outweighs",
    "a preferred pod affinity draws the workload's own pods together; remove it, or narrow its selector",
)


def preferred_affinity_reason(
    pod: Pod, node_names: Iterable[str], candidates: Iterable[str], nodes: Mapping[str, Node]
) -> t.Optional[Reason]:
    """Return the reason if a preferred affinity of a new pod attracts it to the domains of the present replicas.

    None without such an affinity. The reason explains why the replicas are uneven, and it decides nothing: only the prediction computes
    all scores. The scheduler scales preferred node affinity to the same range as its own spreading (scores of 0 to 100, both with weight
    2). A preference that only the present nodes meet may therefore win, whatever its own weight is. A preferred affinity to the workload's
    own pods places them together in the same way.
    """
    affinity = pod.spec.affinity
    if affinity is None:
        return None
    if affinity.node_affinity is not None:
        present = {name for name in node_names if name in nodes}
        best = max((_preference(affinity.node_affinity, nodes[name]) for name in present), default=0)
        others = [name for name in candidates if name not in present]
        if best > max((_preference(affinity.node_affinity, nodes[name]) for name in others), default=best):
            return COUNTERACTING_NODE_AFFINITY
    soft = affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution if affinity.pod_affinity is not None else None
    labels = pod.metadata.labels
    if any(matches(term.pod_affinity_term.label_selector, labels) for term in soft or ()):
        return COUNTERACTING_POD_AFFINITY
    return None


def _preference(affinity: NodeAffinity, node: Node) -> int:
    terms = affinity.preferred_during_scheduling_ignored_during_execution or ()
    return sum(term.weight for term in terms if term_matches(term.preference, node))
