# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The capacity of nodes: the most that evictions can free there, and the part that one pod lacks. Resources, pod slots and host ports only.

If no eviction helps a pod, most nodes cannot have enough capacity for it. ``FreeableCapacity`` finds the other nodes without a check of
single pods. Other filters run only for those.
"""

from __future__ import annotations

import typing as t
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from ...model.api.pod import Pod
from ...model.budgets.ledger import BudgetKey, PdbLedger
from ...model.caches import IdentityDict
from ...model.scheduler_profile import DEFAULT_PROFILE, Profiles
from ...scheduler.cluster_state import ClusterState
from ...scheduler.filters import node_resources_fit
from ...scheduler.filters.node_ports import clashes
from ...scheduler.node_info import NodeInfo, PodLoad, host_ports, pod_key
from ..eviction_rules.eviction_filter import pods_of_node, priority_violation
from ..options import RescueOptions
from ..victims.node_pod import NodePod, Preemptor
from ..victims.victim_costs import Requests, has_free

T = t.TypeVar("T")

DisruptionsLeft = Mapping[t.Optional[BudgetKey], int]
"""The disruptions that each budget allows."""

Evictable = tuple[NodePod, t.Optional[BudgetKey]]
"""A pod that may be evicted, with the budget that its eviction counts against."""


class NodeCapacity(t.NamedTuple):
    """The most capacity that a node can have free: ``amounts`` by resource, in scheduler units, and ``pod_slots`` for pods.

    ``evictable``: the pods that may be evicted, the lowest priority first, and ``pods``: the same without budgets. ``info``: the node for
    which this was computed. ``budget_parts``: the parts of budgets that count, as in ``PdbLedger.parts_of``.
    """

    amounts: Mapping[str, int]
    pod_slots: int
    evictable: tuple[Evictable, ...]
    pods: tuple[Pod, ...]
    info: NodeInfo
    budget_parts: frozenset[BudgetKey]

    def has(self, asked: Requests) -> bool:
        """Return whether there may be enough capacity for a pod with these requests."""
        amounts = self.amounts
        for name, amount in asked:
            if amount > amounts.get(name, 0):
                return False
        return self.pod_slots > 0


class FreeableCapacity:
    """The freeable capacity of all nodes for pods with the same priorities and options, as of the last update."""

    def __init__(self, preemptor: Preemptor, options: RescueOptions) -> None:
        self._preemptor, self._options = preemptor, options
        self._updated_for: t.Optional[tuple[ClusterState, int, PdbLedger, int]] = None
        self._sorted: dict[str, tuple[list[int], list[str]]] = {}
        self.by_node: dict[str, NodeCapacity] = {}

    def update(self, cluster_state: ClusterState, budgets: PdbLedger) -> None:
        """Compute the capacity of the nodes on which something has changed, in the cluster state and with the budgets as they are now."""
        state = cluster_state, len(cluster_state.changes), budgets, budgets.reserved
        if state == self._updated_for:
            return
        changed = budgets.changed_since(self._updated_for[2]) if self._updated_for is not None else None
        known = self.by_node if changed is not None else {}
        by_node: dict[str, NodeCapacity] = {}
        for name in cluster_state.snapshot.nodes:
            info, capacity = cluster_state.info(name), known.get(name)
            if capacity is None or capacity.info is not info or not capacity.budget_parts.isdisjoint(changed or ()):
                capacity = self._capacity_of(info, budgets)
            by_node[name] = capacity
        self._updated_for, self._sorted, self.by_node = state, {}, by_node

    def of(self, name: str, cluster_state: ClusterState, budgets: PdbLedger) -> NodeCapacity:
        """Return the capacity of one node. It is computed again if the last update was for another state."""
        if self._updated_for == (cluster_state, len(cluster_state.changes), budgets, budgets.reserved):
            return self.by_node[name]
        return self._capacity_of(cluster_state.info(name), budgets)

    def nodes_with_capacity(self, asked: Requests) -> list[str]:
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
        if resource not in self._sorted:
            amounts = {name: capacity.amounts.get(resource, 0) for name, capacity in self.by_node.items()}
            names = sorted(amounts, key=amounts.__getitem__)
            self._sorted[resource] = [amounts[name] for name in names], names
        return self._sorted[resource]

    def _capacity_of(self, info: NodeInfo, budgets: PdbLedger) -> NodeCapacity:
        parts: set[BudgetKey] = set()
        evictable: list[Evictable] = []
        for node_pod in pods_of_node(info, self._options).evictable:
            if priority_violation(node_pod, self._preemptor) is None:
                violation, budget = budgets.status(node_pod.pod, node_pod.budget_status_key)
                parts.update(budgets.parts_of(node_pod.pod, budget))
                if violation is None:
                    evictable.append((node_pod, budget))
        amounts = {name: offered - info.requested.get(name, 0) for name, offered in info.allocatable.items()}
        left: DisruptionsLeft = {budget: budgets.disruptions_left(budget) for _node_pod, budget in evictable if budget is not None}
        for name in {name for node_pod, _budget in evictable for name in node_pod.load.requests}:
            freed = [(node_pod.load.requests.get(name, 0), budget) for node_pod, budget in evictable]
            amounts[name] = amounts.get(name, -info.requested.get(name, 0)) + self._together(freed, left)
        places = info.allowed_pods - len(info.pods) + self._together([(1, budget) for _node_pod, budget in evictable], left)
        pods = tuple([node_pod.pod for node_pod, _budget in evictable])
        return NodeCapacity(amounts, places, tuple(evictable), pods, info, frozenset(parts))

    def _together(self, freed: list[tuple[int, t.Optional[BudgetKey]]], left: DisruptionsLeft) -> int:
        """Return the largest amount that pods can free which may be evicted together. Budgets and ``max_victims`` limit their number.

        ``freed``: the freed amount of each pod, with the budget of the pod. ``left``: the disruptions that each budget allows.
        """
        most = len(freed) if self._options.max_victims is None else self._options.max_victims
        if min([most, *left.values()]) >= len(freed):
            return sum([amount for amount, _budget in freed])
        return sum(within_budgets(sorted(freed, key=lambda one: -one[0]), left)[:most])


def within_budgets(items: Iterable[tuple[T, t.Optional[BudgetKey]]], left: DisruptionsLeft) -> list[T]:
    """Return as many of the items as budgets allow together, the first ones first. Each item has the budget that it counts against."""
    rest, allowed = dict(left), []
    for item, budget in items:
        if budget is not None:
            rest[budget] -= 1
        if budget is None or rest[budget] >= 0:
            allowed.append(item)
    return allowed


Amounts = tuple[int, ...]
"""The amounts by kind of capacity: resources, pod slots, host ports."""

Shape = tuple[int, Amounts, t.Optional[BudgetKey]]
"""The fields ``priority``, ``frees`` and ``budget`` of an ``EvictablePod``."""


class EvictablePod(t.NamedTuple):
    """A pod that may be evicted.

    ``frees``: the amount of each missing kind, at most the missing amount. ``budget``: the budget that its eviction counts against.
    """

    priority: int
    frees: Amounts
    budget: t.Optional[BudgetKey]
    node_pod: NodePod

    @property
    def shape(self) -> Shape:
        """Return ``priority``, ``frees`` and ``budget``. Pods with equal shapes are equal for a search by priority alone."""
        return self[:3]


class Shortage(t.NamedTuple):
    """The missing amounts on a node, only for kinds that are missing, and the pods that may be evicted, the lowest priority first."""

    missing: Amounts
    evictable: list[EvictablePod]


class PodDemand:
    """The demand of one pod on a node, by kinds of capacity: its resources, one pod slot, and its host ports.

    A set of victims that frees less than is missing is never enough. A set that frees it may still not be enough because of other filters:
    nominated pods, affinity, spread, volumes. ``requests``: the resources and their amounts.
    """

    def __init__(self, pod: Pod, cluster_state: ClusterState, profiles: Profiles) -> None:
        devices = node_resources_fit.device_class_resources(pod, cluster_state.snapshot.device_classes)
        profile = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        # A resource that a DeviceClass offers is left out: where no device plugin offers it, this plugin does not decide.
        self.requests = [(name, amount) for name, amount in node_resources_fit.asked_for(pod, profile) if name not in devices]
        self._needs_slot = profile.filters_by(node_resources_fit.PLUGIN)
        self._ports = host_ports(pod) if profile.filters_by("NodePorts") else ()
        # By the missing amounts: the part of them that each load frees. Pods share loads.
        self._freed: dict[Amounts, IdentityDict[Amounts]] = {}

    def shortage_on(self, info: NodeInfo, evictable_pods: Iterable[Evictable]) -> Shortage:
        """Return the missing capacity on the node.

        ``evictable_pods``: the pods of the node that may be evicted, each with the budget that its eviction counts against.
        """
        missing = self._missing(info)
        freed = self._freed.setdefault(missing, IdentityDict())
        evictable: list[EvictablePod] = []
        for node_pod, budget in evictable_pods:
            load = node_pod.load
            known = freed.get(id(load))
            frees = known[1] if known is not None else freed.keep(id(load), load, self._frees(load, missing))
            evictable.append(EvictablePod(node_pod.priority, frees, budget, node_pod))
        return Shortage(tuple([amount for amount in missing if amount]), evictable)

    def has_free(self, info: NodeInfo) -> bool:
        """Return whether the node has the resources and the pod slot free now."""
        return not self._needs_slot or has_free(info, self.requests)

    def ports_stay_taken(self, info: NodeInfo, evictable: Iterable[Pod]) -> bool:
        """Return whether a pod that stays on the node uses a host port that the pod needs.

        ``evictable``: the pods that may be evicted.
        """
        if not any(clashes(port, info.used_ports) for port in self._ports if info.used_ports):
            return False
        keys = set(map(pod_key, evictable))
        staying = (load for key, (_pod, load) in info.pods.items() if load.ports and key not in keys)
        return any(_uses_port(load, port) for load in staying for port in self._ports)

    def _missing(self, info: NodeInfo) -> Amounts:
        """Return the missing amount of each kind, 0 if there is enough."""
        offered, requested = info.allocatable, info.requested
        missing = [max(0, amount + requested.get(name, 0) - offered.get(name, 0)) for name, amount in self.requests]
        missing.append(max(0, len(info.pods) + 1 - info.allowed_pods) if self._needs_slot else 0)
        for port in self._ports:
            taken = info.used_ports and clashes(port, info.used_ports)
            missing.append(sum(_uses_port(load, port) for _pod, load in info.pods.values()) if taken else 0)
        return tuple(missing)

    def _frees(self, load: PodLoad, missing: Amounts) -> Amounts:
        frees = [*(load.requests.get(name, 0) for name, _amount in self.requests), 1, *(_uses_port(load, port) for port in self._ports)]
        # A pod that frees more than the missing amount is not better for that.
        return tuple(min(amount, wanted) for amount, wanted in zip(frees, missing) if wanted)


def _uses_port(load: PodLoad, port: t.Any) -> int:
    return int(any(clashes(port, {taken: (address,)}) for taken, address in load.ports))
