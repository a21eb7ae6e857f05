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
from ..victims.cost import NO_VICTIM, PRIORITY_OFFSET, Cost, PriorityCost
from ..victims.node_pod import NodePod
from ..victims.victim_costs import VictimCosts
from .eviction_dry_run import EvictionDryRun
from .shortage import EvictablePod, Shape, Shortage
from .subset_search import Group, Rank, SearchLimits, SubsetSearch, VictimSet

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
    to ``MAX_EXACT_PODS`` evictable pods. For more, it is a minimal set: none of its pods can be kept, and a cheaper set may exist.
    """

    def __init__(self, node_name: str, shortage: Shortage, context: SearchContext) -> None:
        self.node_name = node_name
        self.victims: t.Optional[tuple[NodePod, ...]] = None
        self._missing = shortage.missing
        self._evictable = shortage.evictable
        self._context = context
        self._costs = context.costs

    def bounds(self) -> Iterator[LowerBound]:
        """Yield lower bounds of the cost of the cheapest victims, each of them at least as high as the one before.

        The last bound is their cost, and ``victims`` is set then. If no set of victims makes the pod fit, the bounds end without victims.
        """
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
        if self._context.needs_full_filters and self._is_always_rejected():
            return
        victims = self._cheapest_by_capacity(considered, by_priority)
        yield self._cost_of(victims)
        if not self._fits(victims):
            # A filter that is not about capacity has rejected the set.
            self._context.needs_full_filters = True
            accepted = None if self._is_always_rejected() else self._cheapest_accepted()
            if accepted is None:
                return
            victims = accepted
        self.victims = tuple(pod.node_pod for pod in self._in_eviction_order(victims))
        yield self._cost_of(victims)

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
        """Return the cheapest set if only the priorities count. Return None if there is none within the limits.

        Its pods may be those of another node. Their numbers for each shape are right for this node, too.
        """
        key = (self._missing, tuple([pod.shape for pod in considered]))
        cache = self._context.result_cache
        if key not in cache:
            groups = _groups_by_shape(considered)
            found = self._search(considered, groups)
            cache[key] = found or (self._minimal_set(considered, groups) if _is_large(considered) else None)
        return cache[key]

    def _bound_by_single_pods(self, considered: list[EvictablePod], priority_cost: PriorityCost) -> LowerBound:
        """Return lower bounds of the other fields from the best pods, without a check that they free enough together.

        On nodes with the same pods this is much faster than a search: with 1,000 such nodes a plan takes a fifth of the time.
        """
        costs, number = self._costs, priority_cost.number
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

    def _cheapest_by_capacity(self, considered: list[EvictablePod], by_priority: VictimSet) -> Sequence[EvictablePod]:
        """Return the cheapest set that frees enough. ``by_priority``: the cheapest one if only the priorities count."""
        groups = self._groups_by_rank(considered)
        found = self._search(considered, groups, rank=self._rank, ceiling=by_priority.priority_cost)
        sets = [found.pods] if found is not None else []
        if not _is_large(considered):
            return sets[0]
        first = [
            pod
            for group, number in zip(_groups_by_shape(considered), by_priority.numbers)
            for pod in self._in_eviction_order(group)[:number]
        ]
        return min((self._without_unneeded(pods, self._free_enough) for pods in (*sets, first)), key=self._cost_of)

    # --- with all filters -------------------------------------------------------------------------------------------------

    def _cheapest_accepted(self) -> t.Optional[Sequence[EvictablePod]]:
        """Return the cheapest set that all filters accept, among all sets of the evictable pods. Return None if there is none."""
        if _is_large(self._evictable):
            return self._accepted_set()
        search = SubsetSearch(
            self._groups_by_rank(self._evictable, one_by_one=True),
            self._missing,
            self._context.limits(self._evictable),
            rank=self._rank,
            accepts=self._fits,
            monotone=self._context.dry_run.is_monotone(_pods(self._evictable)),
        )
        found = search.run()
        return found.pods if found is not None else None

    def _is_always_rejected(self) -> bool:
        """Return whether no eviction opens the node. Return False if that is not known."""
        return self._context.dry_run.is_monotone(_pods(self._evictable)) and not self._fits(self._evictable)

    def _fits(self, pods: Iterable[EvictablePod]) -> bool:
        return self._context.dry_run.fits(self.node_name, _pods(pods))

    # --- more pods than the exact search takes ----------------------------------------------------------------------------

    def _minimal_set(self, pods: Sequence[EvictablePod], groups: Sequence[Group]) -> t.Optional[VictimSet]:
        """Return a set that frees enough within the limits. Return None if no such set is found. ``groups``: the pods, by shape."""
        for pool in self._pools(pods):
            chosen = self._without_unneeded(pool, self._free_enough) if self._free_enough(pool) else []
            if chosen and self._is_within_max_victims(chosen):
                uids = {pod.node_pod.pod.metadata.uid for pod in chosen}
                numbers = tuple(sum(pod.node_pod.pod.metadata.uid in uids for pod in group) for group in groups)
                return VictimSet(self._cost_of(chosen).by_priority, (), (), numbers, tuple(chosen))
        return None

    def _accepted_set(self) -> t.Optional[list[EvictablePod]]:
        """Return a set that all filters accept, within the limits. Return None if no such set is found."""
        for pool in self._pools(self._evictable):
            if self._fits(pool):
                chosen = self._without_unneeded(pool, self._fits)
                if self._is_within_max_victims(chosen):
                    return chosen
        return None

    def _pools(self, pods: Sequence[EvictablePod]) -> Iterator[list[EvictablePod]]:
        """Yield two sets of as many pods as budgets allow together.

        The first one prefers the pods that come first in the eviction order, the second one the pods that free most.
        """
        yield self._within_budgets(self._in_eviction_order(pods))
        yield self._within_budgets(sorted(pods, key=lambda pod: pod.frees, reverse=True))

    def _within_budgets(self, pods: Sequence[EvictablePod]) -> list[EvictablePod]:
        left = dict(self._context.limits(pods).disruptions_left)
        pool: list[EvictablePod] = []
        for pod in pods:
            if pod.budget is not None:
                left[pod.budget] -= 1
            if pod.budget is None or left[pod.budget] >= 0:
                pool.append(pod)
        return pool

    def _is_within_max_victims(self, pods: Sequence[EvictablePod]) -> bool:
        most = self._context.options.max_victims
        return most is None or len(pods) <= most

    def _free_enough(self, pods: Sequence[EvictablePod]) -> bool:
        freed = map(sum, zip(*(pod.frees for pod in pods))) if pods else (0,) * len(self._missing)
        return all(map(ge, freed, self._missing))

    def _without_unneeded(self, pods: Iterable[EvictablePod], enough: Callable[[list[EvictablePod]], bool]) -> list[EvictablePod]:
        """Return the pods that are needed: without any one of them, ``enough`` is false. Pods with the highest priority are kept first."""
        chosen = self._in_eviction_order(pods)
        is_minimal = False
        while not is_minimal:
            is_minimal = True
            for pod in reversed(list(chosen)):
                others = [other for other in chosen if other is not pod]
                if enough(others):
                    chosen, is_minimal = others, False
        return chosen

    # --- shared by the steps ----------------------------------------------------------------------------------------------

    def _search(self, considered: list[EvictablePod], groups: Sequence[Group], **how: t.Any) -> t.Optional[VictimSet]:
        steps = MAX_SEARCH_STEPS if _is_large(considered) else None
        return SubsetSearch(groups, self._missing, self._context.limits(considered, steps), **how).run()

    def _cost_of(self, pods: Iterable[EvictablePod]) -> Cost:
        return self._costs.cost_of([pod.node_pod for pod in pods])

    def _rank(self, pods: Iterable[EvictablePod]) -> Rank:
        return self._costs.tie_breakers([pod.node_pod for pod in pods])

    def _in_eviction_order(self, pods: Iterable[EvictablePod]) -> list[EvictablePod]:
        """Return the pods sorted for eviction, the lowest priority and cost first."""
        return sorted(pods, key=lambda pod: self._costs.eviction_order(pod.node_pod))

    def _groups_by_rank(self, pods: Iterable[EvictablePod], *, one_by_one: bool = False) -> list[Group]:
        """Return groups of pods that differ only in their ages and names, the youngest first.

        The groups that are kept if possible come first.

        ``one_by_one``: each pod is its own group, and pods that free nothing are included.
        """
        found: dict[tuple[t.Any, ...], list[EvictablePod]] = {}
        for pod in pods:
            metadata, spec = pod.node_pod.pod.metadata, pod.node_pod.pod.spec
            # Pods whose parts are the same objects have the same template, so their replacements are equal.
            parts = (metadata.labels, spec.containers, spec.init_containers, spec.affinity, spec.tolerations, spec.node_selector)
            template = (*map(id, parts), id(spec.topology_spread_constraints), spec.scheduler_name)
            key = (*pod.shape, pod.node_pod.owner, pod.node_pod.ready, *template)
            alone = one_by_one or pod.node_pod.in_gang or spec.volumes
            if one_by_one or any(pod.frees):
                found.setdefault((*key, metadata.uid) if alone else key, []).append(pod)
        groups = [self._in_eviction_order(members) for members in found.values()]
        return sorted(groups, key=lambda members: self._costs.eviction_order(members[0].node_pod), reverse=True)


def _groups_by_shape(pods: Iterable[EvictablePod]) -> list[Group]:
    """Return groups of pods with equal shapes, without pods that free nothing.

    The highest priority comes first, then the pods that free less.
    """
    found: dict[Shape, list[EvictablePod]] = {}
    for pod in pods:
        if any(pod.frees):
            found.setdefault(pod.shape, []).append(pod)
    return sorted(found.values(), key=lambda group: (-group[0].priority, group[0].frees, group[0].budget or ()))


def _pods(evictable: Iterable[EvictablePod]) -> list[Pod]:
    return [pod.node_pod.pod for pod in evictable]


def _is_large(pods: Sequence[EvictablePod]) -> bool:
    return len(pods) > MAX_EXACT_PODS
