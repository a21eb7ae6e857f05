# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Declared spread constraints with DoNotSchedule (kubernetes ``plugins/podtopologyspread/filtering.go`` and ``common.go``)."""

from __future__ import annotations

import typing as t
from collections import Counter

from ...model.objects import LabelSelector, LabelSelectorRequirement, Pod, TopologySpreadConstraint
from ...model.reasons import Reason
from ...model.selectors import matches
from ...model.wire import replace
from ..node_info import NodeInfo
from ..placement import Change, Placement
from ..reasons import PASSED, Reasons

TOO_SKEWED: Reasons = (Reason("topology_spread", "node(s) didn't match pod topology spread constraints"),)
NO_DOMAIN: Reasons = (Reason("topology_spread_label", "node(s) didn't match pod topology spread constraints (missing required label)"),)


def prepare(pod: Pod, placement: Placement) -> t.Callable[[NodeInfo], Reasons] | None:
    """Rejects nodes without a constraint's topology key, or in a domain that one more pod would make too full.

    The answers follow what changes in the placement afterwards. Constraints that the cluster gives to pods without any do not
    count here: the scheduler's own are soft.
    """
    hard = [constraint for constraint in pod.spec.topology_spread_constraints or () if constraint.when_unsatisfiable == "DoNotSchedule"]
    if not hard:
        return None
    keys = frozenset(constraint.topology_key for constraint in hard)
    spreads = [(constraint.topology_key, _Spread(constraint, keys, pod, placement)) for constraint in hard]
    changes = placement.changes
    seen = 0

    def check(info: NodeInfo) -> Reasons:
        nonlocal seen
        if seen < len(changes):
            for _key, spread in spreads:
                spread.follow(changes[seen:])
            seen = len(changes)
        for key, spread in spreads:
            domain = info.node.labels.get(key)
            if domain is None:
                return NO_DOMAIN
            if spread.is_full(domain):
                return TOO_SKEWED
        return PASSED

    return check


class _Spread:
    """The pods that one constraint counts, by domain."""

    def __init__(self, constraint: TopologySpreadConstraint, keys: frozenset[str], pod: Pod, placement: Placement) -> None:
        self._namespace = pod.metadata.namespace
        self._selector = _selector(constraint, pod)
        self._domains = placement.counted_nodes.domains(
            constraint.topology_key,
            keys,
            pod,
            honor_affinity=constraint.node_affinity_policy != "Ignore",
            honor_taints=constraint.node_taints_policy == "Honor",
        )
        self._too_few_domains = self._domains.total < (constraint.min_domains or 1)
        self._allowed = constraint.max_skew - matches(self._selector, pod.metadata.labels)
        # Domains without pods are left out. A selector without requirements selects every pod, and yet none is counted.
        self._counts: Counter[str] = Counter()
        self._counts_any = self._selector is not None and bool(self._selector.match_labels or self._selector.match_expressions)
        if self._counts_any:
            for other in placement.pods_by_label.select(self._namespace, self._selector):
                self._add(other, other.spec.node_name, 1)
        self._fewest = self._count_fewest()

    def is_full(self, domain: str) -> bool:
        """One more pod in the domain would be too many."""
        return self._counts.get(domain, 0) - self._fewest > self._allowed

    def follow(self, changes: t.Iterable[Change]) -> None:
        """Count what has changed in the placement."""
        if not self._counts_any:
            return
        for other, node_name, amount in changes:
            if other.metadata.namespace == self._namespace and matches(self._selector, other.metadata.labels):
                self._add(other, node_name, amount)
        self._fewest = self._count_fewest()

    def _add(self, other: Pod, node_name: str, amount: int) -> None:
        domain = self._domains.of_node.get(node_name)
        if domain is None or other.terminating:
            return
        self._counts[domain] += amount
        if not self._counts[domain]:
            del self._counts[domain]

    def _count_fewest(self) -> int:
        """Pods in the emptiest domain; none where there are fewer domains than the constraint wants."""
        if self._too_few_domains or len(self._counts) < self._domains.total:
            return 0
        return min(self._counts.values())


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    """The constraint's selector with the pod's values of the keys in matchLabelKeys.

    The API server writes them into the selector of every new pod; a template does not have them yet.
    """
    selector, labels = constraint.label_selector, pod.metadata.labels or {}
    own = [LabelSelectorRequirement(key, "In", (labels[key],)) for key in constraint.match_label_keys or () if key in labels]
    if selector is None or not own:
        return selector
    return replace(selector, match_expressions=(*(selector.match_expressions or ()), *own))
