# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Preferred affinity and anti-affinity between pods (kubernetes ``plugins/interpodaffinity/scoring.go``).

The preferred terms of the pod count, and so do the preferred terms and the required affinity terms of the pods on nodes.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy

from ...model.api.node import Node
from ...model.api.pod import Pod, PodAffinityTerm
from ...model.reason import PASSED, Reasons
from ...model.score_settings import ScoreSettings
from ...model.selectors.label_selector import matches
from ...model.snapshot import ClusterSnapshot
from ...model.well_known import HOSTNAME
from ..affinity_namespaces import NAMESPACE_NOT_READ, incoming_term_selects, placed_term_selects
from ..affinity_term_index import AffinityTermIndex, ScoredTerm, preferred_anti_affinity, preferred_pod_affinity, scored_terms
from ..filters.interface import PodChange
from .interface import MAX_NODE_SCORE, NodeCounts, ScoresByPart

_Part = tuple[t.Union[str, int, None], ...]
"""The domain of the node for each topology key. For the key of the host it is the weight of the domain: each node has another domain."""


class HostIndex:
    """The nodes of a snapshot by the label of their host. ``by_host``: usually one node for each value."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.by_host: dict[str, list[str]] = {}
        for name, node in snapshot.nodes.items():
            host = node.labels.get(HOSTNAME)
            if host is not None:
                self.by_host.setdefault(host, []).append(name)


class InterPodAffinityScore:
    """The score that is higher for a node in domains with more weight of the terms.

    ``unknown``: the reason why the scores are not known, if a term depends on the labels of a namespace that could not be read.
    """

    def __init__(
        self, pod: Pod, snapshot: ClusterSnapshot, groups: AffinityTermIndex, hosts: t.Callable[[], HostIndex], settings: ScoreSettings
    ) -> None:
        self.unknown: Reasons = PASSED
        self._pod = pod
        self._nodes = snapshot.nodes
        self._namespaces = snapshot.namespaces
        self._hosts = hosts
        self._hard_weight = settings.hard_pod_affinity_weight
        self._terms = [*preferred_pod_affinity(pod), *preferred_anti_affinity(pod)]
        self._is_skipped = settings.ignores_preferred_terms and not self._terms
        # Topology key to the sum of the weights in each domain. A key stays if its sums become 0, so that node parts stay comparable.
        self._weights: dict[str, Counter[str]] = {scored.term.topology_key: Counter() for scored in self._terms}
        self._keys: tuple[str, ...] = tuple(self._weights)
        if not self._is_skipped:
            self._count_snapshot(groups)

    def copy(self) -> InterPodAffinityScore:
        other = copy(self)
        other._weights = {key: weights.copy() for key, weights in self._weights.items()}
        return other

    @property
    def nodes_with_counts(self) -> Collection[str]:
        """The nodes whose host has a weight, or had one."""
        counted = self._weights.get(HOSTNAME)
        return [name for host in counted for name in self._hosts().by_host[host]] if counted else ()

    @property
    def signature(self) -> tuple[str, ...]:
        """The topology keys of the terms."""
        return self._keys

    def node_part(self, node: Node, /) -> _Part:
        labels = node.labels
        return tuple([self._host_weight(labels.get(key)) if key == HOSTNAME else labels.get(key) for key in self._keys])

    def _host_weight(self, host: str | None) -> int:
        return self._weights[HOSTNAME].get(host, 0) if host is not None else 0

    def part_without_pods(self, node: Node, /) -> _Part:
        labels = node.labels
        return tuple([0 if key == HOSTNAME else labels.get(key) for key in self._keys])

    def scores(self, nodes: NodeCounts, /) -> ScoresByPart:
        raw: dict[_Part, int] = {part: self._raw(part) for part in nodes}
        least, most = min(raw.values(), default=0), max(raw.values(), default=0)
        if most == least:
            return dict.fromkeys(raw, 0)
        return {part: int(float(MAX_NODE_SCORE) * (float(score - least) / float(most - least))) for part, score in raw.items()}

    def _raw(self, part: _Part) -> int:
        total = 0
        for key, domain in zip(self._keys, part):
            if isinstance(domain, int):
                total += domain
            elif domain is not None:
                total += self._weights[key].get(domain, 0)
        return total

    def apply_changes(self, changes: Sequence[PodChange], /) -> bool:
        keys, others_changed = self._keys, False
        for other, node_name, amount in changes if not self._is_skipped else ():
            if amount:
                self._count_pod(other, {node_name: amount})
                others_changed = others_changed or self._shares_host(node_name)
        return others_changed or self._keys != keys

    def _shares_host(self, node_name: str) -> bool:
        """Return whether other nodes have the same label of the host, and weights of hosts count."""
        host = self._nodes[node_name].labels.get(HOSTNAME)
        return HOSTNAME in self._weights and host is not None and len(self._hosts().by_host[host]) > 1

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
