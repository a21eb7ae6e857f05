# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The interface of the strategies that move replicas, and the errors by which a target waits."""

from __future__ import annotations

import typing as t

from ...model.reason import Reason
from ...spread.prediction.old_pods import WAITS_FOR_TERMINATING_PODS
from ...spread.restart import no_gain
from ...spread.spread_report import WorkloadReport
from .eviction_wait import EvictionWait
from .observation import Observation
from .result import RestartResult


class Step(t.Protocol):
    """One step of one target in progress."""

    result: RestartResult

    @property
    def is_awaited(self) -> bool:
        """True if the run waits for it, or in a plan would wait. It counts for ``max_parallel``."""

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


class PlannedStep:
    """An action of a plan. The observation assumes its result. ``has_ended``: the run waits for its end."""

    is_awaited = True
    needs_observation = False
    may_continue = False

    def __init__(self, result: RestartResult, *, has_ended: bool) -> None:
        self.result = result
        self.has_ended = has_ended

    def assume(self, observation: Observation) -> None:
        """Do nothing: no other observation follows."""

    def wait(self) -> None:
        """Return immediately: there is nothing to wait for."""

    def finish(self, observation: Observation) -> bool:  # noqa: ARG002 - the interface of a step
        """Return False: no other step of the workload follows."""
        return False


class MoveStrategy(t.Protocol):
    """A strategy that moves the replicas of workloads."""

    def begin(self, report: WorkloadReport, observation: Observation, result: RestartResult, *, alone: bool) -> t.Optional[Step]:
        """Decide and act.

        None if there is nothing to wait for. ``alone``: nothing else has begun on this observation. Raise StaleDecisionError,
        SharedBudgetError, EvictionDeferredError, CapacityReservedError, KubeError.
        """


class EvictionDeferredError(Exception):
    """The target must wait for its next eviction.

    A budget allows it soon, a transient error of the server or of a webhook may pass, or an earlier eviction has no answer yet.
    """


class CapacityReservedError(Exception):
    """The target does not benefit if the assumed actions have their capacity. An observation after them decides."""


_CAPACITY_REASONS = (no_gain.CODE, "no_capacity", "unknown")
"""Reasons that may no longer apply after the earlier actions are complete."""


def defer_if_undecided(reason: Reason, eviction_wait: EvictionWait, *, alone: bool) -> None:
    """Raise an error if a later observation may have no reason to do nothing.

    SettlingError: the decision depends on terminating pods, and there is time to wait. CapacityReservedError: the reason may result
    from actions on the same observation.
    """
    if reason.code == WAITS_FOR_TERMINATING_PODS and not eviction_wait.over:
        raise SettlingError
    if not alone and reason.code in _CAPACITY_REASONS:
        raise CapacityReservedError


class StaleDecisionError(Exception):
    """The workload has changed since the snapshot of the decision. It must be checked again."""


class SettlingError(StaleDecisionError):
    """The decision depends on pods that are terminating, or on a budget whose controller is behind.

    The workload must be checked again after a pause.
    """
