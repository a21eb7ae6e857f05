# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cost of placing a pod on one node. It is computed only as far as needed to show that another node is cheaper."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import ge

from ...model.api.pod import Pod
from ...model.budgets.ledger import PdbLedger
from ...model.scheduler_profile import Profiles
from ...model.selectors.label_selector import matches
from ...scheduler.affinity_term_index import required_pod_affinity
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterRunner
from ...scheduler.pod_filters import FilterResult
from ..options import RescueOptions
from ..victims.node_pod import NodePod
from ..victims.pod_traits import is_in_gang
from ..victims.victim_costs import NO_VICTIM, PRIORITY_OFFSET, Cost, PriorityCost, Rank, VictimCosts, template_key
from .capacity import DisruptionsLeft, EvictablePod, Shape, Shortage, within_budgets
from .subset_search import Group, SubsetSearch, VictimSet

MAX_EXACT_PODS = 16
"""The largest number of evictable pods on a node for which the best set is found. For more pods it is a minimal set of a limited search."""

MAX_SEARCH_STEPS = 400
"""The number of sets that a search checks if there are more pods."""

LowerBound = tuple[t.Any, ...]
"""The first fields of a ``Cost``. The last ones may be lower bounds."""


class SearchContext:
    """The data that all nodes of one search share. The filters run on a fork of the cluster state, which does not change.

    ``runner``: the filters on this fork. ``known_sets``: the victim sets by the maximum number of victims, by the missing amounts, and by
    the shapes of the pods. Nodes that differ only in the names and owners of pods share a set. ``needs_full_filters``: on some node a
    filter that is not about capacity has rejected the pod, so it may do so on other nodes.
    """

    def __init__(self, pod: Pod, cluster_state: ClusterState, options: RescueOptions, budgets: PdbLedger, profiles: Profiles) -> None:
        self.options, self._budgets = options, budgets
        self.cluster_state, self._fork = cluster_state, cluster_state.fork()
        self.costs = VictimCosts(cluster_state, profiles)
        self.runner = FilterRunner(pod, self._fork, profiles)
        self.known_sets: dict[tuple[t.Any, ...], t.Optional[VictimSet]] = {}
        self.needs_full_filters = False
        self._affinity_selectors = [term.label_selector for term in required_pod_affinity(pod)]

    def disruptions_left(self, pods: Iterable[EvictablePod]) -> DisruptionsLeft:
        """Return the evictions that each budget of these pods allows."""
        return {pod.budget: self._budgets.disruptions_left(pod.budget) for pod in pods if pod.budget is not None}

    def filter_result(self, node_name: str, without: Iterable[Pod]) -> FilterResult:
        """Return the result for the node without these pods. Each of them is on its node of the snapshot."""
        gone = list(without)
        known = self.runner.result_without_pods(node_name, gone) if gone else None
        if known is not None:
            return known
        for pod in gone:
            self._fork.remove(pod)
        result = self.runner.run_filters(node_name)
        for pod in gone:
            self._fork.restore(pod)
        return result

    def is_monotone(self, evictable: Iterable[EvictablePod]) -> bool:
        """Return whether further evictions of these pods can only open the node, and never close it.

        This is true if the pod's affinity selects none of them.
        """
        return not self._affinity_selectors or not any(
            matches(selector, pod.node_pod.pod.metadata.labels) for pod in evictable for selector in self._affinity_selectors
        )

    def fits(self, node_name: str, without: Iterable[EvictablePod]) -> bool:
        """Return whether the node is surely feasible without these pods."""
        return not any(self.filter_result(node_name, [pod.node_pod.pod for pod in without]))


class NodeCandidate:
    """A node and the cheapest victims there, at most ``max_victims``.

    ``victims``: the cheapest set, the lowest priorities first. It is None until ``bounds`` has found it. The set is the cheapest one for up
    to ``MAX_EXACT_PODS`` evictable pods. For more, it is a minimal set: none of its pods can be kept, and a cheaper set may exist.
    """

    def __init__(self, node_name: str, shortage: Shortage, context: SearchContext, max_victims: t.Optional[int]) -> None:
        self.node_name = node_name
        self.victims: t.Optional[tuple[NodePod, ...]] = None
        self._missing, self._evictable = shortage
        self._context, self._costs = context, context.costs
        self._max_victims = max_victims

    def bounds(self) -> Iterator[LowerBound]:
        """Yield lower bounds of the cost of the cheapest victims, each of them at least as high as the one before.

        The last bound is their cost, and ``victims`` is set then. If no set of victims makes the pod fit, the bounds end without victims.
        """
        # The lowest priority up to which all pods together free enough. Budgets or ``max_victims`` may exclude all sets of these pods.
        considered: list[EvictablePod] = []
        short, highest = list(self._missing), NO_VICTIM
        by_priority: t.Optional[VictimSet] = None
        for pod in (*self._evictable, None):
            if (pod is None or pod.priority > highest) and max(short, default=0) <= 0:
                yield (highest,)
                by_priority = self._cheapest_by_priority(considered)
                if by_priority is not None:
                    break
            if pod is not None:
                highest = pod.priority
                considered.append(pod)
                for kind, freed in enumerate(pod.frees):
                    short[kind] -= freed
        if by_priority is None:
            return
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

    def _cheapest_by_priority(self, considered: list[EvictablePod]) -> t.Optional[VictimSet]:
        """Return the cheapest set if only the priorities count. Return None if there is none within the limits.

        Its pods may be those of another node. Their numbers for each shape are right for this node, too.
        """
        key = (self._max_victims, self._missing, tuple([pod.shape for pod in considered]))
        known = self._context.known_sets
        if key not in known:
            known[key] = self._search(considered, _groups_by_shape(considered)) or self._minimal_set(considered)
        return known[key]

    def _bound_by_single_pods(self, considered: list[EvictablePod], priority_cost: PriorityCost) -> LowerBound:
        """Return lower bounds of the other fields from the best pods, without a check that they free enough together.

        On nodes with the same pods this is much faster than a search: with 1,000 such nodes a plan takes a fifth of the time.
        """
        costs, number = self._costs, priority_cost[2]
        # Each victim must free what is left if every other one frees as much as the best pod does.
        frees = {pod.frees for pod in considered}
        least = [amount - (number - 1) * max(freed) for amount, freed in zip(self._missing, zip(*frees))]
        enough = {freed for freed in frees if all(map(ge, freed, least))}
        node_pods = [pod.node_pod for pod in considered if pod.frees in enough] if number else []
        return (
            *priority_cost,
            sum(sorted(map(costs.is_evicted_last, node_pods))[:number]),
            sum(sorted([not costs.may_fit(node_pod.pod) for node_pod in node_pods])[:number]),
            -min(sorted(map(costs.remaining_ready, node_pods))[-number:], default=PRIORITY_OFFSET),
            tuple(sorted([node_pod.age for node_pod in node_pods])[:number][::-1]),
            (min([node_pod.name for node_pod in node_pods]),) if node_pods else (),
        )

    def _cheapest_by_capacity(self, considered: list[EvictablePod], by_priority: VictimSet) -> Sequence[EvictablePod]:
        """Return the cheapest set that frees enough. ``by_priority``: the cheapest one if only the priorities count."""
        groups = self._groups_by_rank(considered)
        found = self._search(considered, groups, rank=self._rank, ceiling=by_priority.priority_cost)
        sets = [found.pods] if found is not None else []
        if not _is_large(considered):
            return sets[0]
        numbers = Counter(pod.shape for pod in by_priority.pods)
        first = [pod for group in _groups_by_shape(considered) for pod in self._in_eviction_order(group)[: numbers[group[0].shape]]]
        return min((self._without_unneeded(pods, self._free_enough) for pods in (*sets, first)), key=self._cost_of)

    # --- with all filters -------------------------------------------------------------------------------------------------

    def _cheapest_accepted(self) -> t.Optional[Sequence[EvictablePod]]:
        """Return the cheapest set that all filters accept, among all sets of the evictable pods. Return None if there is none."""
        if _is_large(self._evictable):
            return self._needed_pods(self._evictable, self._fits)
        groups, monotone = self._groups_by_rank(self._evictable, one_by_one=True), self._context.is_monotone(self._evictable)
        found = self._search(self._evictable, groups, rank=self._rank, accepts=self._fits, monotone=monotone)
        return found.pods if found is not None else None

    def _is_always_rejected(self) -> bool:
        """Return whether no eviction opens the node. Return False if that is not known."""
        return self._context.is_monotone(self._evictable) and not self._fits(self._evictable)

    def _fits(self, pods: Iterable[EvictablePod]) -> bool:
        return self._context.fits(self.node_name, pods)

    # --- more pods than the exact search takes ----------------------------------------------------------------------------

    def _minimal_set(self, pods: Sequence[EvictablePod]) -> t.Optional[VictimSet]:
        """Return a set of too many pods for the exact search. Return None if no set is found, or if the exact search has found none."""
        chosen = self._needed_pods(pods, self._free_enough) if _is_large(pods) else None
        return VictimSet(self._cost_of(chosen)[:3], (), tuple(chosen)) if chosen else None

    def _needed_pods(
        self, pods: Sequence[EvictablePod], enough: Callable[[Sequence[EvictablePod]], bool]
    ) -> t.Optional[list[EvictablePod]]:
        """Return a set of these pods that is enough, within the limits, and without pods that are not needed.

        The pods that come first in the eviction order are tried first, then those that free most. Return None if no such set is found.
        """
        for ordered in (self._in_eviction_order(pods), sorted(pods, key=lambda pod: pod.frees, reverse=True)):
            pool = within_budgets([(pod, pod.budget) for pod in ordered], self._context.disruptions_left(pods))
            if enough(pool):
                chosen = self._without_unneeded(pool, enough)
                if self._max_victims is None or len(chosen) <= self._max_victims:
                    return chosen
        return None

    def _free_enough(self, pods: Sequence[EvictablePod]) -> bool:
        freed = map(sum, zip(*[pod.frees for pod in pods])) if pods else (0,) * len(self._missing)
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
        steps, left = MAX_SEARCH_STEPS if _is_large(considered) else None, self._context.disruptions_left(considered)
        return SubsetSearch(groups, self._missing, left, self._max_victims, steps, **how).run()

    def _cost_of(self, pods: Iterable[EvictablePod]) -> Cost:
        return self._costs.cost_of([pod.node_pod for pod in pods])

    def _rank(self, pods: Iterable[EvictablePod]) -> Rank:
        return self._costs.rank_of([pod.node_pod for pod in pods])

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
            # The replacements of pods with the same parts are equal.
            template = template_key(pod.node_pod.pod), id(metadata.labels), id(spec.topology_spread_constraints)
            key = (*pod.shape, pod.node_pod.owner, pod.node_pod.ready, *template)
            alone = one_by_one or spec.volumes or is_in_gang(pod.node_pod.pod)
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


def _is_large(pods: Sequence[EvictablePod]) -> bool:
    return len(pods) > MAX_EXACT_PODS
