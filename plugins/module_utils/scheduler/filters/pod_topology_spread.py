# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Topology spread constraints with DoNotSchedule: ``maxSkew`` and ``minDomains``.

Source: kubernetes ``plugins/podtopologyspread/filtering.go`` and ``common.go``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from copy import copy

from ...model.api.node import Node
from ...model.api.pod import Pod, TopologySpreadConstraint
from ...model.reason import PASSED, Reason, Reasons
from ...model.selectors.label_selector import matches
from ...model.selectors.match_label_keys import with_label_keys
from ..affinity_term_index import AffinityTermIndex
from ..domain_groups import DomainGroups
from .interface import PodChange, TopologyFilter
from .spread_domains import SpreadDomains

TOO_SKEWED: Reasons = (Reason("topology_spread", "node(s) didn't match pod topology spread constraints"),)
MISSING_LABEL: Reasons = (Reason("topology_spread_label", "node(s) didn't match pod topology spread constraints (missing required label)"),)


def pre_filter(pod: Pod, groups: AffinityTermIndex, counted: SpreadDomains) -> TopologyFilter | None:
    """Return the filter that rejects nodes without a topology key of a constraint, or in a domain that is full for one more pod.

    Return None if the pod has no such constraint. Constraints that the cluster adds to pods without constraints do not count here: the
    scheduler's own constraints are ScheduleAnyway.
    """
    hard = [constraint for constraint in pod.spec.topology_spread_constraints or () if constraint.when_unsatisfiable == "DoNotSchedule"]
    if not hard:
        return None
    keys = frozenset(constraint.topology_key for constraint in hard)
    return _PodTopologySpreadFilter(
        [(constraint.topology_key, _ConstraintCounts(constraint, keys, pod, groups, counted)) for constraint in hard]
    )


class _PodTopologySpreadFilter:
    """All constraints of a pod with their topology keys, in the pod's order."""

    is_active = True

    def __init__(self, constraints: list[tuple[str, _ConstraintCounts]]) -> None:
        self._constraints = constraints

    @property
    def topology_keys(self) -> Collection[str]:
        return {key for key, _spread in self._constraints}

    def rejects_domain(self, topology_key: str, domain: str | None) -> bool:
        return any(key == topology_key and (domain is None or constraint.is_full(domain)) for key, constraint in self._constraints)

    def closed_domains(self) -> dict[str, set[str | None]]:
        closed: dict[str, set[str | None]] = {}
        for key, constraint in self._constraints:
            closed.setdefault(key, {None}).update(constraint.full_domains())
        return closed

    def surely_allows(self, pods: int, nodes: tuple[str, ...], changed: int, groups: DomainGroups) -> bool:
        if len(self._constraints) > 1:
            return False
        ((key, constraint),) = self._constraints
        # The domain with the fewest pods always allows one more.
        by_domain = groups.by_domain(nodes, key)
        return constraint.has_open_domain and all(len(by_domain.get(domain, ())) >= pods + changed for domain in constraint.domains)

    def apply_changes(self, changes: Sequence[PodChange]) -> bool:
        return True in [constraint.apply_changes(changes) for _key, constraint in self._constraints]

    def copy(self) -> _PodTopologySpreadFilter:
        return _PodTopologySpreadFilter([(key, constraint.copy()) for key, constraint in self._constraints])

    def with_nominated_pods(self, nominated: Sequence[Pod], node_name: str) -> _PodTopologySpreadFilter:
        return _PodTopologySpreadFilter(
            [(key, constraint.with_nominated_pods(nominated, node_name)) for key, constraint in self._constraints]
        )

    def rejection(self, node: Node) -> Reasons:
        for key, constraint in self._constraints:
            domain = node.labels.get(key)
            if domain is None:
                return MISSING_LABEL
            if constraint.is_full(domain):
                return TOO_SKEWED
        return PASSED

    def rejection_without_pods(self, node: Node, gone: Sequence[Pod]) -> Reasons:
        for key, constraint in self._constraints:
            domain = node.labels.get(key)
            if domain is None:
                return MISSING_LABEL
            if constraint.is_full_without(domain, node.name, gone):
                return TOO_SKEWED
        return PASSED

    def always_rejects(self, node: Node, leaving: Sequence[Pod]) -> bool:
        # Each removed pod can only reduce the count of the domain.
        return bool(self.rejection_without_pods(node, leaving))

    may_be_unknown = False

    def unknown(self, _node: Node, /) -> Reasons:
        return PASSED


class _ConstraintCounts:
    """The pods that one constraint counts, by domain."""

    def __init__(
        self, constraint: TopologySpreadConstraint, keys: frozenset[str], pod: Pod, groups: AffinityTermIndex, counted: SpreadDomains
    ) -> None:
        self._namespace = pod.metadata.namespace
        # Since 1.34 the API server merges the keys into the selector of every pod that it creates. The scheduler always does so.
        self._selector = with_label_keys(constraint.label_selector, pod.metadata.labels, match=constraint.match_label_keys)
        self._domains = counted.domains(
            constraint.topology_key,
            keys,
            pod,
            honor_affinity=constraint.node_affinity_policy != "Ignore",
            honor_taints=constraint.node_taints_policy == "Honor",
        )
        self._too_few_domains = self._domains.total < (constraint.min_domains or 1)
        self._allowed_skew = constraint.max_skew - matches(self._selector, pod.metadata.labels)
        # Domains without pods are not in the counts. A selector without requirements selects every pod, but the scheduler counts none.
        self._counts: Counter[str] = Counter()
        self._counts_any = self._selector is not None and bool(self._selector.match_labels or self._selector.match_expressions)
        if self._counts_any:
            for group in groups.pods_matching(self._namespace, self._selector):
                for node_name, amount in group.nodes.items():
                    self._add(group.pod, node_name, amount)
        self._global_minimum = self._find_global_minimum()

    def is_full(self, domain: str) -> bool:
        """Return whether one more pod in the domain would exceed the maximum skew."""
        return self._counts.get(domain, 0) - self._global_minimum > self._allowed_skew

    @property
    def domains(self) -> Collection[str]:
        """The domains that are compared."""
        return self._domains.names

    @property
    def has_open_domain(self) -> bool:
        """True if the domain with the fewest pods is open for one more."""
        return not self._too_few_domains and self._allowed_skew >= 0

    def full_domains(self) -> list[str]:
        """Return the domains that are full for one more pod. A domain without pods never is."""
        return [domain for domain in self._counts if self.is_full(domain)]

    def is_full_without(self, domain: str, node_name: str, gone: Iterable[Pod]) -> bool:
        """Return the same as ``is_full``, if these pods, which are counted on a node of the domain, are removed."""
        number = 0
        if self._counts_any and self._domains.of_node.get(node_name) == domain:
            number = sum(self._selects(pod) and not pod.terminating for pod in gone)
        left = self._counts.get(domain, 0) - number
        global_minimum = min(self._global_minimum, left) if number else self._global_minimum
        return left - global_minimum > self._allowed_skew

    def apply_changes(self, changes: Iterable[PodChange]) -> bool:
        """Count the changes of the cluster state. Return whether one of them is about a pod that the constraint selects."""
        counted = [change for change in changes if self._selects(change.pod)] if self._counts_any else []
        for other, node_name, amount in counted:
            self._add(other, node_name, amount)
        self._global_minimum = self._find_global_minimum()
        return bool(counted)

    def copy(self) -> _ConstraintCounts:
        """Return constraint counts that change independently."""
        other = copy(self)
        other._counts = self._counts.copy()
        return other

    def with_nominated_pods(self, nominated: Iterable[Pod], node_name: str) -> _ConstraintCounts:
        """Return the counts with the pods that are nominated for the node. For these pods only the namespace and the selector count."""
        other = copy(self)
        number = sum(map(self._selects, nominated))
        domain = self._domains.of_node.get(node_name)
        if number and domain is not None:
            other._counts = self._counts + Counter({domain: number})
            other._global_minimum = other._find_global_minimum()
        return other

    def _selects(self, other: Pod) -> bool:
        return other.metadata.namespace == self._namespace and matches(self._selector, other.metadata.labels)

    def _add(self, other: Pod, node_name: str, amount: int) -> None:
        domain = self._domains.of_node.get(node_name)
        if domain is None or other.terminating or not amount:
            return
        self._counts[domain] += amount
        if not self._counts[domain]:
            del self._counts[domain]

    def _find_global_minimum(self) -> int:
        """Return the number of pods in the domain with the fewest. Return 0 if there are fewer domains than ``minDomains``."""
        if self._too_few_domains or len(self._counts) < self._domains.total:
            return 0
        return min(self._counts.values())
