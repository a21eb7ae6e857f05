# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Preferred affinity and anti-affinity between pods (kubernetes ``plugins/interpodaffinity/scoring.go``).

The preferred terms of the pod count, and so do the preferred terms and the required affinity terms of the pods on nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...model.api.node import Node
from ...model.api.pod import Pod, PodAffinityTerm
from ...model.reason import PASSED, Reasons
from ...model.score_settings import ScoreSettings
from ...model.selectors.label_selector import matches
from ...model.snapshot import ClusterSnapshot
from ..affinity_namespaces import NAMESPACE_NOT_READ, incoming_term_selects, placed_term_selects
from ..affinity_term_index import AffinityTermIndex, ScoredTerm, preferred_anti_affinity, preferred_pod_affinity, scored_terms
from ..filters.interface import PodChange
from .interface import MAX_NODE_SCORE, NodeCounts, ScoresByPart


class InterPodAffinityScore:
    """The score that is higher for a node in domains with more weight of the terms.

    ``unknown``: the reason why the scores are not known, if a term depends on the labels of a namespace that could not be read.
    """

    def __init__(self, pod: Pod, snapshot: ClusterSnapshot, groups: AffinityTermIndex, settings: ScoreSettings) -> None:
        self.unknown: Reasons = PASSED
        self._pod = pod
        self._nodes = snapshot.nodes
        self._namespaces = snapshot.namespaces
        self._hard_weight = settings.hard_pod_affinity_weight
        self._terms = [*preferred_pod_affinity(pod), *preferred_anti_affinity(pod)]
        self._is_skipped = settings.ignores_preferred_terms and not self._terms
        # Topology key to the sum of the weights in each domain. A key stays if its sums become 0, so that node parts stay comparable.
        self._weights: dict[str, Counter[str]] = {scored.term.topology_key: Counter() for scored in self._terms}
        self._keys: tuple[str, ...] = tuple(self._weights)
        if not self._is_skipped:
            self._count_snapshot(groups)

    counted_nodes: Collection[str] = ()

    @property
    def signature(self) -> tuple[str, ...]:
        """The topology keys of the terms."""
        return self._keys

    def node_part(self, node: Node, /) -> tuple[str | None, ...]:
        """Return the domain of the node for each topology key. It is None if the node does not have the key."""
        labels = node.labels
        return tuple([labels.get(key) for key in self._keys])

    part_without_pods = node_part

    def scores(self, nodes: NodeCounts, /) -> ScoresByPart:
        weights = [self._weights[key] for key in self._keys]
        raw: dict[tuple[str | None, ...], int] = {
            part: sum([of_key.get(domain, 0) for of_key, domain in zip(weights, part) if domain is not None]) for part in nodes
        }
        least, most = min(raw.values(), default=0), max(raw.values(), default=0)
        if most == least:
            return dict.fromkeys(raw, 0)
        return {part: int(float(MAX_NODE_SCORE) * (float(score - least) / float(most - least))) for part, score in raw.items()}

    def apply_changes(self, changes: Sequence[PodChange], /) -> bool:
        keys = self._keys
        for other, node_name, amount in changes if not self._is_skipped else ():
            if amount:
                self._count_pod(other, {node_name: amount})
        return self._keys != keys

    def _count_snapshot(self, groups: AffinityTermIndex) -> None:
        for scored in self._terms:
            term = scored.term
            own = not term.namespaces and term.namespace_selector is None
            for group in groups.pods_matching(self._pod.metadata.namespace if own else None, term.label_selector):
                self._count(scored, group.nodes, incoming_term_selects(term, self._pod, group.pod, self._namespaces))
        for group, scored in groups.scored_terms_matching(self._pod, self._namespaces):
            self._count(scored, group.nodes, self._is_selected(scored.term, group.pod))

    def _count_pod(self, other: Pod, numbers: Mapping[str, int]) -> None:
        """Add pods that are like the other one, by node."""
        for scored in self._terms:
            if matches(scored.term.label_selector, other.metadata.labels):
                self._count(scored, numbers, incoming_term_selects(scored.term, self._pod, other, self._namespaces))
        for scored in scored_terms(other):
            if matches(scored.term.label_selector, self._pod.metadata.labels):
                self._count(scored, numbers, self._is_selected(scored.term, other))

    def _is_selected(self, term: PodAffinityTerm, owner: Pod) -> bool | None:
        return placed_term_selects(term, owner, self._pod, self._namespaces)

    def _count(self, scored: ScoredTerm, numbers: Mapping[str, int], selected: bool | None) -> None:
        weight = self._hard_weight if scored.weight is None else scored.weight
        if selected is False or not weight:
            return
        if selected is None:
            self.unknown = NAMESPACE_NOT_READ
            return
        key = scored.term.topology_key
        for domain, number in self._by_domain(key, numbers):
            if key not in self._weights:
                self._weights[key] = Counter()
                self._keys = tuple(self._weights)
            self._weights[key][domain] += weight * number

    def _by_domain(self, key: str, numbers: Mapping[str, int]) -> Iterable[tuple[str, int]]:
        for name, number in numbers.items():
            domain = self._nodes[name].labels.get(key)
            if domain is not None:
                yield domain, number
