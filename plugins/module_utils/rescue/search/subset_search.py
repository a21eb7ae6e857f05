# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cheapest set of pods of one node that frees what is lacking: depth first, the most important pods first, keeping before taking.

What is pruned cannot be better, because a set costs more than each of its subsets (``cost.Cost``).
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ...model.api.pod import Pod
from ..pdb_ledger import BudgetKey
from ..victims.cost import NO_VICTIM, PRIORITY_OFFSET
from .amounts import Amounts

Rank = tuple[t.Any, ...]
"""The fields of a cost from ``node_bound`` to ``ages``, or none of them."""


class EquivalentPods(t.NamedTuple):
    """Pods of which none can be told from another by what it frees or, where ``rank`` counts, by more than its age and its name.

    ``pods``: those to be taken first come first. ``frees``: what each of them frees. ``budget``: what each of them draws on.
    """

    priority: int
    frees: Amounts
    budget: t.Optional[BudgetKey]
    pods: Sequence[Pod]


class SearchLimits(t.NamedTuple):
    """``disruptions_left``: what budgets let go. ``max_victims``: so many victims at most, None for any number.

    ``max_steps``: how many sets are looked at before the best one so far has to do; None for as many as it takes.
    """

    disruptions_left: Mapping[BudgetKey, int]
    max_victims: t.Optional[int] = None
    max_steps: t.Optional[int] = None


class VictimSet(t.NamedTuple):
    """A set with the first three fields of its cost and its rank; ``numbers``: how many pods of each group, in their order."""

    priority_cost: tuple[int, int, int]
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
        groups: Sequence[EquivalentPods],
        missing: Amounts,
        bounds: SearchLimits,
        *,
        rank: t.Optional[Callable[[list[Pod]], Rank]] = None,
        accepts: t.Optional[Callable[[list[Pod]], bool]] = None,
        monotone: bool = False,
        ceiling: t.Optional[tuple[int, int, int]] = None,
    ) -> None:
        self._groups = groups
        self._missing = missing
        self._limits = bounds
        self._rank = rank
        self._accepts = accepts
        # For each position all pods from there on: where not even they would do, nothing there is looked at.
        self._rest = [[pod for group in groups[position:] for pod in group.pods] for position in range(len(groups))] if monotone else None
        self._ceiling = ceiling
        self._best: t.Optional[VictimSet] = None
        self._steps = 0
        self._lowest = groups[-1].priority if groups else 0
        self._totals, self._largest = _from_the_end(groups, len(missing), bounds.disruptions_left)
        self._numbers: list[int] = []
        self._pods: list[Pod] = []
        self._drawn: Counter[BudgetKey] = Counter()

    def run(self) -> t.Optional[VictimSet]:
        """The cheapest set, or the best one that the steps led to; None where there is none."""
        self._descend(0, self._missing, (NO_VICTIM, 0, 0), grown=True)
        return self._best

    def _descend(self, position: int, missing: Amounts, priority_cost: tuple[int, int, int], *, grown: bool) -> bool:
        """Look at all sets that add pods of the groups from ``position`` on; whether the set will do as it is."""
        self._steps += 1
        if grown and max(missing, default=0) <= 0 and (self._accepts is None or self._accepts(self._pods)):
            self._offer(priority_cost)
            return True  # whatever is taken beyond that costs more
        if position == len(self._groups) or self._has_no_steps_left() or self._cannot_improve(position, missing, priority_cost):
            return False
        if grown or self._rest is None or self._accepts is None or self._accepts(self._pods + self._rest[position]):
            self._branch(position, missing, priority_cost)
        return False

    def _branch(self, position: int, missing: Amounts, priority_cost: tuple[int, int, int]) -> None:
        group = self._groups[position]
        # Those that are kept are tried first, so that the first set that is found keeps the most important pods.
        self._numbers.append(0)
        self._descend(position + 1, missing, priority_cost, grown=False)
        for number, pod in enumerate(group.pods, 1):
            if not self._may_take(group):
                break
            self._take(group, pod, number)
            missing = tuple(amount - freed for amount, freed in zip(missing, group.frees))
            highest, weight, count = priority_cost
            priority_cost = (max(highest, group.priority), weight + group.priority + PRIORITY_OFFSET, count + 1)
            if self._descend(position + 1, missing, priority_cost, grown=True):
                break
        self._put_back(group, self._numbers.pop())

    def _may_take(self, group: EquivalentPods) -> bool:
        if self._limits.max_victims is not None and len(self._pods) >= self._limits.max_victims:
            return False
        return group.budget is None or self._drawn[group.budget] < self._limits.disruptions_left[group.budget]

    def _take(self, group: EquivalentPods, pod: Pod, number: int) -> None:
        self._pods.append(pod)
        self._numbers[-1] = number
        if group.budget is not None:
            self._drawn[group.budget] += 1

    def _put_back(self, group: EquivalentPods, number: int) -> None:
        if number:
            del self._pods[-number:]
            if group.budget is not None:
                self._drawn[group.budget] -= number

    def _has_no_steps_left(self) -> bool:
        return self._limits.max_steps is not None and self._steps > self._limits.max_steps

    def _cannot_improve(self, position: int, missing: Amounts, priority_cost: tuple[int, int, int]) -> bool:
        """The groups that are left free too little, or only at a cost that is too high."""
        more = 1
        for amount, total, largest in zip(missing, self._totals[position], self._largest[position]):
            if amount > 0:
                if amount > total:
                    return True
                more = max(more, -(-amount // largest))
        highest, weight, count = priority_cost
        if self._limits.max_victims is not None and count + more > self._limits.max_victims:
            return True
        least = (max(highest, self._lowest), weight + more * (self._lowest + PRIORITY_OFFSET), count + more)
        if self._ceiling is not None and least > self._ceiling:
            return True
        best = self._best
        if best is None or least < best.priority_cost:
            return False
        return least > best.priority_cost or self._rank is None or self._rank(self._pods) >= best.rank

    def _offer(self, priority_cost: tuple[int, int, int]) -> None:
        if self._ceiling is not None and priority_cost > self._ceiling:
            return
        best = self._best
        if best is not None and priority_cost > best.priority_cost:
            return
        rank = self._rank(self._pods) if self._rank is not None else ()
        names = tuple(sorted((pod.metadata.namespace, pod.metadata.name) for pod in self._pods)) if self._rank is not None else ()
        if best is None or (priority_cost, rank, names) < best[:3]:
            numbers = (*self._numbers, *([0] * (len(self._groups) - len(self._numbers))))
            self._best = VictimSet(priority_cost, rank, names, numbers, tuple(self._pods))


def _from_the_end(groups: Sequence[EquivalentPods], kinds: int, left: Mapping[BudgetKey, int]) -> tuple[list[Amounts], list[Amounts]]:
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
