# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Finds the cheapest set of pods of one node that frees the missing capacity.

The search is depth first. It starts with the pods of the highest priority, and tries to keep a pod before it takes it. A branch is skipped
only if it cannot be better, because a set costs more than each of its subsets (``Cost``).
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...model.budgets.ledger import BudgetKey
from ..victims.victim_costs import NO_VICTIM, PRIORITY_OFFSET, PriorityCost, Rank
from .capacity import Amounts, DisruptionsLeft, EvictablePod

Group = t.Sequence[EvictablePod]
"""Pods with equal shapes, in the order in which they are taken. If ``rank`` counts, they differ only in their ages and names."""


class VictimSet(t.NamedTuple):
    """A set with its cost. ``rank`` is empty if only the priorities count."""

    priority_cost: PriorityCost
    rank: t.Union[Rank, tuple[()]]
    pods: tuple[EvictablePod, ...]


@dataclass
class SubsetSearch:
    """One search. ``groups`` are in order of priority, the highest first.

    ``left``: the evictions that each budget allows. ``max_victims``: the maximum number of victims. ``max_steps``: the number of sets that
    are checked before the best set so far is returned. ``rank`` returns the rank of a set; without it only the priorities count.
    ``accepts`` returns whether a set that frees enough is allowed. ``monotone``: every superset of an accepted set is accepted.
    ``ceiling``: the highest cost by priority of a set.
    """

    groups: Sequence[Group]
    missing: Amounts
    left: DisruptionsLeft
    max_victims: t.Optional[int]
    max_steps: t.Optional[int]
    rank: t.Optional[Callable[[list[EvictablePod]], Rank]] = None
    accepts: t.Optional[Callable[[list[EvictablePod]], bool]] = None
    monotone: bool = False
    ceiling: t.Optional[PriorityCost] = None

    def __post_init__(self) -> None:
        groups, number = self.groups, sum(map(len, self.groups))
        self._left = {**self.left, None: number}
        self._most = number if self.max_victims is None else self.max_victims
        # For each position all pods from there on. If even all of them are not accepted, the position is skipped.
        self._rest = [[pod for group in groups[position:] for pod in group] for position in range(len(groups))] if self.monotone else None
        self._best: t.Optional[VictimSet] = None
        self._steps = 0
        self._lowest = groups[-1][0].priority if groups else 0
        self._totals, self._largest = _from_the_end(groups, len(self.missing), self._left)
        self._pods: list[EvictablePod] = []

    def run(self) -> t.Optional[VictimSet]:
        """Return the cheapest set, or the best one within the steps. Return None if there is none."""
        self._descend(0, self.missing, (NO_VICTIM, 0, 0), grown=True)
        return self._best

    def _descend(self, position: int, missing: Amounts, priority_cost: PriorityCost, *, grown: bool) -> bool:
        """Check all sets that add pods of the groups from ``position`` on. Return whether the current set is enough without them."""
        self._steps += 1
        if grown and max(missing, default=0) <= 0 and (self.accepts is None or self.accepts(self._pods)):
            self._offer(priority_cost)
            return True  # every larger set costs more
        has_steps_left = self.max_steps is None or self._steps <= self.max_steps
        if position == len(self.groups) or not has_steps_left or not self._can_improve(position, missing, priority_cost):
            return False
        if grown or self._rest is None or self.accepts is None or self.accepts(self._pods + self._rest[position]):
            self._branch(position, missing, priority_cost)
        return False

    def _branch(self, position: int, missing: Amounts, priority_cost: PriorityCost) -> None:
        group, before = self.groups[position], len(self._pods)
        _priority, frees, budget = group[0].shape
        # Sets without pods of this group are tried first, so the first set that is found keeps the pods with the highest priority.
        self._descend(position + 1, missing, priority_cost, grown=False)
        for pod in group:
            if len(self._pods) >= self._most or self._left[budget] <= 0:
                break
            self._pods.append(pod)
            self._left[budget] -= 1
            missing = tuple(amount - freed for amount, freed in zip(missing, frees))
            highest, weight, count = priority_cost
            priority_cost = (max(highest, pod.priority), weight + pod.priority + PRIORITY_OFFSET, count + 1)
            if self._descend(position + 1, missing, priority_cost, grown=True):
                break
        self._left[budget] += len(self._pods) - before
        del self._pods[before:]

    def _can_improve(self, position: int, missing: Amounts, priority_cost: PriorityCost) -> bool:
        """Return whether the remaining groups may free enough at a cost that is not too high."""
        more = 1
        for amount, total, largest in zip(missing, self._totals[position], self._largest[position]):
            if amount > 0:
                if amount > total:
                    return False
                more = max(more, -(-amount // largest))
        highest, weight, count = priority_cost
        least = (max(highest, self._lowest), weight + more * (self._lowest + PRIORITY_OFFSET), count + more)
        if count + more > self._most or (self.ceiling is not None and least > self.ceiling):
            return False
        best = self._best
        if best is None or least < best.priority_cost:
            return True
        return self.rank is not None and self.rank(self._pods) < best.rank

    def _offer(self, priority_cost: PriorityCost) -> None:
        if self.ceiling is not None and priority_cost > self.ceiling:
            return
        rank = self.rank(self._pods) if self.rank is not None else ()
        if self._best is None or (priority_cost, rank) < self._best[:2]:
            self._best, self.ceiling = VictimSet(priority_cost, rank, tuple(self._pods)), priority_cost


def _from_the_end(groups: Sequence[Group], kinds: int, left: DisruptionsLeft) -> tuple[list[Amounts], list[Amounts]]:
    """Return for each position the most that the groups from there on free, and the most that one pod of them frees."""
    nothing = (0,) * kinds
    by_budget: dict[t.Optional[BudgetKey], tuple[Amounts, Amounts]] = {}
    totals, largest = [nothing], [nothing]
    for group in reversed(groups):
        _priority, frees, budget = group[0].shape
        every, best = by_budget.get(budget, (nothing, nothing))
        every = tuple(amount + len(group) * freed for amount, freed in zip(every, frees))
        by_budget[budget] = every, tuple(map(max, best, frees))
        limited = [[min(all_, left[one] * most) for all_, most in zip(*amounts)] for one, amounts in by_budget.items()]
        totals.append(tuple(map(sum, zip(*limited))))
        largest.append(tuple(map(max, largest[-1], frees)))
    return totals[::-1], largest[::-1]
