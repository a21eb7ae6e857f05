# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cost of placing a pod on one node. It is computed only as far as needed to show that another node is cheaper."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import ge

from ...model.api.pod import Pod
from ...scheduler.cluster_state import ClusterState
from ..options import RescueOptions
from ..pdb_ledger import BudgetKey, PdbLedger
from ..victims.cost import NO_VICTIM, PRIORITY_OFFSET
from ..victims.node_pod import NodePod
from ..victims.victim_costs import VictimCosts
from .amounts import Amounts, less
from .eviction_dry_run import EvictionDryRun
from .shortage import EvictablePod, Shortage
from .subset_search import EquivalentPods, SearchLimits, SubsetSearch, VictimSet

MAX_EXACT_PODS = 16
"""The largest number of evictable pods on a node for which the best set is found. For more pods it is a minimal set of a limited search."""

MAX_SEARCH_STEPS = 400
"""The number of sets that a search checks if there are more pods."""

LowerBound = tuple[t.Any, ...]
"""The first fields of a ``Cost``. The last ones may be lower bounds."""


@dataclass
class SearchContext:
    """The data that all candidates of one search share.

    ``result_cache``: the victim sets by missing amounts and by the priority, freed amounts and budget of the pods. Nodes that differ only
    in the names and owners of pods share a set. ``needs_full_filters``: on some node a filter that is not about capacity has rejected the
    pod, so it may do so on other nodes.
    """

    options: RescueOptions
    placement: ClusterState
    budgets: PdbLedger
    costs: VictimCosts
    dry_run: EvictionDryRun
    result_cache: dict[tuple[t.Any, ...], t.Optional[VictimSet]] = field(default_factory=dict)
    needs_full_filters: bool = False

    def limits(self, pods: Iterable[EvictablePod], steps: t.Optional[int] = None) -> SearchLimits:
        """Return the limits of a search among these pods."""
        left = {pod.budget: self.budgets.disruptions_left(pod.budget) for pod in pods if pod.budget is not None}
        return SearchLimits(left, self.options.max_victims, steps)


class NodeCandidate:
    """A node and the cheapest victims there, as far as they are known.

    ``lower_bound`` is never above their cost. ``refine`` takes the next step, which keeps the bound or increases it; it returns False if
    the node is not a candidate any more. When ``is_verified`` is true, ``victims`` are the cheapest set with the lowest priorities first,
    and the bound is their cost.
    """

    def __init__(self, node_name: str, occupants: Shortage, means: SearchContext) -> None:
        self.node_name = node_name
        self.lower_bound: LowerBound = ()
        self.victims: tuple[Pod, ...] = ()
        self.is_verified = False
        self._missing = occupants.missing
        self._evictable = occupants.evictable
        self._context = means
        # The evictable pods without those whose priority is higher than needed.
        self._considered: list[EvictablePod] = []
        # An unbound function, because a bound method would be a reference cycle: thousands of cycles would wait for the garbage collector
        # after each plan.
        self._next: Callable[[NodeCandidate], bool] = NodeCandidate._bound_priority

    def refine(self) -> bool:
        """Compute the next part of the cost. Return whether the node is still a candidate."""
        return self._next(self)

    # --- by capacity alone: a lower bound of the cost ---------------------------------------------------------------------

    def _bound_priority(self) -> bool:
        """Find the lowest priority up to which all pods together free enough."""
        short = list(self._missing)
        kinds = range(len(short))
        highest, reached = NO_VICTIM, self._considered
        for pod in self._evictable if short else ():
            priority = pod.priority
            if priority > highest and max(short) <= 0:
                break
            highest = priority
            reached.append(pod)
            for kind in kinds:
                short[kind] -= pod.frees[kind]
        if max(short, default=0) > 0:
            return False
        self.lower_bound, self._next = (highest,), NodeCandidate._bound_weight
        return True

    def _bound_weight(self) -> bool:
        """Compute the first three fields of the cost."""
        shape = (self._missing, tuple([pod[:3] for pod in self._considered]))
        shapes = self._context.result_cache
        if shape not in shapes:
            groups = _equivalent_by_priority(self._considered)
            found = self._search(groups, self._considered)
            shapes[shape] = found or (self._find_in_large_set(groups) if len(self._considered) > MAX_EXACT_PODS else None)
        found = shapes[shape]
        if found is None:
            return self._bound_next_priority()
        self.lower_bound, self._next = found.priority_cost, partial(NodeCandidate._bound_ties, found=found)
        return True

    def _bound_next_priority(self) -> bool:
        """Add the pods with the next higher priority, because budgets or ``max_victims`` exclude all sets so far."""
        highest = max((pod.priority for pod in self._considered), default=NO_VICTIM)
        higher = min((pod.priority for pod in self._evictable if pod.priority > highest), default=None)
        if higher is None:
            return False
        self._considered = [pod for pod in self._evictable if pod.priority <= higher]
        self.lower_bound = (higher,)
        return True

    def _bound_ties(self, found: VictimSet) -> bool:
        """Compute lower bounds of the other fields from the best pods, without a check that they free enough together."""
        costs = self._context.costs
        number = found.priority_cost[2]
        node_pods = self._possible_victims(number)
        self.lower_bound = (
            *found.priority_cost,
            sum(sorted(map(costs.is_node_bound, node_pods))[:number]),
            sum(sorted(map(costs.has_no_capacity_elsewhere, node_pods))[:number]),
            -min(sorted(map(costs.remaining_ready, node_pods))[-number:], default=PRIORITY_OFFSET),
            tuple(sorted([node_pod.age for node_pod in node_pods])[:number][::-1]),
            (min([node_pod.name for node_pod in node_pods]),) if node_pods else (),
        )
        self._next = partial(NodeCandidate._select_victims, first=found)
        return True

    def _possible_victims(self, number: int) -> list[NodePod]:
        """Return the pods that can be part of a set of this number of pods.

        Each of them must free what is still missing if all other pods of the set free the most that any pod frees.
        """
        if not number:
            return []
        frees = {pod.frees for pod in self._considered}
        if len(frees) == 1:
            return [pod.node_pod for pod in self._considered]
        least = [amount - (number - 1) * max(kind) for amount, kind in zip(self._missing, zip(*frees))]
        enough = {freed for freed in frees if all(map(ge, freed, least))}
        return [pod.node_pod for pod in self._considered if pod.frees in enough]

    def _select_victims(self, first: VictimSet) -> bool:
        """Find the cheapest set, with all fields of its cost."""
        costs, reached = self._context.costs, self._considered
        if self._context.needs_full_filters and self._is_closed():
            return False
        costs.add_node_pods(pod.node_pod for pod in reached)
        found = self._search(_equivalent_by_rank(reached, costs), reached, rank=costs.tie_breakers, ceiling=first.priority_cost)
        sets = [list(found.pods)] if found is not None else []
        if len(reached) > MAX_EXACT_PODS:
            sets = [self._without_unneeded(pods) for pods in (*sets, self._first_choice(first))]
        self._set_victims(min(sets, key=costs.cost_of))
        self._next = NodeCandidate._verify
        return True

    def _search(self, groups: Sequence[EquivalentPods], pods: Sequence[EvictablePod], **how: t.Any) -> t.Optional[VictimSet]:
        steps = None if len(pods) <= MAX_EXACT_PODS else MAX_SEARCH_STEPS
        return SubsetSearch(groups, self._missing, self._context.limits(pods, steps), **how).run()

    def _find_in_large_set(self, groups: Sequence[EquivalentPods]) -> t.Optional[VictimSet]:
        """Return a set of victims if the limited search has found none. Return None if this finds none either."""
        self._context.costs.add_node_pods(pod.node_pod for pod in self._considered)
        for pool in self._pools(self._considered):
            chosen = self._without_unneeded(pool) if self._free_enough(pool) else []
            most = self._context.options.max_victims
            if chosen and (most is None or len(chosen) <= most):
                uids = {pod.metadata.uid for pod in chosen}
                numbers = tuple(sum(pod.metadata.uid in uids for pod in group.pods) for group in groups)
                return VictimSet(self._context.costs.cost_of(chosen)[:3], (), (), numbers, tuple(chosen))
        return None

    def _pools(self, pods: Sequence[EvictablePod]) -> Iterator[list[Pod]]:
        """Yield two sets of as many pods as budgets allow together.

        The first one prefers the pods that come first in the eviction order, the second one the pods that free most.
        """
        costs = self._context.costs
        yield self._within_budgets(sorted(pods, key=lambda pod: costs.eviction_order(pod.node_pod)))
        yield self._within_budgets(sorted(pods, key=lambda pod: pod.frees, reverse=True))

    def _within_budgets(self, pods: Sequence[EvictablePod]) -> list[Pod]:
        left = dict(self._context.limits(pods).disruptions_left)
        pool: list[Pod] = []
        for pod in pods:
            if pod.budget is not None:
                left[pod.budget] -= 1
            if pod.budget is None or left[pod.budget] >= 0:
                pool.append(pod.pod)
        return pool

    def _first_choice(self, first: VictimSet) -> list[Pod]:
        """Return a set with the same first three fields: from each group, the pods that come first in the eviction order."""
        chosen: list[Pod] = []
        for group, number in zip(_equivalent_by_priority(self._considered), first.numbers):
            chosen += self._in_eviction_order(group.pods)[:number]
        return chosen

    def _without_unneeded(self, pods: list[Pod]) -> list[Pod]:
        return _reprieved(self._in_eviction_order(pods), self._free_enough)

    def _free_enough(self, pods: list[Pod]) -> bool:
        frees = {pod.pod.metadata.uid: pod.frees for pod in self._evictable}
        short = self._missing
        for pod in pods:
            short = less(short, frees[pod.metadata.uid])
        return max(short, default=0) <= 0

    # --- by all filters ---------------------------------------------------------------------------------------------------

    def _verify(self) -> bool:
        self.is_verified = self._context.dry_run.fits(self.node_name, self.victims)
        if not self.is_verified:
            self._next = NodeCandidate._search_with_filters
        return True

    def _search_with_filters(self) -> bool:
        """Find the cheapest set that all filters accept, because a filter that is not about capacity has rejected the set so far."""
        self._context.needs_full_filters = True
        if self._is_closed():
            return False
        self._context.costs.add_node_pods(pod.node_pod for pod in self._evictable)
        found = self._search_exactly() if len(self._evictable) <= MAX_EXACT_PODS else self._search_by_reprieve()
        if found is None:
            return False
        self._set_victims(found)
        self.is_verified = True
        return True

    def _is_closed(self) -> bool:
        """Return whether no eviction opens the node. Return False if that is not known."""
        everybody = [pod.pod for pod in self._evictable]
        return self._context.dry_run.is_monotone(everybody) and not self._fits(everybody)

    def _search_exactly(self) -> t.Optional[list[Pod]]:
        means = self._context
        search = SubsetSearch(
            _equivalent_by_rank(self._evictable, means.costs, one_by_one=True),
            self._missing,
            means.limits(self._evictable),
            rank=means.costs.tie_breakers,
            accepts=self._fits,
            monotone=means.dry_run.is_monotone(pod.pod for pod in self._evictable),
        )
        found = search.run()
        return list(found.pods) if found is not None else None

    def _search_by_reprieve(self) -> t.Optional[list[Pod]]:
        """Return the pods that may be evicted together, without those that need not be evicted.

        Pods with the highest priority are kept first. Return None if no such set is accepted, or if it exceeds ``max_victims``.
        """
        most = self._context.options.max_victims
        for pool in self._pools(self._evictable):
            if self._fits(pool):
                chosen = _reprieved(self._in_eviction_order(pool), self._fits)
                if most is None or len(chosen) <= most:
                    return chosen
        return None

    def _fits(self, pods: list[Pod]) -> bool:
        return self._context.dry_run.fits(self.node_name, pods)

    def _set_victims(self, pods: Iterable[Pod]) -> None:
        self.victims = tuple(self._in_eviction_order(pods))
        self.lower_bound = self._context.costs.cost_of(self.victims)

    def _in_eviction_order(self, pods: Iterable[Pod]) -> list[Pod]:
        costs = self._context.costs
        return sorted(pods, key=lambda pod: costs.eviction_order(costs.node_pod(pod)))


def _equivalent_by_priority(pods: Iterable[EvictablePod]) -> list[EquivalentPods]:
    """Return groups of pods that are equal in the first three fields of a cost and in what they free.

    The highest priority comes first, then the pods that free less.
    """
    found: dict[tuple[int, Amounts, t.Optional[BudgetKey]], list[Pod]] = {}
    for pod in pods:
        if any(pod.frees):
            found.setdefault(pod[:3], []).append(pod.pod)
    groups = [EquivalentPods(*shape, members) for shape, members in found.items()]
    return sorted(groups, key=lambda group: (-group.priority, group.frees, group.budget or ()))


def _equivalent_by_rank(pods: Iterable[EvictablePod], costs: VictimCosts, *, one_by_one: bool = False) -> list[EquivalentPods]:
    """Return groups of pods that differ only in their ages and names, the youngest first. Groups to be kept first come first.

    ``one_by_one``: each pod is its own group, and pods that free nothing are included.
    """
    found: dict[tuple[t.Any, ...], list[EvictablePod]] = {}
    for pod in pods:
        spec = pod.pod.spec
        # Pods whose parts are the same objects have the same template, so their replacements are equal.
        parts = (pod.pod.metadata.labels, spec.containers, spec.init_containers, spec.affinity, spec.tolerations, spec.node_selector)
        template = (*map(id, parts), id(spec.topology_spread_constraints), spec.scheduler_name)
        key = (*pod[:3], pod.node_pod.owner, pod.node_pod.ready, *template)
        alone = one_by_one or pod.node_pod.in_gang or spec.volumes
        if one_by_one or any(pod.frees):
            found.setdefault((*key, pod.pod.metadata.uid) if alone else key, []).append(pod)
    groups = [sorted(members, key=lambda pod: costs.eviction_order(pod.node_pod)) for members in found.values()]
    groups.sort(key=lambda members: costs.eviction_order(members[0].node_pod), reverse=True)
    return [EquivalentPods(*members[0][:3], [member.pod for member in members]) for members in groups]


def _reprieved(pods: list[Pod], enough: Callable[[list[Pod]], bool]) -> list[Pod]:
    """Return the pods that are needed: without any one of them, too little is freed.

    ``pods`` are in eviction order, the lowest priority first.
    """
    chosen = list(pods)
    settled = False
    while not settled:
        settled = True
        for pod in reversed(list(chosen)):
            others = [other for other in chosen if other is not pod]
            if enough(others):
                chosen, settled = others, False
    return chosen
