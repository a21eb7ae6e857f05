# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What a pod's place on one node costs, worked out no further than it takes to tell that another node is cheaper."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import ge

from ..model.api.pod import Pod
from .budgets import BudgetKey, Budgets
from .cost import NO_VICTIM, PRIORITY_OFFSET, VictimCosts
from .occupants import Evictable, Occupants
from .options import RescueOptions
from .residents import Resident
from .subsets import Amounts, Bounds, Found, Group, SubsetSearch
from .trial import Trial

EXACT_UP_TO = 16
"""Among so many pods of a node the best set is found; among more, a minimal one of a search that is cut short."""

STEPS = 400
"""Sets that are looked at where there are more pods."""

Key = tuple[t.Any, ...]
"""The first fields of a ``Cost``, the last ones of them perhaps as lower bounds."""


@dataclass
class Means:
    """What all prospects of one search share.

    ``shapes``: what was found on nodes that differ only in the names and owners of pods. ``contested``: on some node a rule has spoken that
    is not about room, so that it may on others.
    """

    options: RescueOptions
    budgets: Budgets
    costs: VictimCosts
    trial: Trial
    shapes: dict[tuple[t.Any, ...], t.Optional[Found]] = field(default_factory=dict)
    contested: bool = False

    def bounds(self, pods: Iterable[Evictable], steps: t.Optional[int] = None) -> Bounds:
        """The bounds of a search among these pods."""
        left = {pod.budget: self.budgets.left(pod.budget) for pod in pods if pod.budget is not None}
        return Bounds(left, self.options.max_victims, steps)


class Prospect:
    """A node, and the cheapest victims there as far as they are known.

    ``key`` never is above their cost. ``refine`` takes the next step, which leaves the key as it is or makes it larger; it returns False
    where the node is out. Once ``proved``, ``victims`` are the cheapest, those that are least important first, and the key is their cost.
    """

    def __init__(self, node_name: str, occupants: Occupants, means: Means) -> None:
        self.node_name = node_name
        self.key: Key = ()
        self.victims: tuple[Pod, ...] = ()
        self.proved = False
        self._lacking = occupants.lacking
        self._evictable = occupants.evictable
        self._means = means
        # Those of the evictable pods that have none of the priorities that are too high to be needed.
        self._reached: list[Evictable] = []
        # A function and no method of its own, which would be a cycle: thousands of them would wait for the collector after each plan.
        self._next: Callable[[Prospect], bool] = Prospect._reach

    def refine(self) -> bool:
        """Learn more of the cost; whether the node is still a candidate."""
        return self._next(self)

    # --- by room alone: a lower bound of the cost -----------------------------------------------------------------------

    def _reach(self) -> bool:
        """How high the priorities must go for all pods up to there to free enough."""
        short = list(self._lacking)
        kinds = range(len(short))
        highest, reached = NO_VICTIM, self._reached
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
        self.key, self._next = (highest,), Prospect._weigh
        return True

    def _weigh(self) -> bool:
        """The first three fields."""
        shape = (self._lacking, tuple([pod[:3] for pod in self._reached]))
        shapes = self._means.shapes
        if shape not in shapes:
            groups = _alike(self._reached)
            found = self._search(groups, self._reached)
            shapes[shape] = found or (self._among_many(groups) if len(self._reached) > EXACT_UP_TO else None)
        found = shapes[shape]
        if found is None:
            return self._reach_higher()
        self.key, self._next = found.triple, partial(Prospect._rank, found=found)
        return True

    def _reach_higher(self) -> bool:
        """Budgets or the bound on victims rule out all sets so far: the next higher priority is needed."""
        highest = max((pod.priority for pod in self._reached), default=NO_VICTIM)
        higher = min((pod.priority for pod in self._evictable if pod.priority > highest), default=None)
        if higher is None:
            return False
        self._reached = [pod for pod in self._evictable if pod.priority <= higher]
        self.key = (higher,)
        return True

    def _rank(self, found: Found) -> bool:
        """Lower bounds of the other fields: what the best of the pods come to, whether or not they free enough together."""
        costs = self._means.costs
        number = found.triple[2]
        residents = self._useful(number)
        self.key = (
            *found.triple,
            sum(sorted(map(costs.is_tied, residents))[:number]),
            sum(sorted(map(costs.is_surely_homeless, residents))[:number]),
            -min(sorted(map(costs.stays, residents))[-number:], default=PRIORITY_OFFSET),
            tuple(sorted([resident.age for resident in residents])[:number][::-1]),
            (min([resident.name for resident in residents]),) if residents else (),
        )
        self._next = partial(Prospect._choose, first=found)
        return True

    def _useful(self, number: int) -> list[Resident]:
        """The pods that can be part of a set of so many: with the best that the others may free, each has to free what is left."""
        if not number:
            return []
        frees = {pod.frees for pod in self._reached}
        if len(frees) == 1:
            return [pod.resident for pod in self._reached]
        least = [amount - (number - 1) * max(kind) for amount, kind in zip(self._lacking, zip(*frees))]
        enough = {freed for freed in frees if all(map(ge, freed, least))}
        return [pod.resident for pod in self._reached if pod.frees in enough]

    def _choose(self, first: Found) -> bool:
        """The cheapest set, with all fields of its cost."""
        costs, reached = self._means.costs, self._reached
        if self._means.contested and self._is_closed():
            return False
        costs.know(pod.resident for pod in reached)
        found = self._search(_by_rank(reached, costs), reached, rank=costs.beyond_priority, ceiling=first.triple)
        sets = [list(found.pods)] if found is not None else []
        if len(reached) > EXACT_UP_TO:
            sets = [self._without_needless(pods) for pods in (*sets, self._likely(first))]
        self._settle(min(sets, key=costs.of))
        self._next = Prospect._prove
        return True

    def _search(self, groups: Sequence[Group], pods: Sequence[Evictable], **how: t.Any) -> t.Optional[Found]:
        steps = None if len(pods) <= EXACT_UP_TO else STEPS
        return SubsetSearch(groups, self._lacking, self._means.bounds(pods, steps), **how).run()

    def _among_many(self, groups: Sequence[Group]) -> t.Optional[Found]:
        """A set for when the search has ended too early to find any."""
        for pool in self._pools(self._reached):
            chosen = self._without_needless(pool) if self._free_enough(pool) else []
            most = self._means.options.max_victims
            if chosen and (most is None or len(chosen) <= most):
                uids = {pod.metadata.uid for pod in chosen}
                numbers = tuple(sum(pod.metadata.uid in uids for pod in group.pods) for group in groups)
                return Found(self._means.costs.of(chosen)[:3], (), (), numbers, tuple(chosen))
        return None

    def _pools(self, pods: Sequence[Evictable]) -> Iterator[list[Pod]]:
        """As many of the pods as budgets let go together: the least important ones, or those that free most."""
        costs = self._means.costs
        yield self._within_budgets(sorted(pods, key=lambda pod: costs.importance(pod.resident)))
        yield self._within_budgets(sorted(pods, key=lambda pod: pod.frees, reverse=True))

    def _within_budgets(self, pods: Sequence[Evictable]) -> list[Pod]:
        left = dict(self._means.bounds(pods).left)
        pool: list[Pod] = []
        for pod in pods:
            if pod.budget is not None:
                left[pod.budget] -= 1
            if pod.budget is None or left[pod.budget] >= 0:
                pool.append(pod.pod)
        return pool

    def _likely(self, first: Found) -> list[Pod]:
        """The set that gave the first three fields, of the pods that are best by themselves."""
        chosen: list[Pod] = []
        for group, number in zip(_alike(self._reached), first.numbers):
            chosen += self._by_importance(group.pods)[:number]
        return chosen

    def _without_needless(self, pods: list[Pod]) -> list[Pod]:
        return _reprieved(self._by_importance(pods), self._free_enough)

    def _free_enough(self, pods: list[Pod]) -> bool:
        frees = {pod.pod.metadata.uid: pod.frees for pod in self._evictable}
        short = self._lacking
        for pod in pods:
            short = _less(short, frees[pod.metadata.uid])
        return max(short, default=0) <= 0

    # --- by all rules ---------------------------------------------------------------------------------------------------

    def _prove(self) -> bool:
        self.proved = self._means.trial.fits(self.node_name, self.victims)
        if not self.proved:
            self._next = Prospect._contest
        return True

    def _contest(self) -> bool:
        """Another rule has spoken: the cheapest set of which the rules approve."""
        self._means.contested = True
        if self._is_closed():
            return False
        self._means.costs.know(pod.resident for pod in self._evictable)
        found = self._exactly() if len(self._evictable) <= EXACT_UP_TO else self._reprieve()
        if found is None:
            return False
        self._settle(found)
        self.proved = True
        return True

    def _is_closed(self) -> bool:
        """No eviction opens the node; False where that is not known."""
        everybody = [pod.pod for pod in self._evictable]
        return self._means.trial.is_monotone(everybody) and not self._fits(everybody)

    def _exactly(self) -> t.Optional[list[Pod]]:
        means = self._means
        search = SubsetSearch(
            _by_rank(self._evictable, means.costs, one_by_one=True),
            self._lacking,
            means.bounds(self._evictable),
            rank=means.costs.beyond_priority,
            accepts=self._fits,
            monotone=means.trial.is_monotone(pod.pod for pod in self._evictable),
        )
        found = search.run()
        return list(found.pods) if found is not None else None

    def _reprieve(self) -> t.Optional[list[Pod]]:
        """All that may go together, but for those that may stay; the most important stay first."""
        most = self._means.options.max_victims
        for pool in self._pools(self._evictable):
            if self._fits(pool):
                chosen = _reprieved(self._by_importance(pool), self._fits)
                if most is None or len(chosen) <= most:
                    return chosen
        return None

    def _fits(self, pods: list[Pod]) -> bool:
        return self._means.trial.fits(self.node_name, pods)

    def _settle(self, pods: Iterable[Pod]) -> None:
        self.victims = tuple(self._by_importance(pods))
        self.key = self._means.costs.of(self.victims)

    def _by_importance(self, pods: Iterable[Pod]) -> list[Pod]:
        costs = self._means.costs
        return sorted(pods, key=lambda pod: costs.importance(costs.resident(pod)))


def _less(amounts: Amounts, freed: Amounts) -> Amounts:
    return tuple(amount - gone for amount, gone in zip(amounts, freed))


def _alike(pods: Iterable[Evictable]) -> list[Group]:
    """Pods that the first three fields of a cost cannot tell apart; highest priority first, then those that free less."""
    found: dict[tuple[int, Amounts, t.Optional[BudgetKey]], list[Pod]] = {}
    for pod in pods:
        if any(pod.frees):
            found.setdefault(pod[:3], []).append(pod.pod)
    groups = [Group(*alike, members) for alike, members in found.items()]
    return sorted(groups, key=lambda group: (-group.priority, group.frees, group.budget or ()))


def _by_rank(pods: Iterable[Evictable], costs: VictimCosts, *, one_by_one: bool = False) -> list[Group]:
    """Pods that only their ages and names tell apart, the youngest first; the most important groups first.

    ``one_by_one``: each by itself, also those that free nothing.
    """
    found: dict[tuple[t.Any, ...], list[Evictable]] = {}
    for pod in pods:
        spec = pod.pod.spec
        # Parts that are the same object make the same template, so that the same is true of the pods' replacements.
        parts = (pod.pod.metadata.labels, spec.containers, spec.init_containers, spec.affinity, spec.tolerations, spec.node_selector)
        template = (*map(id, parts), id(spec.topology_spread_constraints), spec.scheduler_name)
        key = (*pod[:3], pod.resident.owner, pod.resident.ready, *template)
        alone = one_by_one or pod.resident.in_gang or spec.volumes
        if one_by_one or any(pod.frees):
            found.setdefault((*key, pod.pod.metadata.uid) if alone else key, []).append(pod)
    groups = [sorted(members, key=lambda pod: costs.importance(pod.resident)) for members in found.values()]
    groups.sort(key=lambda members: costs.importance(members[0].resident), reverse=True)
    return [Group(*members[0][:3], [member.pod for member in members]) for members in groups]


def _reprieved(pods: list[Pod], enough: Callable[[list[Pod]], bool]) -> list[Pod]:
    """Those of the pods that are needed: putting any one of them back leaves too little. ``pods`` come least important first."""
    chosen = list(pods)
    settled = False
    while not settled:
        settled = True
        for pod in reversed(list(chosen)):
            others = [other for other in chosen if other is not pod]
            if enough(others):
                chosen, settled = others, False
    return chosen
