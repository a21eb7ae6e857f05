# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The interface of the strategies that move replicas, and the locks on budgets that two of them must not share at a time."""

from __future__ import annotations

import typing as t

from ...model.reason import Reason
from ...spread.restart.options import Target
from ...spread.spread_report import WorkloadReport
from .observation import Observation
from .result import RestartResult

BudgetNames = t.AbstractSet[tuple[str, str]]


class Step(t.Protocol):
    """One step of one target, on its way."""

    result: RestartResult

    @property
    def under_way(self) -> bool:
        """There is something to wait for."""

    @property
    def has_ended(self) -> bool:
        """All that it took away is back."""

    @property
    def needs_observation(self) -> bool:
        """It has ended, and another look is needed to say what came of it."""

    @property
    def may_continue(self) -> bool:
        """Another step may follow, which needs a look at all that takes up room."""

    def assume(self, observation: Observation) -> None:
        """Count on a later look with what was begun and cannot be seen there yet."""

    def wait(self) -> None:
        """Wait for its end, if the options say so; what goes wrong is in the result."""

    def finish(self, observation: Observation) -> bool:
        """See on a fresh look what came of it; true where the target wants another step."""


class MoveStrategy(t.Protocol):
    """A way of moving the replicas of workloads."""

    def begin(self, report: WorkloadReport, observation: Observation, result: RestartResult, *, alone: bool) -> t.Optional[Step]:
        """Decide and, if so decided, act; None where there is nothing to wait for. ``alone``: nothing else was begun on this look.

        Raises StaleDecisionError, SharedBudgetError, ClosedBudgetError, CapacityReservedError, KubeError.
        """


class SharedBudgetError(Exception):
    """The target has to wait until what was begun on the same budget has ended."""


class ClosedBudgetError(Exception):
    """The target has to wait until a pod of it may go: a budget opens soon, or trouble of the server or of a webhook may pass."""


class CapacityReservedError(Exception):
    """The target gains nothing beside what is assumed of what was begun: a look at where that has gone decides."""


_CAPACITY_REASONS = ("no_gain", "no_room", "unknown")
"""Reasons that may be gone when what was begun before has found its places."""


def defer_if_capacity_reserved(reason: Reason, *, alone: bool) -> None:
    """Raises CapacityReservedError where the reason to do nothing may lie in what was begun on the same look."""
    if not alone and reason.code in _CAPACITY_REASONS:
        raise CapacityReservedError


class BudgetLocks:
    """The budgets from which something that is under way may take healthy pods: two losses at a time were never asked of them."""

    def __init__(self) -> None:
        self._held: dict[Target, BudgetNames] = {}
        self._unfinished: set[Target] = set()

    def conflict(self, target: Target, names: BudgetNames) -> t.Optional[Reason]:
        """Why nothing that takes from ``names`` may be begun for the target; raises SharedBudgetError where waiting helps."""
        others = [(other, sorted(held & names)[0]) for other, held in self._held.items() if other != target and held & names]
        for other, (_namespace, budget) in others:
            if other in self._unfinished:
                text = f"{other}, which shares PodDisruptionBudget {budget}, was begun before and has not ended; run again"
                return Reason("budget", text)
        if others:
            raise SharedBudgetError
        return None

    def begin(self, target: Target, names: BudgetNames) -> None:
        """Something was begun for the target that takes from these."""
        self._held[target] = names

    def ended(self, target: Target) -> None:
        """What was begun for the target has come to its end."""
        self._held.pop(target, None)

    def left_unfinished(self, target: Target) -> None:
        """It is not waited for any longer, and still takes from its budgets."""
        self._unfinished.add(target)


class StaleDecisionError(Exception):
    """The workload has moved on since the snapshot it was judged on was read: judge it again."""
