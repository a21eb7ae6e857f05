# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cheapest set of pods of one node that frees what is lacking: depth first, the most important pods first, keeping before taking.

What is pruned cannot be better, because a set costs more than each of its subsets (``cost.Cost``).
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ..model.api.pod import Pod
from .budgets import BudgetKey
from .cost import NO_VICTIM, PRIORITY_OFFSET

Amounts = tuple[int, ...]
"""By kind of room (``occupants.Demand``)."""

Rank = tuple[t.Any, ...]
"""The fields of a cost from ``tied`` to ``ages``, or none of them."""


class Group(t.NamedTuple):
    """Pods of which none can be told from another by what it frees or, where ``rank`` counts, by more than its age and its name.

    ``pods``: those to be taken first come first. ``frees``: what each of them frees. ``budget``: what each of them draws on.
    """

    priority: int
    frees: Amounts
    budget: t.Optional[BudgetKey]
    pods: Sequence[Pod]


class Bounds(t.NamedTuple):
    """``left``: what budgets let go. ``most``: so many victims at most, None for any number.

    ``steps``: how many sets are looked at before the best one so far has to do; None for as many as it takes.
    """

    left: Mapping[BudgetKey, int]
    most: t.Optional[int] = None
    steps: t.Optional[int] = None


class Found(t.NamedTuple):
    """A set with the first three fields of its cost and its rank; ``numbers``: how many pods of each group, in their order."""

    triple: tuple[int, int, int]
    rank: Rank
    names: tuple[tuple[str, str], ...]
    numbers: tuple[int, ...]
    pods: tuple[Pod, ...]


class SubsetSearch:
    """One search. ``groups`` come by priority, the highest first.

    ``rank`` gives the rank of a set (without it the first three fields decide alone), and ``accepts`` whether a set that frees enough
    will do; ``monotone``: what contains an accepted set is accepted. No set above ``ceiling``, the first three fields of a cost, is found.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        lacking: Amounts,
        bounds: Bounds,
        *,
        rank: t.Optional[Callable[[list[Pod]], Rank]] = None,
        accepts: t.Optional[Callable[[list[Pod]], bool]] = None,
        monotone: bool = False,
        ceiling: t.Optional[tuple[int, int, int]] = None,
    ) -> None:
        self._groups = groups
        self._lacking = lacking
        self._bounds = bounds
        self._rank = rank
        self._accepts = accepts
        # For each position all pods from there on: where not even they would do, nothing there is looked at.
        self._rest = [[pod for group in groups[position:] for pod in group.pods] for position in range(len(groups))] if monotone else None
        self._ceiling = ceiling
        self._best: t.Optional[Found] = None
        self._steps = 0
        self._lowest = groups[-1].priority if groups else 0
        self._totals, self._largest = _from_the_end(groups, len(lacking), bounds.left)
        self._numbers: list[int] = []
        self._pods: list[Pod] = []
        self._drawn: Counter[BudgetKey] = Counter()

    def run(self) -> t.Optional[Found]:
        """The cheapest set, or the best one that the steps led to; None where there is none."""
        self._descend(0, self._lacking, (NO_VICTIM, 0, 0), grown=True)
        return self._best

    def _descend(self, position: int, lacking: Amounts, triple: tuple[int, int, int], *, grown: bool) -> bool:
        """Look at all sets that add pods of the groups from ``position`` on; whether the set will do as it is."""
        self._steps += 1
        if grown and max(lacking, default=0) <= 0 and (self._accepts is None or self._accepts(self._pods)):
            self._offer(triple)
            return True  # whatever is taken beyond that costs more
        if position == len(self._groups) or self._is_spent() or self._is_hopeless(position, lacking, triple):
            return False
        if grown or self._rest is None or self._accepts is None or self._accepts(self._pods + self._rest[position]):
            self._branch(position, lacking, triple)
        return False

    def _branch(self, position: int, lacking: Amounts, triple: tuple[int, int, int]) -> None:
        group = self._groups[position]
        # Those that are kept are tried first, so that the first set that is found keeps the most important pods.
        self._numbers.append(0)
        self._descend(position + 1, lacking, triple, grown=False)
        for number, pod in enumerate(group.pods, 1):
            if not self._may_take(group):
                break
            self._take(group, pod, number)
            lacking = tuple(amount - freed for amount, freed in zip(lacking, group.frees))
            highest, weight, count = triple
            triple = (max(highest, group.priority), weight + group.priority + PRIORITY_OFFSET, count + 1)
            if self._descend(position + 1, lacking, triple, grown=True):
                break
        self._give_back(group, self._numbers.pop())

    def _may_take(self, group: Group) -> bool:
        if self._bounds.most is not None and len(self._pods) >= self._bounds.most:
            return False
        return group.budget is None or self._drawn[group.budget] < self._bounds.left[group.budget]

    def _take(self, group: Group, pod: Pod, number: int) -> None:
        self._pods.append(pod)
        self._numbers[-1] = number
        if group.budget is not None:
            self._drawn[group.budget] += 1

    def _give_back(self, group: Group, number: int) -> None:
        if number:
            del self._pods[-number:]
            if group.budget is not None:
                self._drawn[group.budget] -= number

    def _is_spent(self) -> bool:
        return self._bounds.steps is not None and self._steps > self._bounds.steps

    def _is_hopeless(self, position: int, lacking: Amounts, triple: tuple[int, int, int]) -> bool:
        """The groups that are left free too little, or only at a cost that is too high."""
        more = 1
        for amount, total, largest in zip(lacking, self._totals[position], self._largest[position]):
            if amount > 0:
                if amount > total:
                    return True
                more = max(more, -(-amount // largest))
        highest, weight, count = triple
        if self._bounds.most is not None and count + more > self._bounds.most:
            return True
        least = (max(highest, self._lowest), weight + more * (self._lowest + PRIORITY_OFFSET), count + more)
        if self._ceiling is not None and least > self._ceiling:
            return True
        best = self._best
        if best is None or least < best.triple:
            return False
        return least > best.triple or self._rank is None or self._rank(self._pods) >= best.rank

    def _offer(self, triple: tuple[int, int, int]) -> None:
        if self._ceiling is not None and triple > self._ceiling:
            return
        best = self._best
        if best is not None and triple > best.triple:
            return
        rank = self._rank(self._pods) if self._rank is not None else ()
        names = tuple(sorted((pod.metadata.namespace, pod.metadata.name) for pod in self._pods)) if self._rank is not None else ()
        if best is None or (triple, rank, names) < best[:3]:
            numbers = (*self._numbers, *([0] * (len(self._groups) - len(self._numbers))))
            self._best = Found(triple, rank, names, numbers, tuple(self._pods))


def _from_the_end(groups: Sequence[Group], kinds: int, left: Mapping[BudgetKey, int]) -> tuple[list[Amounts], list[Amounts]]:
    """For each position what the groups from there on free at most, and the most that one pod of them frees."""
    nothing = (0,) * kinds
    free = largest = nothing
    drawing: dict[BudgetKey, tuple[Amounts, Amounts]] = {}
    totals, most = [nothing], [nothing]
    for group in reversed(groups):
        largest = tuple(map(max, largest, group.frees))
        number = len(group.pods)
        if group.budget is None:
            free = tuple(amount + number * freed for amount, freed in zip(free, group.frees))
        else:
            all_of_it, best_of_it = drawing.get(group.budget, (nothing, nothing))
            all_of_it = tuple(amount + number * freed for amount, freed in zip(all_of_it, group.frees))
            drawing[group.budget] = all_of_it, tuple(map(max, best_of_it, group.frees))
        total = free
        for budget, (all_of_it, best_of_it) in drawing.items():
            total = tuple(amount + min(every, left[budget] * best) for amount, every, best in zip(total, all_of_it, best_of_it))
        totals.append(total)
        most.append(largest)
    return totals[::-1], most[::-1]
