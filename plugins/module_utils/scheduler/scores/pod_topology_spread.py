# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Topology spread constraints with ScheduleAnyway (kubernetes ``plugins/podtopologyspread/scoring.go`` and ``common.go``)."""

from __future__ import annotations

import math
import typing as t
from collections import Counter
from collections.abc import Collection, Sequence
from copy import copy

from ...model.api.node import Node
from ...model.api.pod import Pod, TopologySpreadConstraint
from ...model.selectors.label_selector import matches
from ...model.selectors.match_label_keys import with_label_keys
from ...model.well_known import HOSTNAME
from ..affinity_term_index import AffinityTermIndex
from ..filters.interface import PodChange
from ..filters.spread_domains import SpreadDomains
from .go_numbers import rounded_half_up
from .interface import MAX_NODE_SCORE, NodeCounts, RelativeScore, ScoresByPart

NodeDomainsPart = tuple[t.Union[str, int, None], ...]
"""The domain of a node for each constraint, or the number of matching pods on the node for the key of its host.

It is None if the node does not have the key.
"""


def pre_score(
    pod: Pod,
    constraints: Sequence[TopologySpreadConstraint],
    groups: AffinityTermIndex,
    domains: SpreadDomains,
    *,
    needs_all_keys: bool,
) -> RelativeScore | None:
    """Return the score that is higher for a node in domains with fewer pods that the constraints select.

    ``constraints``: those with ScheduleAnyway. ``needs_all_keys``: a node without the topology key of a constraint gets the lowest score.
    Return None if there are no constraints.
    """
    if not constraints:
        return None
    return _PodTopologySpreadScore(pod, constraints, groups, domains, needs_all_keys=needs_all_keys)


class _PodTopologySpreadScore:
    def __init__(
        self,
        pod: Pod,
        constraints: Sequence[TopologySpreadConstraint],
        groups: AffinityTermIndex,
        domains: SpreadDomains,
        *,
        needs_all_keys: bool,
    ) -> None:
        self._needs_all_keys = needs_all_keys
        needed = frozenset(one.topology_key for one in constraints) if needs_all_keys else frozenset()
        self._constraints = [_ConstraintScore(one, needed, pod, groups, domains) for one in constraints]
        self.signature = (needs_all_keys, tuple(one.topology_key for one in constraints))

    def copy(self) -> _PodTopologySpreadScore:
        other = copy(self)
        other._constraints = [constraint.copy() for constraint in self._constraints]
        return other

    @property
    def nodes_with_counts(self) -> Collection[str]:
        """The nodes that had matching pods, if a constraint is about hosts."""
        return {name for constraint in self._constraints for name in constraint.nodes_with_counts}

    def node_part(self, node: Node, /) -> NodeDomainsPart | None:
        """Return the domains of the node. Return None for a node that gets the lowest score."""
        part = tuple([constraint.node_part(node) for constraint in self._constraints])
        return None if self._needs_all_keys and None in part else part

    def part_without_pods(self, node: Node, /) -> NodeDomainsPart | None:
        part = tuple([constraint.part_without_pods(node) for constraint in self._constraints])
        return None if self._needs_all_keys and None in part else part

    def scores(self, nodes: NodeCounts, /) -> ScoresByPart:
        scored: dict[NodeDomainsPart, int] = {part: number for part, number in nodes.items() if part is not None}
        total = sum(scored.values())
        weights = [constraint.weight([part[number] for part in scored], total) for number, constraint in enumerate(self._constraints)]
        raw = {part: self._raw(part, weights) for part in scored}
        least, most = min(raw.values(), default=0), max(raw.values(), default=0)
        found: dict[NodeDomainsPart | None, int] = {None: 0} if None in nodes else {}
        for part, score in raw.items():
            found[part] = MAX_NODE_SCORE * (most + least - score) // most if most else MAX_NODE_SCORE
        return found

    def _raw(self, part: NodeDomainsPart, weights: Sequence[float]) -> int:
        score = 0.0
        for constraint, own, weight in zip(self._constraints, part, weights):
            if own is not None:
                score += constraint.raw(own, weight)
        return rounded_half_up(score)

    def apply_changes(self, changes: Sequence[PodChange], /) -> bool:
        for constraint in self._constraints:
            constraint.apply_changes(changes)
        return False


class _ConstraintScore:
    """The pods that one constraint counts, by domain, or by node if the domains are the hosts."""

    def __init__(
        self, constraint: TopologySpreadConstraint, needed: frozenset[str], pod: Pod, groups: AffinityTermIndex, domains: SpreadDomains
    ) -> None:
        self._key = constraint.topology_key
        self._max_skew = constraint.max_skew
        self._namespace = pod.metadata.namespace
        self._selector = with_label_keys(constraint.label_selector, pod.metadata.labels, match=constraint.match_label_keys)
        # Only the pods on the node itself count for the host, and the policies for nodes do not matter.
        self._domain_of: dict[str, str] | None = None
        if self._key != HOSTNAME:
            self._domain_of = domains.domains(
                self._key,
                needed,
                pod,
                honor_affinity=constraint.node_affinity_policy != "Ignore",
                honor_taints=constraint.node_taints_policy == "Honor",
            ).of_node
        self._counts: Counter[str] = Counter()
        # A selector without requirements selects every pod, but the scheduler counts none.
        self._counts_any = self._selector is not None and bool(self._selector.match_labels or self._selector.match_expressions)
        for group in groups.pods_matching(self._namespace, self._selector) if self._counts_any else ():
            if not group.pod.terminating:
                for node_name, number in group.nodes.items():
                    self._add(node_name, number)

    def copy(self) -> _ConstraintScore:
        """Return a score that changes independently."""
        other = copy(self)
        other._counts = self._counts.copy()
        return other

    @property
    def nodes_with_counts(self) -> Collection[str]:
        """The nodes that had matching pods, if the domains are the hosts."""
        return self._counts if self._domain_of is None else ()

    def node_part(self, node: Node) -> str | int | None:
        part = self.part_without_pods(node)
        return self._counts.get(node.name, 0) if isinstance(part, int) else part

    def part_without_pods(self, node: Node) -> str | int | None:
        domain = node.labels.get(self._key)
        return domain if domain is None or self._domain_of is not None else 0

    def weight(self, parts: Sequence[str | int | None], total: int) -> float:
        """Return the weight of the constraint, which rises with the number of domains (topologyNormalizingWeight).

        ``parts``: those of the scored nodes. ``total``: the number of scored nodes.
        """
        # Nodes without the key count as nodes with an empty value.
        size = total if self._domain_of is None else len({part or "" for part in parts})
        # The last bit differs from that of Go's logarithm in 1 % of all cases, which is too little to change a rounded score.
        return math.log(size + 2)

    def raw(self, part: str | int, weight: float) -> float:
        """Return the raw score of a node (scoreForCount)."""
        count = part if isinstance(part, int) else self._counts.get(part, 0)
        return count * weight + (self._max_skew - 1)

    def apply_changes(self, changes: Sequence[PodChange]) -> None:
        for other, node_name, amount in changes if self._counts_any else ():
            if amount and not other.terminating and self._selects(other):
                self._add(node_name, amount)

    def _selects(self, other: Pod) -> bool:
        return other.metadata.namespace == self._namespace and matches(self._selector, other.metadata.labels)

    def _add(self, node_name: str, amount: int) -> None:
        domain = node_name if self._domain_of is None else self._domain_of.get(node_name)
        if domain is not None:
            self._counts[domain] += amount
