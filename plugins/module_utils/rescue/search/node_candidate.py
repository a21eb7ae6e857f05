# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cost of placing a pod on one node. It is computed in steps, only as far as needed to show that another node is cheaper.

``STEPS`` is their order. The first three are lower bounds of the cost by capacity alone. The last three find the victims.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import ge

from ...model.api.pod import Pod
from ...model.budgets.ledger import PdbLedger
from ...scheduler.cluster_state import ClusterState
from ..options import RescueOptions
from ..victims.cost import NO_VICTIM, PRIORITY_OFFSET
from ..victims.node_pod import NodePod
from ..victims.victim_costs import VictimCosts
from .amounts import Amounts, less
from .eviction_dry_run import EvictionDryRun
from .shortage import EvictablePod, Shape, Shortage
from .subset_search import EMPTY_SET, InterchangeablePods, SearchLimits, SubsetSearch, VictimSet

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
    cluster_state: ClusterState
    budgets: PdbLedger
    costs: VictimCosts
    dry_run: EvictionDryRun
    result_cache: dict[tuple[t.Any, ...], t.Optional[VictimSet]] = field(default_factory=dict)
    needs_full_filters: bool = False

    def limits(self, pods: Iterable[EvictablePod], steps: t.Optional[int] = None) -> SearchLimits:
        """Return the limits of a search among these pods."""
        left = {pod.budget: self.budgets.disruptions_left(pod.budget) for pod in pods if pod.budget is not None}
        return SearchLimits(left, self.options.max_victims, steps)


class Result(Enum):
    """The result of a step."""

    NEXT = "the next step can be taken"
    REPEAT = "the same step must be taken again, with more pods"
    VERIFIED = "all filters accept the victims, and the bound is their cost"
    OUT = "no set of victims makes the pod fit on the node"


class NodeCandidate:
    """A node and the cheapest victims there, as far as they are known.

    ``lower_bound`` is never above their cost. ``refine`` takes the next step, which keeps the bound or increases it; it returns False if
    the node is not a candidate any more. When ``is_verified`` is true, ``victims`` are the cheapest set with the lowest priorities first,
    and the bound is their cost. The set is the cheapest one for up to ``MAX_EXACT_PODS`` evictable pods. For more, it is a minimal set.
    """

    def __init__(self, node_name: str, shortage: Shortage, context: SearchContext) -> None:
        self.node_name = node_name
        self.lower_bound: LowerBound = ()
        self.victims: tuple[Pod, ...] = ()
        self.is_verified = False
        self._missing = shortage.missing
        self._evictable = shortage.evictable
        self._context = context
        # The position in STEPS of the step that comes next.
        self._step = 0
        # The evictable pods without those whose priority is higher than needed.
        self._considered: list[EvictablePod] = []
        # The cheapest set by priority. ``bound_weight`` finds it.
        self._by_priority = EMPTY_SET

    def refine(self) -> bool:
        """Take the next step. Return whether the node is still a candidate."""
        result = STEPS[self._step](self)
        self._step += result is Result.NEXT
        self.is_verified = result is Result.VERIFIED
        return result is not Result.OUT

    # --- by capacity alone: a lower bound of the cost ---------------------------------------------------------------------

    def bound_priority(self) -> Result:
        """Find the lowest priority up to which all pods together free enough."""
        short = list(self._missing)
        kinds = range(len(short))
        highest, considered = NO_VICTIM, self._considered
        for pod in self._evictable if short else ():
            priority = pod.priority
            if priority > highest and max(short) <= 0:
                break
            highest = priority
            considered.append(pod)
            for kind in kinds:
                short[kind] -= pod.frees[kind]
        if max(short, default=0) > 0:
            return Result.OUT
        self.lower_bound = (highest,)
        return Result.NEXT

    def bound_weight(self) -> Result:
        """Compute the cost by priority: the cheapest set if only the priorities count."""
        key = (self._missing, tuple([pod.shape for pod in self._considered]))
        cache = self._context.result_cache
        if key not in cache:
            groups = _equivalent_by_priority(self._considered)
            found = self._search(groups)
            cache[key] = found or (self._large_sets(self._considered).minimal_set(groups) if self._is_large else None)
        cheapest = cache[key]
        if cheapest is None:
            return self._consider_next_priority()
        self._by_priority, self.lower_bound = cheapest, cheapest.priority_cost
        return Result.NEXT

    def _consider_next_priority(self) -> Result:
        """Add the pods with the next higher priority, because budgets or ``max_victims`` exclude all sets so far."""
        highest = max((pod.priority for pod in self._considered), default=NO_VICTIM)
        higher = min((pod.priority for pod in self._evictable if pod.priority > highest), default=None)
        if higher is None:
            return Result.OUT
        self._considered = [pod for pod in self._evictable if pod.priority <= higher]
        self.lower_bound = (higher,)
        return Result.REPEAT

    def bound_ties(self) -> Result:
        """Compute lower bounds of the other fields from the best pods, without a check that they free enough together."""
        costs, priority_cost = self._context.costs, self._by_priority.priority_cost
        number = priority_cost.number
        node_pods = self._possible_victims(number)
        self.lower_bound = (
            *priority_cost,
            sum(sorted(map(costs.is_evicted_last, node_pods))[:number]),
            sum(sorted(map(costs.is_surely_unreschedulable, node_pods))[:number]),
            -min(sorted(map(costs.remaining_ready, node_pods))[-number:], default=PRIORITY_OFFSET),
            tuple(sorted([node_pod.age for node_pod in node_pods])[:number][::-1]),
            (min([node_pod.name for node_pod in node_pods]),) if node_pods else (),
        )
        return Result.NEXT

    def _possible_victims(self, number: int) -> list[NodePod]:
        """Return the pods that can be in a set of ``number`` pods that frees enough.

        Each of them must free the rest of the missing capacity if every other pod of the set frees as much as the best pod does.
        """
        if not number:
            return []
        frees = {pod.frees for pod in self._considered}
        if len(frees) == 1:
            return [pod.node_pod for pod in self._considered]
        least = [amount - (number - 1) * max(kind) for amount, kind in zip(self._missing, zip(*frees))]
        enough = {freed for freed in frees if all(map(ge, freed, least))}
        return [pod.node_pod for pod in self._considered if pod.frees in enough]

    # --- the victims ------------------------------------------------------------------------------------------------------

    def select_victims(self) -> Result:
        """Find the cheapest set by capacity, with all fields of its cost."""
        costs, by_priority = self._context.costs, self._by_priority
        if self._context.needs_full_filters and self._is_always_rejected():
            return Result.OUT
        costs.add_node_pods(pod.node_pod for pod in self._considered)
        groups = _equivalent_by_rank(self._considered, costs)
        found = self._search(groups, rank=costs.tie_breakers, ceiling=by_priority.priority_cost)
        sets = [list(found.pods)] if found is not None else []
        if self._is_large:
            large = self._large_sets(self._considered)
            first = large.first_in_order(_equivalent_by_priority(self._considered), by_priority.numbers)
            sets = [large.without_unneeded(pods) for pods in (*sets, first)]
        self._set_victims(min(sets, key=costs.cost_of))
        return Result.NEXT

    def verify(self) -> Result:
        """Ask all filters whether the pod fits without the victims."""
        return Result.VERIFIED if self._fits(self.victims) else Result.NEXT

    def search_with_filters(self) -> Result:
        """Find the cheapest set that all filters accept, because a filter that is not about capacity has rejected the set so far."""
        self._context.needs_full_filters = True
        if self._is_always_rejected():
            return Result.OUT
        self._context.costs.add_node_pods(pod.node_pod for pod in self._evictable)
        is_large = len(self._evictable) > MAX_EXACT_PODS
        found = self._large_sets(self._evictable).accepted_set(self._fits) if is_large else self._accepted_set()
        if found is None:
            return Result.OUT
        self._set_victims(found)
        return Result.VERIFIED

    def _accepted_set(self) -> t.Optional[list[Pod]]:
        """Return the cheapest set that all filters accept, among all sets of the evictable pods."""
        context = self._context
        search = SubsetSearch(
            _equivalent_by_rank(self._evictable, context.costs, one_by_one=True),
            self._missing,
            context.limits(self._evictable),
            rank=context.costs.tie_breakers,
            accepts=self._fits,
            monotone=context.dry_run.is_monotone(pod.pod for pod in self._evictable),
        )
        found = search.run()
        return list(found.pods) if found is not None else None

    def _is_always_rejected(self) -> bool:
        """Return whether no eviction opens the node. Return False if that is not known."""
        everybody = [pod.pod for pod in self._evictable]
        return self._context.dry_run.is_monotone(everybody) and not self._fits(everybody)

    def _fits(self, pods: Iterable[Pod]) -> bool:
        return self._context.dry_run.fits(self.node_name, pods)

    def _set_victims(self, pods: Iterable[Pod]) -> None:
        self.victims = tuple(_in_eviction_order(pods, self._context.costs))
        self.lower_bound = self._context.costs.cost_of(self.victims)

    # --- shared by the steps ----------------------------------------------------------------------------------------------

    @property
    def _is_large(self) -> bool:
        return len(self._considered) > MAX_EXACT_PODS

    def _large_sets(self, pods: Sequence[EvictablePod]) -> _LargeSets:
        return _LargeSets(self._missing, pods, self._context)

    def _search(self, groups: Sequence[InterchangeablePods], **how: t.Any) -> t.Optional[VictimSet]:
        steps = MAX_SEARCH_STEPS if self._is_large else None
        return SubsetSearch(groups, self._missing, self._context.limits(self._considered, steps), **how).run()


# Unbound functions, because a bound method in each candidate would be a reference cycle: thousands of cycles would wait for the garbage
# collector after each plan.
STEPS: tuple[Callable[[NodeCandidate], Result], ...] = (
    NodeCandidate.bound_priority,
    NodeCandidate.bound_weight,
    NodeCandidate.bound_ties,
    NodeCandidate.select_victims,
    NodeCandidate.verify,
    NodeCandidate.search_with_filters,
)


# --- more pods than the exact search takes ---------------------------------------------------------------------------------


class _LargeSets:
    """Sets of victims among these evictable pods of one node, if there are too many pods for the exact search.

    A set is minimal: none of its pods can be kept. A cheaper set may exist. ``missing``: the amounts that a set must free. All of the pods
    are added to the costs of the context.
    """

    def __init__(self, missing: Amounts, evictable: Sequence[EvictablePod], context: SearchContext) -> None:
        self._missing = missing
        self._evictable = evictable
        self._context = context
        self._costs = context.costs
        self._costs.add_node_pods(pod.node_pod for pod in evictable)

    def minimal_set(self, groups: Sequence[InterchangeablePods]) -> t.Optional[VictimSet]:
        """Return a set that frees enough within the limits. Return None if no such set is found. ``groups``: the pods, by shape."""
        for pool in self._pools():
            chosen = self.without_unneeded(pool) if self._free_enough(pool) else []
            if chosen and self._is_within_max_victims(chosen):
                uids = {pod.metadata.uid for pod in chosen}
                numbers = tuple(sum(pod.metadata.uid in uids for pod in group.pods) for group in groups)
                return VictimSet(self._costs.cost_of(chosen).by_priority, (), (), numbers, tuple(chosen))
        return None

    def accepted_set(self, accepts: Callable[[list[Pod]], bool]) -> t.Optional[list[Pod]]:
        """Return a set that ``accepts`` allows, within the limits. Return None if no such set is found.

        Pods with the highest priority are kept first.
        """
        for pool in self._pools():
            if accepts(pool):
                chosen = _without_unneeded(self._in_eviction_order(pool), accepts)
                if self._is_within_max_victims(chosen):
                    return chosen
        return None

    def first_in_order(self, groups: Sequence[InterchangeablePods], numbers: Sequence[int]) -> list[Pod]:
        """Return the given number of pods from each group: those that come first in the eviction order."""
        return [pod for group, number in zip(groups, numbers) for pod in self._in_eviction_order(group.pods)[:number]]

    def without_unneeded(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods without those that can be kept, the pods with the highest priority first."""
        return _without_unneeded(self._in_eviction_order(pods), self._free_enough)

    def _pools(self) -> Iterator[list[Pod]]:
        """Yield two sets of as many pods as budgets allow together.

        The first one prefers the pods that come first in the eviction order, the second one the pods that free most.
        """
        yield self._within_budgets(sorted(self._evictable, key=lambda pod: self._costs.eviction_order(pod.node_pod)))
        yield self._within_budgets(sorted(self._evictable, key=lambda pod: pod.frees, reverse=True))

    def _within_budgets(self, pods: Sequence[EvictablePod]) -> list[Pod]:
        left = dict(self._context.limits(pods).disruptions_left)
        pool: list[Pod] = []
        for pod in pods:
            if pod.budget is not None:
                left[pod.budget] -= 1
            if pod.budget is None or left[pod.budget] >= 0:
                pool.append(pod.pod)
        return pool

    def _is_within_max_victims(self, pods: Sequence[Pod]) -> bool:
        most = self._context.options.max_victims
        return most is None or len(pods) <= most

    def _free_enough(self, pods: list[Pod]) -> bool:
        frees = {pod.pod.metadata.uid: pod.frees for pod in self._evictable}
        short = self._missing
        for pod in pods:
            short = less(short, frees[pod.metadata.uid])
        return max(short, default=0) <= 0

    def _in_eviction_order(self, pods: Iterable[Pod]) -> list[Pod]:
        return _in_eviction_order(pods, self._context.costs)


def _in_eviction_order(pods: Iterable[Pod], costs: VictimCosts) -> list[Pod]:
    """Return the pods sorted for eviction, the lowest priority and cost first."""
    return sorted(pods, key=lambda pod: costs.eviction_order(costs.node_pod(pod)))


def _without_unneeded(pods: list[Pod], enough: Callable[[list[Pod]], bool]) -> list[Pod]:
    """Return the pods that are needed: without any one of them, ``enough`` is false. ``pods`` are in eviction order."""
    chosen = list(pods)
    is_minimal = False
    while not is_minimal:
        is_minimal = True
        for pod in reversed(list(chosen)):
            others = [other for other in chosen if other is not pod]
            if enough(others):
                chosen, is_minimal = others, False
    return chosen


# --- groups of pods -----------------------------------------------------------------------------------------------------------


def _equivalent_by_priority(pods: Iterable[EvictablePod]) -> list[InterchangeablePods]:
    """Return groups of pods with equal shapes, without pods that free nothing.

    The highest priority comes first, then the pods that free less.
    """
    found: dict[Shape, list[Pod]] = {}
    for pod in pods:
        if any(pod.frees):
            found.setdefault(pod.shape, []).append(pod.pod)
    groups = [InterchangeablePods(*shape, members) for shape, members in found.items()]
    return sorted(groups, key=lambda group: (-group.priority, group.frees, group.budget or ()))


def _equivalent_by_rank(pods: Iterable[EvictablePod], costs: VictimCosts, *, one_by_one: bool = False) -> list[InterchangeablePods]:
    """Return groups of pods that differ only in their ages and names, the youngest first. Groups to be kept first come first.

    ``one_by_one``: each pod is its own group, and pods that free nothing are included.
    """
    found: dict[tuple[t.Any, ...], list[EvictablePod]] = {}
    for pod in pods:
        spec = pod.pod.spec
        # Pods whose parts are the same objects have the same template, so their replacements are equal.
        parts = (pod.pod.metadata.labels, spec.containers, spec.init_containers, spec.affinity, spec.tolerations, spec.node_selector)
        template = (*map(id, parts), id(spec.topology_spread_constraints), spec.scheduler_name)
        key = (*pod.shape, pod.node_pod.owner, pod.node_pod.ready, *template)
        alone = one_by_one or pod.node_pod.in_gang or spec.volumes
        if one_by_one or any(pod.frees):
            found.setdefault((*key, pod.pod.metadata.uid) if alone else key, []).append(pod)
    groups = [sorted(members, key=lambda pod: costs.eviction_order(pod.node_pod)) for members in found.values()]
    groups.sort(key=lambda members: costs.eviction_order(members[0].node_pod), reverse=True)
    return [InterchangeablePods(*members[0].shape, [member.pod for member in members]) for members in groups]
