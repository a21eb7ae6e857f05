# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Finds the node and the victims with the lowest cost for a pod.

The search over the nodes is best first. Each node has a lower bound of its cost. Only the node with the lowest bound is computed further,
until its victims are known and the scheduler's filters accept them. The cost is a ``Cost``. It is the lowest one on nodes with up to
``node_candidate.MAX_EXACT_PODS`` evictable pods. For more pods, the victims are a minimal set.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heapreplace
from itertools import islice

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.budgets.ledger import PdbLedger
from ...model.caches import BoundedCache
from ...model.reason import PASSED, Reason, Reasons
from ...model.scheduler_profile import DEFAULT_PROFILE, Profiles
from ...scheduler.cluster_state import ClusterState
from ...scheduler.filters.node_affinity import named_nodes, required_node_affinity
from ...scheduler.node_info import PodLoad
from ...scheduler.static_filters import static_filters
from ...scheduler.static_signature import static_signature
from ..critical import effective_priority
from ..eviction_rules.eviction_filter import EvictionFilter, node_pod_of, preemptor_of
from ..eviction_rules.grace_period import victim_grace_period_s
from ..eviction_rules.pod_outside_window import MaintenanceWindows
from ..eviction_rules.would_return import ReturnCheck
from ..options import RescueOptions
from ..plan import Choice, Victim
from ..victims.node_pod import NodePod, Preemptor
from .capacity import FreeableCapacity, NodeCapacity, PodDemand, Shortage
from .node_candidate import LowerBound, NodeCandidate, SearchContext

MAX_CAPACITIES = 8
"""The number of pairs of preemptor and options for which the capacities are kept from one snapshot to the next."""

Capacities = BoundedCache[tuple[Preemptor, RescueOptions], FreeableCapacity]
"""The newest freeable capacities, for the searches of one snapshot after the other."""

NODE_NOT_READY: Reasons = (Reason("node_not_ready", "node(s) were not ready: evicted pods would not end there"),)


@dataclass
class VictimSearch:
    """The search for one pod in a cluster state, which does not change.

    ``capacities``: the freeable capacities that are known from earlier searches, which must not be used afterwards. ``budgets``: the
    disruptions that are left; the search reserves none. ``excluded_victims``: uids of pods that may not be victims now. ``held``: the holds
    by node name. ``windows``: the maintenance windows, if the options respect them. ``rescued``: uids of pods that were rescued a short
    time ago. ``unknown``: the reasons why the results of all nodes are uncertain. Raise QuantityError, which names the object.
    """

    pod: Pod
    cluster_state: ClusterState
    options: RescueOptions
    capacities: Capacities
    budgets: PdbLedger
    profiles: Profiles
    excluded_victims: frozenset[str] = frozenset()
    windows: t.Optional[MaintenanceWindows] = None
    rescued: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        pod, cluster_state, options, budgets = self.pod, self.cluster_state, self.options, self.budgets
        profile = self.profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        self._static = static_filters(pod, profile)
        # The results of ``closed`` by node name. A pod that is tied to nodes by name shares them with no other pod.
        named = named_nodes(required_node_affinity(pod)) is not None
        self._known_closed = {} if named else cluster_state.static_rejections((static_signature(pod), profile))
        self._demand = PodDemand(pod, cluster_state, self.profiles)
        preemptor = preemptor_of(pod, options)
        self._capacity = self.capacities.get((preemptor, options), lambda: FreeableCapacity(preemptor, options))
        self.context = SearchContext(pod, cluster_state, options, budgets, self.profiles)
        self.unknown = self.context.runner.unknown
        return_check = ReturnCheck(pod, cluster_state.snapshot.nodes, options, self.context.costs.fits_elsewhere)
        self.eviction_filter = EvictionFilter(pod, options, budgets, self.excluded_victims, return_check, self.windows, self.rescued)

    def best(self, node_names: t.Optional[Collection[str]] = None) -> t.Optional[Choice]:
        """Return the cheapest choice on any node, or on those of ``node_names``. Return None if no allowed eviction makes the pod fit.

        A pod that fits without evictions has no victims. The result is also None if ``unknown`` is not empty.
        """
        heap: list[tuple[LowerBound, int, Iterator[LowerBound], NodeCandidate]] = []
        for position, name in enumerate(self.reachable_nodes(node_names) if not self.unknown else ()):
            if not self.closed_on(name):
                candidate = NodeCandidate(name, self.shortage_on(name), self.context, self.options.max_victims)
                bounds = candidate.bounds()
                heap.extend((bound, position, bounds, candidate) for bound in islice(bounds, 1))
        heapify(heap)
        while heap:
            _bound, position, bounds, candidate = heap[0]
            if candidate.victims is not None:
                return self._choice(candidate.node_name, candidate.victims)
            higher = next(bounds, None)
            if higher is not None:
                heapreplace(heap, (higher, position, bounds, candidate))
            else:
                heappop(heap)
        return None

    def feasible(self, node_names: Iterable[str]) -> list[str]:
        """Return those of the nodes on which the pod fits without evictions."""
        # Few nodes have capacity when a pod needs a rescue, and the filters take five times as long for each node.
        info = self.cluster_state.info
        return [name for name in node_names if self._demand.has_free(info(name)) and self.context.fits(name, ())]

    def reachable_nodes(self, node_names: t.Optional[Collection[str]] = None) -> list[str]:
        """Return, in order, the nodes on which evictions may make the pod fit. It fits on no other node, whichever pods are evicted.

        After the eviction of all pods that priorities, options and budgets allow, such a node may have enough capacity. Then no static
        filter, host port or topology filter surely rejects it.
        """
        if node_names is not None and len(node_names) == 1:  # the node that is being cleared
            there = (name for name in node_names if name in self.cluster_state.snapshot.nodes)
            return [name for name in there if self._capacity_on(name).has(self._demand.requests) and self._is_reachable(name)]
        wanted = None if node_names is None else set(node_names)
        return [name for name in self._all_reachable if wanted is None or name in wanted]

    @cached_property
    def _all_reachable(self) -> list[str]:
        self._capacity.update(self.cluster_state, self.budgets)
        with_capacity = self._capacity.nodes_with_capacity(self._demand.requests)
        return [name for name in self.cluster_state.in_order(with_capacity) if self._is_reachable(name)]

    def _is_reachable(self, name: str) -> bool:
        closed = self.closed_on(name)
        if closed and closed is not NODE_NOT_READY:
            return False
        capacity = self._capacity_on(name)
        ports_stay_taken = self._demand.ports_stay_taken(capacity.info, capacity.pods)
        return not ports_stay_taken and not self.context.runner.always_rejects(name, capacity.pods)

    def _capacity_on(self, name: str) -> NodeCapacity:
        return self._capacity.of(name, self.cluster_state, self.budgets)

    def eviction_violation(self, victim: Pod) -> t.Optional[Reason]:
        """Return the reason why this pod may not be evicted. It is computed for the given object."""
        return self.eviction_filter.eviction_violation(node_pod_of(victim, PodLoad.of(victim), self.options))

    def closed(self, node: Node) -> Reasons:
        """Return the reasons that close the node to the pod, independent of its pods. They are computed for the given object."""
        for check in self._static:
            reasons = check(node)
            if reasons:
                return reasons
        return PASSED if node.ready else NODE_NOT_READY

    def closed_on(self, name: str) -> Reasons:
        """Return the same as ``closed``, for the node of the snapshot."""
        if name not in self._known_closed:
            self._known_closed[name] = self.closed(self.cluster_state.snapshot.nodes[name])
        return self._known_closed[name]

    def shortage_on(self, name: str) -> Shortage:
        """Return the missing capacity on the node, and the pods that may be evicted there."""
        capacity = self._capacity_on(name)
        return self._demand.shortage_on(capacity.info, self.eviction_filter.evictable_pods(capacity.evictable))

    def _choice(self, node_name: str, node_pods: Iterable[NodePod]) -> Choice:
        options = self.options
        victims = [Victim(one.pod, one.priority, self._reason(one), victim_grace_period_s(one.pod, options)) for one in node_pods]
        return Choice(node_name, tuple(victims))

    def _reason(self, node_pod: NodePod) -> Reason:
        priority, own, costs = node_pod.priority, effective_priority(self.pod, self.options), self.context.costs
        compared = f"its priority {priority} is below {own}" if priority < own else f"its priority is the same, {own}"
        elsewhere = f"fits on {'another' if costs.fits_elsewhere(node_pod.pod) else 'no other'} node now"
        stays = costs.remaining_ready(node_pod)
        siblings = f"{stays} other ready pod{'' if stays == 1 else 's'} of its controller"
        return Reason("lower_priority" if priority < own else "equal_priority", f"{compared}; its replacement {elsewhere}; {siblings}")
