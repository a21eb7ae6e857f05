# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Preferred node affinity of the pod, and of the profile (kubernetes ``plugins/nodeaffinity/node_affinity.go``).

Source of the sum: component-helpers ``scheduling/corev1/nodeaffinity/nodeaffinity.go`` (PreferredSchedulingTerms).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...model.api.node import Node, NodeSelector
from ...model.api.pod import Pod, PreferredSchedulingTerm
from ...model.codec import encode_json
from ...model.selectors.node_selector import compile_selector
from ..filters.interface import PodChange
from .interface import NodeCounts, RelativeScore, ScoresByPart, normalised


def pre_score(pod: Pod, added: Sequence[PreferredSchedulingTerm]) -> RelativeScore | None:
    """Return the score that is higher for a node that matches more terms. ``added``: the terms of the profile.

    Return None if there are no terms.
    """
    terms = (*added, *_preferred_terms(pod))
    return _NodeAffinityScore(terms) if terms else None


class _NodeAffinityScore:
    nodes_with_counts: Collection[str] = ()

    def __init__(self, terms: Sequence[PreferredSchedulingTerm]) -> None:
        self.signature = encode_json(terms)
        self._terms = [(term.weight, compile_selector(NodeSelector(node_selector_terms=(term.preference,)))) for term in terms]

    def copy(self) -> _NodeAffinityScore:
        return self  # it counts nothing

    def node_part(self, node: Node, /) -> int:
        """Return the sum of the weights of the terms that match."""
        return sum(weight for weight, matches in self._terms if matches(node))

    part_without_pods = node_part

    def scores(self, nodes: NodeCounts, /) -> ScoresByPart:
        return normalised({weight: weight for weight in nodes}, reverse=False)

    def apply_changes(self, _changes: Sequence[PodChange], /) -> bool:
        return False


def _preferred_terms(pod: Pod) -> Sequence[PreferredSchedulingTerm]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return ()
    return affinity.node_affinity.preferred_during_scheduling_ignored_during_execution or ()
