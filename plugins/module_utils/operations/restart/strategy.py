# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The interface of the strategies that move replicas, and locks on budgets that two targets must not use at the same time."""

from __future__ import annotations

import typing as t

from ...model.reason import Reason
from ...spread.restart.targets import Target
from ...spread.spread_report import WorkloadReport
from .observation import Observation
from .result import RestartResult

BudgetNames = t.AbstractSet[tuple[str, str]]


class Step(t.Protocol):
    """One step of one target in progress."""

    result: RestartResult

    @property
    def under_way(self) -> bool:
        """True if there is something to wait for."""

    @property
    def has_ended(self) -> bool:
        """True if all pods that it removed are replaced."""

    @property
    def needs_observation(self) -> bool:
        """True if it has ended and its result needs another observation."""

    @property
    def may_continue(self) -> bool:
        """True if another step may follow, which needs an observation of all capacity."""

    def assume(self, observation: Observation) -> None:
        """Assume the effects of the step on a later observation that does not show them yet."""

    def wait(self) -> None:
        """Wait for the end of the step if the options require it. Errors are in the result."""

    def finish(self, observation: Observation) -> bool:
        """Evaluate the step on a new observation. Return True if the target needs another step."""


class MoveStrategy(t.Protocol):
    """A strategy that moves the replicas of workloads."""

    def begin(self, report: WorkloadReport, observation: Observation, result: RestartResult, *, alone: bool) -> t.Optional[Step]:
        """Decide and act.

        None if there is nothing to wait for. ``alone``: nothing else has begun on this observation. Raise StaleDecisionError,
        SharedBudgetError, ClosedBudgetError, CapacityReservedError, KubeError.
        """


class SharedBudgetError(Exception):
    """The target must wait until the step in progress on the same budget has ended."""


class ClosedBudgetError(Exception):
    """The target must wait until a pod of it may be evicted: a budget allows it soon, or a transient error may pass."""


class CapacityReservedError(Exception):
    """The target does not benefit if the assumed actions have their capacity. An observation after them decides."""


_CAPACITY_REASONS = ("no_gain", "no_capacity", "unknown")
"""Reasons that may no longer apply after the earlier actions are complete."""


def defer_if_capacity_reserved(reason: Reason, *, alone: bool) -> None:
    """Raise CapacityReservedError if the reason to do nothing may result from actions on the same observation."""
    if not alone and reason.code in _CAPACITY_REASONS:
        raise CapacityReservedError


class BudgetLocks:
    """The budgets whose healthy pods a step in progress may reduce. No budget allowed two such steps at the same time."""

    def __init__(self) -> None:
        self._held: dict[Target, BudgetNames] = {}
        self._unfinished: set[Target] = set()

    def violation(self, target: Target, names: BudgetNames) -> t.Optional[Reason]:
        """Return the reason why no step on the budgets ``names`` may begin for the target.

        None if one may. Raise SharedBudgetError if a wait helps.
        """
        others = [(other, sorted(held & names)[0]) for other, held in self._held.items() if other != target and held & names]
        for other, (_namespace, budget) in others:
            if other in self._unfinished:
                text = f"{other}, which shares PodDisruptionBudget {budget}, was begun before and has not ended; run again"
                return Reason("budget", text)
        if others:
            raise SharedBudgetError
        return None

    def begin(self, target: Target, names: BudgetNames) -> None:
        """Record that a step of the target uses these budgets."""
        self._held[target] = names

    def ended(self, target: Target) -> None:
        """Record that the target's step has ended."""
        self._held.pop(target, None)

    def left_unfinished(self, target: Target) -> None:
        """Record that the target's step is not awaited any longer and still uses its budgets."""
        self._unfinished.add(target)


class StaleDecisionError(Exception):
    """The workload has changed since the snapshot of the decision. It must be checked again."""
