# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cost of placing a pod on one node. It is computed only as far as needed to show that another node is cheaper."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import ge

from ...model.api.pod import Pod
from ...model.budgets.ledger import PdbLedger
from ...scheduler.cluster_state import ClusterState
from ..options import RescueOptions
from ..victims.cost import NO_VICTIM, PRIORITY_OFFSET, PriorityCost
from ..victims.node_pod import NodePod
from ..victims.victim_costs import VictimCosts
from .eviction_dry_run import EvictionDryRun
from .shortage import Amounts, EvictablePod, Shape, Shortage
from .subset_search import InterchangeablePods, SearchLimits, SubsetSearch, VictimSet

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


class NodeCandidate:
    """A node and the cheapest victims there.

    ``victims``: the cheapest set, the lowest priorities first. It is None until ``bounds`` has found it. The set is the cheapest one for up
    to ``MAX_EXACT_PODS`` evictable pods. For more, it is a minimal set.
    """

    def __init__(self, node_name: str, shortage: Shortage, context: SearchContext) -> None:
        self.node_name = node_name
        self.victims: t.Optional[tuple[Pod, ...]] = None
        self._missing = shortage.missing
        self._evictable = shortage.evictable
        self._context = context

    def bounds(self) -> Iterator[LowerBound]:
        """Yield lower bounds of the cost of the cheapest victims, each of them at least as high as the one before.

        The last bound is their cost, and ``victims`` is set then. If no set of victims makes the pod fit, the bounds end without victims.
        """
        context, costs = self._context, self._context.costs
        # By capacity alone: the lowest priority up to which all pods together free enough.
        considered = self._considered()
        if considered is None:
            return
        highest = considered[-1].priority if considered else NO_VICTIM
        yield (highest,)
        # The cheapest set if only the priorities count. Budgets or ``max_victims`` may exclude all sets of these pods.
        by_priority = self._cheapest_by_priority(considered)
        while by_priority is None:
            higher = min((pod.priority for pod in self._evictable if pod.priority > highest), default=None)
            if higher is None:
                return
            highest = higher
            considered = [pod for pod in self._evictable if pod.priority <= highest]
            yield (highest,)
            by_priority = self._cheapest_by_priority(considered)
        yield by_priority.priority_cost
        yield self._bound_by_single_pods(considered, by_priority.priority_cost)
        # The cheapest set by capacity, with all fields of its cost.
        if context.needs_full_filters and self._is_always_rejected():
            return
        victims = self._cheapest_by_capacity(considered, by_priority)
        yield costs.cost_of(victims)
        if not self._fits(victims):
            # A filter that is not about capacity has rejected the set.
            context.needs_full_filters = True
            accepted = None if self._is_always_rejected() else self._cheapest_accepted()
            if accepted is None:
                return
            victims = accepted
        self.victims = tuple(_in_eviction_order(victims, costs))
        yield costs.cost_of(victims)

    # --- by capacity alone ------------------------------------------------------------------------------------------------

    def _considered(self) -> t.Optional[list[EvictablePod]]:
        """Return the evictable pods up to the lowest priority that is enough. Return None if all of them together are not enough."""
        short = list(self._missing)
        kinds = range(len(short))
        highest, considered = NO_VICTIM, []
        for pod in self._evictable if short else ():
            priority = pod.priority
            if priority > highest and max(short) <= 0:
                break
            highest = priority
            considered.append(pod)
            for kind in kinds:
                short[kind] -= pod.frees[kind]
        return considered if max(short, default=0) <= 0 else None

    def _cheapest_by_priority(self, considered: list[EvictablePod]) -> t.Optional[VictimSet]:
        """Return the cheapest set if only the priorities count. Return None if there is none within the limits."""
        key = (self._missing, tuple([pod.shape for pod in considered]))
        cache = self._context.result_cache
        if key not in cache:
            groups = _equivalent_by_priority(considered)
            found = self._search(considered, groups)
            cache[key] = found or (self._large_sets(considered).minimal_set(groups) if _is_large(considered) else None)
        return cache[key]

    def _bound_by_single_pods(self, considered: list[EvictablePod], priority_cost: PriorityCost) -> LowerBound:
        """Return lower bounds of the other fields from the best pods, without a check that they free enough together.

        On nodes with the same pods this is much faster than a search: with 1,000 of them a plan takes a fifth of the time.
        """
        costs, number = self._context.costs, priority_cost.number
        node_pods = self._possible_victims(considered, number)
        return (
            *priority_cost,
            sum(sorted(map(costs.is_evicted_last, node_pods))[:number]),
            sum(sorted(map(costs.is_surely_unreschedulable, node_pods))[:number]),
            -min(sorted(map(costs.remaining_ready, node_pods))[-number:], default=PRIORITY_OFFSET),
            tuple(sorted([node_pod.age for node_pod in node_pods])[:number][::-1]),
            (min([node_pod.name for node_pod in node_pods]),) if node_pods else (),
        )

    def _possible_victims(self, considered: list[EvictablePod], number: int) -> list[NodePod]:
        """Return the pods that can be in a set of ``number`` pods that frees enough.

        Each of them must free the rest of the missing capacity if every other pod of the set frees as much as the best pod does.
        """
        if not number:
            return []
        frees = {pod.frees for pod in considered}
        if len(frees) == 1:
            return [pod.node_pod for pod in considered]
        least = [amount - (number - 1) * max(kind) for amount, kind in zip(self._missing, zip(*frees))]
        enough = {freed for freed in frees if all(map(ge, freed, least))}
        return [pod.node_pod for pod in considered if pod.frees in enough]

    def _cheapest_by_capacity(self, considered: list[EvictablePod], by_priority: VictimSet) -> list[Pod]:
        """Return the cheapest set that frees enough. ``by_priority``: the cheapest one if only the priorities count."""
        costs = self._context.costs
        costs.add_node_pods(pod.node_pod for pod in considered)
        groups = _equivalent_by_rank(considered, costs)
        found = self._search(considered, groups, rank=costs.tie_breakers, ceiling=by_priority.priority_cost)
        sets = [list(found.pods)] if found is not None else []
        if _is_large(considered):
            large = self._large_sets(considered)
            first = large.first_in_order(_equivalent_by_priority(considered), by_priority.numbers)
            sets = [large.without_unneeded(pods) for pods in (*sets, first)]
        return min(sets, key=costs.cost_of)

    # --- with all filters -------------------------------------------------------------------------------------------------

    def _cheapest_accepted(self) -> t.Optional[list[Pod]]:
        """Return the cheapest set that all filters accept, among all sets of the evictable pods. Return None if there is none."""
        context, evictable = self._context, self._evictable
        context.costs.add_node_pods(pod.node_pod for pod in evictable)
        if _is_large(evictable):
            return self._large_sets(evictable).accepted_set(self._fits)
        search = SubsetSearch(
            _equivalent_by_rank(evictable, context.costs, one_by_one=True),
            self._missing,
            context.limits(evictable),
            rank=context.costs.tie_breakers,
            accepts=self._fits,
            monotone=context.dry_run.is_monotone(pod.pod for pod in evictable),
        )
        found = search.run()
        return list(found.pods) if found is not None else None

    def _is_always_rejected(self) -> bool:
        """Return whether no eviction opens the node. Return False if that is not known."""
        everybody = [pod.pod for pod in self._evictable]
        return self._context.dry_run.is_monotone(everybody) and not self._fits(everybody)

    def _fits(self, pods: Iterable[Pod]) -> bool:
        return self._context.dry_run.fits(self.node_name, pods)

    # --- shared by the steps ----------------------------------------------------------------------------------------------

    def _large_sets(self, pods: Sequence[EvictablePod]) -> _LargeSets:
        return _LargeSets(self._missing, pods, self._context)

    def _search(self, considered: list[EvictablePod], groups: Sequence[InterchangeablePods], **how: t.Any) -> t.Optional[VictimSet]:
        steps = MAX_SEARCH_STEPS if _is_large(considered) else None
        return SubsetSearch(groups, self._missing, self._context.limits(considered, steps), **how).run()


def _is_large(pods: Sequence[EvictablePod]) -> bool:
    return len(pods) > MAX_EXACT_PODS


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
        freed = map(sum, zip(*(frees[pod.metadata.uid] for pod in pods))) if pods else (0,) * len(self._missing)
        return all(map(ge, freed, self._missing))

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
