# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The most capacity that evictions can free on each node, by priorities, options and budgets, for all pods with the same priorities.

If no eviction helps a pod, most nodes cannot have enough capacity for it. This index finds the other nodes without a check of single pods.
Other filters run only for those.
"""

from __future__ import annotations

import typing as t
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from ...model.api.pod import Pod
from ...model.budgets.ledger import BudgetKey, PdbLedger
from ...model.caches import BoundedCache
from ...scheduler.cluster_state import ClusterState
from ...scheduler.node_info import NodeInfo
from ..eviction_rules.eviction_filter import NodePods, pods_of_node, priority_violation
from ..options import RescueOptions
from ..victims.node_pod import NodePod, Preemptor

MAX_CACHED_CAPACITIES = 8
"""The number of pairs of preemptor and options for which the capacities are kept from one snapshot to the next."""

Asked = t.Sequence[tuple[str, int]]
"""The requests of a pod: resources and amounts, in scheduler units."""


class NodeCapacity(t.NamedTuple):
    """The most capacity that a node can have free: ``amounts`` by resource, in scheduler units, and ``pod_slots`` for pods.

    ``may_leave``: the pods that may be evicted. ``node_pods``: the pods for which this was computed. ``namespaces``: the namespaces whose
    budgets count.
    """

    amounts: Mapping[str, int]
    pod_slots: int
    may_leave: tuple[Pod, ...]
    node_pods: NodePods
    namespaces: frozenset[str]

    def has(self, asked: Asked) -> bool:
        """Return whether there may be enough capacity for a pod with these requests."""
        amounts = self.amounts
        return self.pod_slots > 0 and all(amount <= amounts.get(name, 0) for name, amount in asked)


class FreeableCapacity:
    """The freeable capacity of all nodes for pods with the same priorities and options."""

    def __init__(self, preemptor: Preemptor, options: RescueOptions) -> None:
        self._preemptor, self._options = preemptor, options
        self._capacities: dict[str, NodeCapacity] = {}
        self._sorted: dict[str, tuple[list[int], list[str]]] = {}
        self._cluster_state: t.Optional[ClusterState] = None
        self._budgets: t.Optional[PdbLedger] = None
        self._at: tuple[int, int] = (0, 0)

    def refresh(self, cluster_state: ClusterState, budgets: PdbLedger) -> None:
        """Compute the capacity of the nodes again that another cluster state, other budgets, or changes of these affect."""
        at = len(cluster_state.changes), budgets.reserved
        if cluster_state is self._cluster_state and budgets is self._budgets and at == self._at:
            return
        changed = budgets.changed_since(self._budgets) if self._budgets is not None else None
        known, options, capacities = self._capacities, self._options, {}
        for name in cluster_state.snapshot.nodes:
            info = cluster_state.info(name)
            node_pods, capacity = pods_of_node(info, options), known.get(name)
            if capacity is None or capacity.node_pods is not node_pods or changed is None or not capacity.namespaces.isdisjoint(changed):
                capacity = self._capacity_of(info, node_pods, budgets)
            capacities[name] = capacity
        self._capacities, self._sorted = capacities, {}
        self._cluster_state, self._budgets, self._at = cluster_state, budgets, at

    def nodes_with_capacity(self, asked: Asked) -> dict[str, tuple[Pod, ...]]:
        """Return the nodes that may have capacity for these requests, unordered, each with its pods that may be evicted.

        All pods that may be evicted for a pod with these priorities are among them.
        """
        found: t.Optional[list[str]] = None
        for name, amount in asked:
            amounts, names = self._by_amount(name)
            first = bisect_left(amounts, amount)
            if found is None or len(names) - first < len(found):
                found = names[first:]
        capacities = self._capacities
        return {name: capacities[name].may_leave for name in (capacities if found is None else found) if capacities[name].has(asked)}

    def _by_amount(self, resource: str) -> tuple[list[int], list[str]]:
        known = self._sorted.get(resource)
        if known is None:
            pairs = sorted((capacity.amounts.get(resource, 0), name) for name, capacity in self._capacities.items())
            known = self._sorted[resource] = [amount for amount, _name in pairs], [name for _amount, name in pairs]
        return known

    def _capacity_of(self, info: NodeInfo, node_pods: NodePods, budgets: PdbLedger) -> NodeCapacity:
        preemptor, status = self._preemptor, budgets.status
        namespaces: set[str] = set()
        evictable: list[tuple[NodePod, t.Optional[BudgetKey]]] = []
        for node_pod in node_pods.evictable:
            if priority_violation(node_pod, preemptor) is None:
                namespaces.add(node_pod.pod.metadata.namespace)
                violation, budget = status(node_pod.pod, node_pod.budget_status_key)
                if violation is None:
                    evictable.append((node_pod, budget))
        amounts = {name: offered - info.requested.get(name, 0) for name, offered in info.allocatable.items()}
        together = self._together(evictable, budgets)
        for name in {name for node_pod, _budget in evictable for name in node_pod.load.requests}:
            freed = together([(node_pod.load.requests.get(name, 0), budget) for node_pod, budget in evictable])
            amounts[name] = amounts.get(name, -info.requested.get(name, 0)) + freed
        places = info.allowed_pods - len(info.pods) + together([(1, budget) for _node_pod, budget in evictable])
        return NodeCapacity(amounts, places, tuple([node_pod.pod for node_pod, _budget in evictable]), node_pods, frozenset(namespaces))

    def _together(
        self, evictable: list[tuple[NodePod, t.Optional[BudgetKey]]], budgets: PdbLedger
    ) -> t.Callable[[list[tuple[int, t.Optional[BudgetKey]]]], int]:
        """Return a function that computes the largest amount that pods can free which may be evicted together.

        Its argument has the freed amount of each pod, with the budget of the pod. Budgets and ``max_victims`` limit the number of these
        pods.
        """
        left = {budget: budgets.disruptions_left(budget) for _node_pod, budget in evictable if budget is not None}
        most = len(evictable) if self._options.max_victims is None else self._options.max_victims
        if most >= len(evictable) and all(number >= len(evictable) for number in left.values()):
            return lambda freed: sum([amount for amount, _budget in freed])
        return lambda freed: sum(_most_of(freed, left)[:most])


def _most_of(freed: Iterable[tuple[int, t.Optional[BudgetKey]]], left: Mapping[BudgetKey, int]) -> list[int]:
    """Return the largest amounts that the budgets allow, in descending order."""
    rest, found = dict(left), []
    for amount, budget in sorted(freed, key=lambda one: -one[0]):
        if budget is not None:
            rest[budget] -= 1
            if rest[budget] < 0:
                continue
        found.append(amount)
    return found


class FreeableCapacityCache:
    """One FreeableCapacity for each pair of preemptor and options. They are kept from one snapshot to the next."""

    def __init__(self) -> None:
        self._known: BoundedCache[tuple[Preemptor, RescueOptions], FreeableCapacity] = BoundedCache(MAX_CACHED_CAPACITIES)

    def of(self, preemptor: Preemptor, options: RescueOptions, cluster_state: ClusterState, budgets: PdbLedger) -> FreeableCapacity:
        """Return the freeable capacity in the cluster state as it is now."""
        reach = self._known.get((preemptor, options), lambda: FreeableCapacity(preemptor, options))
        reach.refresh(cluster_state, budgets)
        return reach
