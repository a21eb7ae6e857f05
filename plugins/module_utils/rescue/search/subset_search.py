# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Finds the cheapest set of pods of one node that frees the missing capacity.

The search is depth first. It starts with the pods of the highest priority, and tries to keep a pod before it takes it. A branch is skipped
only if it cannot be better, because a set costs more than each of its subsets (``cost.Cost``).
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ...model.budgets.ledger import BudgetKey
from ..victims.cost import NO_VICTIM, PRIORITY_OFFSET, PriorityCost
from .shortage import Amounts, EvictablePod

Rank = tuple[t.Any, ...]
"""The fields of a cost from ``evicted_last`` to ``ages``, or empty."""


_RunningCost = tuple[int, int, int]
"""The fields of a ``PriorityCost``. A plain tuple, because the search makes one for each set."""


Group = t.Sequence[EvictablePod]
"""Pods with equal shapes, in the order in which they are taken. If ``rank`` counts, they differ only in their ages and names."""


class SearchLimits(t.NamedTuple):
    """The limits of a search.

    ``disruptions_left``: the evictions that each budget allows. ``max_victims``: the maximum number of victims; None means no maximum.
    ``max_steps``: the number of sets that are checked before the best set so far is returned; None means no limit.
    """

    disruptions_left: Mapping[BudgetKey, int]
    max_victims: t.Optional[int] = None
    max_steps: t.Optional[int] = None


class VictimSet(t.NamedTuple):
    """A set with its cost.

    ``rank``: the other fields of the cost, without the names. ``numbers``: the number of pods from each group, in the order of the groups.
    """

    priority_cost: PriorityCost
    rank: Rank
    names: tuple[tuple[str, str], ...]
    numbers: tuple[int, ...]
    pods: tuple[EvictablePod, ...]


class SubsetSearch:
    """One search. ``groups`` are in order of priority, the highest first.

    ``rank`` returns the rank of a set; without it only the cost by priority counts. ``accepts`` returns whether a set that frees enough is
    allowed. ``monotone``: every superset of an accepted set is accepted. No set whose cost by priority is above ``ceiling``
    is found.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        missing: Amounts,
        limits: SearchLimits,
        *,
        rank: t.Optional[Callable[[list[EvictablePod]], Rank]] = None,
        accepts: t.Optional[Callable[[list[EvictablePod]], bool]] = None,
        monotone: bool = False,
        ceiling: t.Optional[PriorityCost] = None,
    ) -> None:
        self._groups = groups
        self._missing = missing
        self._limits = limits
        self._rank = rank
        self._accepts = accepts
        # For each position all pods from there on. If even all of them are not accepted, the position is skipped.
        self._rest = [[pod for group in groups[position:] for pod in group] for position in range(len(groups))] if monotone else None
        self._ceiling = ceiling
        self._best: t.Optional[VictimSet] = None
        self._steps = 0
        self._lowest = groups[-1][0].priority if groups else 0
        self._totals, self._largest = _from_the_end(groups, len(missing), limits.disruptions_left)
        self._numbers: list[int] = []
        self._pods: list[EvictablePod] = []
        self._drawn: Counter[t.Optional[BudgetKey]] = Counter()

    def run(self) -> t.Optional[VictimSet]:
        """Return the cheapest set, or the best one within the steps. Return None if there is none."""
        self._descend(0, self._missing, (NO_VICTIM, 0, 0), grown=True)
        return self._best

    def _descend(self, position: int, missing: Amounts, priority_cost: _RunningCost, *, grown: bool) -> bool:
        """Check all sets that add pods of the groups from ``position`` on. Return whether the current set is enough without them."""
        self._steps += 1
        if grown and max(missing, default=0) <= 0 and (self._accepts is None or self._accepts(self._pods)):
            self._offer(priority_cost)
            return True  # every larger set costs more
        if position == len(self._groups) or not self._has_steps_left() or not self._can_improve(position, missing, priority_cost):
            return False
        if grown or self._rest is None or self._accepts is None or self._accepts(self._pods + self._rest[position]):
            self._branch(position, missing, priority_cost)
        return False

    def _branch(self, position: int, missing: Amounts, priority_cost: _RunningCost) -> None:
        group = self._groups[position]
        _priority, frees, budget = group[0].shape
        # Sets without pods of this group are tried first, so the first set that is found keeps the pods with the highest priority.
        self._numbers.append(0)
        self._descend(position + 1, missing, priority_cost, grown=False)
        for pod in group:
            if not self._allows(budget):
                break
            self._pods.append(pod)
            self._numbers[-1] += 1
            self._drawn[budget] += 1
            missing = tuple(amount - freed for amount, freed in zip(missing, frees))
            highest, weight, count = priority_cost
            priority_cost = (max(highest, pod.priority), weight + pod.priority + PRIORITY_OFFSET, count + 1)
            if self._descend(position + 1, missing, priority_cost, grown=True):
                break
        number = self._numbers.pop()
        self._drawn[budget] -= number
        del self._pods[len(self._pods) - number :]

    def _allows(self, budget: t.Optional[BudgetKey]) -> bool:
        if self._limits.max_victims is not None and len(self._pods) >= self._limits.max_victims:
            return False
        return budget is None or self._drawn[budget] < self._limits.disruptions_left[budget]

    def _has_steps_left(self) -> bool:
        return self._limits.max_steps is None or self._steps <= self._limits.max_steps

    def _can_improve(self, position: int, missing: Amounts, priority_cost: _RunningCost) -> bool:
        """Return whether the remaining groups may free enough at a cost that is not too high."""
        more = 1
        for amount, total, largest in zip(missing, self._totals[position], self._largest[position]):
            if amount > 0:
                if amount > total:
                    return False
                more = max(more, -(-amount // largest))
        highest, weight, count = priority_cost
        if self._limits.max_victims is not None and count + more > self._limits.max_victims:
            return False
        least = (max(highest, self._lowest), weight + more * (self._lowest + PRIORITY_OFFSET), count + more)
        if self._ceiling is not None and least > self._ceiling:
            return False
        best = self._best
        if best is None or least < best.priority_cost:
            return True
        return least == best.priority_cost and self._rank is not None and self._rank(self._pods) < best.rank

    def _offer(self, priority_cost: _RunningCost) -> None:
        if self._ceiling is not None and priority_cost > self._ceiling:
            return
        best = self._best
        if best is not None and priority_cost > best.priority_cost:
            return
        rank = self._rank(self._pods) if self._rank is not None else ()
        names = tuple(sorted(pod.node_pod.name for pod in self._pods)) if self._rank is not None else ()
        if best is None or (priority_cost, rank, names) < (best.priority_cost, best.rank, best.names):
            numbers = (*self._numbers, *([0] * (len(self._groups) - len(self._numbers))))
            self._best = VictimSet(PriorityCost(*priority_cost), rank, names, numbers, tuple(self._pods))


def _from_the_end(groups: Sequence[Group], kinds: int, left: Mapping[BudgetKey, int]) -> tuple[list[Amounts], list[Amounts]]:
    """Return for each position the most that the groups from there on free, and the most that one pod of them frees."""
    nothing = (0,) * kinds
    free = largest = nothing
    drawing: dict[BudgetKey, tuple[Amounts, Amounts]] = {}
    totals, most = [nothing], [nothing]
    for group in reversed(groups):
        _priority, frees, budget = group[0].shape
        largest = tuple(map(max, largest, frees))
        if budget is None:
            free = tuple(amount + len(group) * freed for amount, freed in zip(free, frees))
        else:
            all_of_it, best_of_it = drawing.get(budget, (nothing, nothing))
            all_of_it = tuple(amount + len(group) * freed for amount, freed in zip(all_of_it, frees))
            drawing[budget] = all_of_it, tuple(map(max, best_of_it, frees))
        total = free
        for limited_by, (all_of_it, best_of_it) in drawing.items():
            total = tuple(amount + min(every, left[limited_by] * best) for amount, every, best in zip(total, all_of_it, best_of_it))
        totals.append(total)
        most.append(largest)
    return totals[::-1], most[::-1]
