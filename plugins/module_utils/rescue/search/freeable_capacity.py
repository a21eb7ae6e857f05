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
from ...scheduler.cluster_state import ClusterState
from ...scheduler.node_info import NodeInfo
from ..eviction_rules.eviction_filter import pods_of_node, priority_violation
from ..options import RescueOptions
from ..victims.node_pod import NodePod, Preemptor

MAX_CACHED_CAPACITIES = 8
"""The number of pairs of preemptor and options for which the capacities are kept from one snapshot to the next."""

Asked = t.Sequence[tuple[str, int]]
"""The requests of a pod: resources and amounts, in scheduler units."""


Evictable = tuple[NodePod, t.Optional[BudgetKey]]
"""A pod that may be evicted, with the budget that its eviction counts against."""


class NodeCapacity(t.NamedTuple):
    """The most capacity that a node can have free: ``amounts`` by resource, in scheduler units, and ``pod_slots`` for pods.

    ``evictable``: the pods that may be evicted, the lowest priority first, and ``pods``: the same without budgets. ``info``: the node for
    which this was computed. ``namespaces``: the namespaces whose budgets count.
    """

    amounts: Mapping[str, int]
    pod_slots: int
    evictable: tuple[Evictable, ...]
    pods: tuple[Pod, ...]
    info: NodeInfo
    namespaces: frozenset[str]

    def has(self, asked: Asked) -> bool:
        """Return whether there may be enough capacity for a pod with these requests."""
        amounts = self.amounts
        for name, amount in asked:
            if amount > amounts.get(name, 0):
                return False
        return self.pod_slots > 0


class FreeableCapacity:
    """The freeable capacity of all nodes for pods with the same priorities and options, in a cluster state and with budgets as they are.

    ``earlier``: the same for another cluster state or other budgets. Its capacities are used for the nodes on which nothing has changed.
    """

    def __init__(
        self,
        preemptor: Preemptor,
        options: RescueOptions,
        cluster_state: ClusterState,
        budgets: PdbLedger,
        earlier: t.Optional[FreeableCapacity] = None,
    ) -> None:
        self._preemptor, self._options = preemptor, options
        self._computed_for = _state_of(cluster_state, budgets)
        self._budgets = budgets
        self._sorted: dict[str, tuple[list[int], list[str]]] = {}
        self.by_node: dict[str, NodeCapacity] = {}
        known = earlier.by_node if earlier is not None else {}
        changed = budgets.changed_since(earlier._budgets) if earlier is not None else None
        for name in cluster_state.snapshot.nodes:
            info, capacity = cluster_state.info(name), known.get(name)
            if capacity is None or capacity.info is not info or changed is None or not capacity.namespaces.isdisjoint(changed):
                capacity = self._capacity_of(info)
            self.by_node[name] = capacity

    def is_for(self, cluster_state: ClusterState, budgets: PdbLedger) -> bool:
        """Return whether this was computed for the cluster state and the budgets as they are now."""
        return _state_of(cluster_state, budgets) == self._computed_for

    def nodes_with_capacity(self, asked: Asked) -> list[str]:
        """Return the nodes that may have capacity for these requests, unordered."""
        found: t.Iterable[str] = self.by_node
        fewest = len(self.by_node)
        for name, amount in asked:
            amounts, names = self._by_amount(name)
            first = bisect_left(amounts, amount)
            if len(names) - first < fewest:
                found, fewest = names[first:], len(names) - first
        capacities = self.by_node
        return [name for name in found if capacities[name].has(asked)]

    def _by_amount(self, resource: str) -> tuple[list[int], list[str]]:
        known = self._sorted.get(resource)
        if known is None:
            amounts = {name: capacity.amounts.get(resource, 0) for name, capacity in self.by_node.items()}
            names = sorted(amounts, key=amounts.__getitem__)
            known = self._sorted[resource] = [amounts[name] for name in names], names
        return known

    def _capacity_of(self, info: NodeInfo) -> NodeCapacity:
        preemptor, status = self._preemptor, self._budgets.status
        namespaces: set[str] = set()
        evictable: list[Evictable] = []
        for node_pod in pods_of_node(info, self._options).evictable:
            if priority_violation(node_pod, preemptor) is None:
                namespaces.add(node_pod.pod.metadata.namespace)
                violation, budget = status(node_pod.pod, node_pod.budget_status_key)
                if violation is None:
                    evictable.append((node_pod, budget))
        amounts = {name: offered - info.requested.get(name, 0) for name, offered in info.allocatable.items()}
        together = self._together(evictable)
        for name in {name for node_pod, _budget in evictable for name in node_pod.load.requests}:
            freed = together([(node_pod.load.requests.get(name, 0), budget) for node_pod, budget in evictable])
            amounts[name] = amounts.get(name, -info.requested.get(name, 0)) + freed
        places = info.allowed_pods - len(info.pods) + together([(1, budget) for _node_pod, budget in evictable])
        pods = tuple([node_pod.pod for node_pod, _budget in evictable])
        return NodeCapacity(amounts, places, tuple(evictable), pods, info, frozenset(namespaces))

    def _together(self, evictable: list[Evictable]) -> t.Callable[[list[tuple[int, t.Optional[BudgetKey]]]], int]:
        """Return a function that computes the largest amount that can be freed by pods that may be evicted together.

        Its argument has the freed amount of each pod, with the budget of the pod. Budgets and ``max_victims`` limit the number of these
        pods.
        """
        left = {budget: self._budgets.disruptions_left(budget) for _node_pod, budget in evictable if budget is not None}
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


def _state_of(cluster_state: ClusterState, budgets: PdbLedger) -> tuple[ClusterState, int, PdbLedger, int]:
    return cluster_state, len(cluster_state.changes), budgets, budgets.reserved


class FreeableCapacityCache:
    """The newest FreeableCapacity for each pair of preemptor and options. They are kept from one snapshot to the next."""

    def __init__(self) -> None:
        self._known: dict[tuple[Preemptor, RescueOptions], FreeableCapacity] = {}

    def of(self, preemptor: Preemptor, options: RescueOptions, cluster_state: ClusterState, budgets: PdbLedger) -> FreeableCapacity:
        """Return the freeable capacity in the cluster state as it is now."""
        found = self._known.pop((preemptor, options), None)
        if found is None or not found.is_for(cluster_state, budgets):
            found = FreeableCapacity(preemptor, options, cluster_state, budgets, found)
        while len(self._known) >= MAX_CACHED_CAPACITIES:
            del self._known[next(iter(self._known))]
        self._known[preemptor, options] = found
        return found
