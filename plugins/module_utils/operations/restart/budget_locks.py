# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Locks on budgets that two targets must not use at the same time."""

from __future__ import annotations

import typing as t

from ...model.api.policy import PodDisruptionBudget
from ...model.reason import Reason
from ...spread.restart.targets import Target

BudgetNames = t.AbstractSet[tuple[str, str]]


class SharedBudgetError(Exception):
    """The target must wait until the step in progress on the same budget has ended."""


class BudgetLocks:
    """The budgets whose healthy pods a step in progress may reduce. One budget has at most one such step at a time."""

    def __init__(self) -> None:
        self._held: dict[Target, BudgetNames] = {}
        self._unfinished: set[Target] = set()
        self._unanswered: dict[Target, BudgetNames] = {}
        self._healthy: dict[tuple[str, str], int] = {}

    def violation(self, target: Target, names: BudgetNames) -> t.Optional[Reason]:
        """Return the reason why no step on the budgets ``names`` may begin for the target.

        None if one may. Raise SharedBudgetError if a wait helps.
        """
        others = [(other, sorted(held & names)[0]) for other, held in self._held.items() if other != target and held & names]
        for other, (_namespace, budget) in others:
            if other in self._unfinished:
                text = f"the move of {other}, which shares PodDisruptionBudget {budget}, has not ended; run again"
                return Reason("budget", text)
        if others:
            raise SharedBudgetError
        return None

    def unanswered_violation(self, target: Target, names: BudgetNames) -> t.Optional[Reason]:
        """Return the reason why the target must not be restarted: the server may still carry out the eviction of a pod of another target.

        The server checks the budget for another eviction, but not for a restart.
        """
        for other, held in self._unanswered.items():
            shared = sorted(held & names)
            if other != target and shared:
                _namespace, budget = shared[0]
                text = f"the API server has not answered an eviction for {other}, which shares PodDisruptionBudget {budget}; run again"
                return Reason("budget", text)
        return None

    def set_unanswered(self, target: Target, names: BudgetNames) -> None:
        """Record the budgets of the target's pods whose evictions have no answer. They are empty if each eviction was answered."""
        self._unanswered[target] = names

    def begin(self, target: Target, names: BudgetNames) -> None:
        """Record that a step of the target uses these budgets."""
        self._held[target] = names

    def note_healthy(self, budgets: t.Iterable[PodDisruptionBudget]) -> None:
        """Record how many pods these budgets count as healthy before a rollout begins."""
        self._healthy.update({_name(budget): budget.status.current_healthy for budget in budgets})

    def counts_lag(self, budgets: t.Iterable[PodDisruptionBudget]) -> bool:
        """Return whether a budget counts fewer healthy pods than before a rollout that has ended, so its controller is behind."""
        held = set().union(*self._held.values())
        return any(budget.status.current_healthy < self._healthy.get(_name(budget), 0) and _name(budget) not in held for budget in budgets)

    def ended(self, target: Target) -> None:
        """Record that the target's step has ended."""
        self._held.pop(target, None)

    def left_unfinished(self, target: Target) -> None:
        """Record that the target's step is not awaited any longer and still uses its budgets."""
        self._unfinished.add(target)


def _name(budget: PodDisruptionBudget) -> tuple[str, str]:
    return budget.metadata.namespace, budget.metadata.name
