# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The evictions of one workload in one run, and their steps: wait for a replacement, try again later, handle a pod that is gone."""

from __future__ import annotations

import time
import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ApiError, BudgetError, KubeError, MultipleBudgetsError, is_admission_denial, is_transient, was_not_applied
from ...model.api.workload import Workload
from ...model.budgets.budget_index import BudgetIndex
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...spread.comparison import compare_spread
from ...spread.distribution import listed_by_key
from ...spread.eviction.decision import TAKE_OVER_AFTER_S
from ...spread.eviction.planner import Move
from ...spread.preconditions.unreadable import unreadable_violation
from ...spread.restart.actions import EVICTED, FAILED_ACTION, REFUSED, SKIPPED
from ...spread.restart.options import RestartOptions
from ...spread.restart.run_limits import WorkloadLimits
from ...spread.rollout import DONE, Progress
from ...spread.skew_cost import measure_skew, skew_cost
from ...spread.spread_report import WorkloadReport
from ...spread.stuck_pods import unfinished_cause
from ...state.restart_outcome import FAILED, IMPROVED, PENDING, RestartOutcome, read_outcome
from ..common.wait import wait_for_replacement
from .eviction_wait import EvictionWait
from .observation import Observation
from .outcome_store import finalize, revert
from .result import EvictedPod, RestartResult


class PodEviction(t.NamedTuple):
    """The eviction of one pod.

    ``before`` is the report before the eviction. ``known`` are the uids of the workload's pods at that time.
    """

    pod: EvictedPod
    uid: str
    before: WorkloadReport
    known: t.AbstractSet[str]


class WorkloadEvictions:
    """The evictions of one workload in this run.

    ``before``: the report before the first one; None if an earlier run began. ``outcome``: the outcome that this run recorded; None before
    its first eviction. ``evicted``: the eviction whose replacement is awaited. ``rejected``: the server certainly did not carry out the
    last request. ``unanswered``: requests with an unknown result whose pods still exist, by the pod's uid. The server may carry them out
    later. ``limits``: the limits of the run. ``retry_error``: the error for which the next eviction must wait. ``condition``: in a
    plan, the budget for which the run waits.
    """

    def __init__(self, api: KubeApi, options: RestartOptions, result: RestartResult, limits: WorkloadLimits) -> None:
        self.result = result
        self.limits = limits
        self.before: t.Optional[WorkloadReport] = None
        self.outcome: t.Optional[RestartOutcome] = None
        self.evicted: t.Optional[PodEviction] = None
        self.unanswered: dict[str, PodEviction] = {}
        self.rejected = False
        self.retry_error: t.Optional[KubeError] = None
        self.condition = ""
        self.vanished = 0
        self._api = api
        self._options = options

    @property
    def may_have_evicted(self) -> bool:
        """True if this run has evicted a pod, or the server may still carry out a request of this run."""
        return bool(self.result.evicted or self.unanswered)

    def eviction_of(self, move: Move, report: WorkloadReport, observation: Observation) -> PodEviction:
        """Return the eviction of the move's pod, which is not made yet."""
        known = {pod.metadata.uid for pod in observation.snapshot.owned_pods(report.workload)}
        return PodEviction(EvictedPod(move.pod.metadata.name, move.pod.spec.node_name), move.pod.metadata.uid, report, known)

    def note_eviction(self, eviction: PodEviction) -> None:
        """Record an eviction that was made."""
        self.rejected = False
        self.unanswered.pop(eviction.uid, None)
        self.evicted = eviction
        self.result.action = EVICTED
        self.result.evicted.append(eviction.pod)

    def note_error(self, error: KubeError, move: Move, eviction: PodEviction) -> None:
        """Record an error of the request. It counts for the limits, unless the server certainly carried out no request for the pod."""
        self.rejected = was_not_applied(error)
        if not self.rejected:
            self.unanswered[eviction.uid] = eviction
        elif eviction.uid not in self.unanswered:
            self.limits.remove(move.pod)

    def note_late_evictions(self, workload: Workload, observation: Observation) -> bool:
        """Record the evictions without an answer whose pods are gone. Return whether there are any."""
        kept = {pod.metadata.uid for pod in observation.snapshot.owned_pods(workload) if pod.metadata.deletion_timestamp is None}
        late = [eviction for uid, eviction in self.unanswered.items() if uid not in kept]
        for eviction in late:
            self.note_eviction(eviction)
        return bool(late)

    def note_replacement(self, evicted: PodEviction, report: WorkloadReport, observation: Observation) -> None:
        """Record the replacement of the evicted pod."""
        self.evicted = None
        for pod in observation.snapshot.placed_pods(report.workload):
            if pod.metadata.uid not in evicted.known:
                evicted.pod.replacement, evicted.pod.replacement_node = pod.metadata.name, pod.spec.node_name

    def revert(self) -> None:
        """Restore the outcome from before the evictions. No pod was evicted and a retry would not help, so the attempt does not count."""
        self.result.outcome = ""
        if self.before is not None and self.outcome is not None:
            revert(self._api, self.result, self.before.workload, self.outcome)

    def refuse(self, reason: Reason, report: WorkloadReport, observation: Observation) -> None:
        """Refuse further evictions.

        If certainly none was made, the recorded outcome is reverted. Otherwise the result of the evictions is recorded.
        """
        self.result.stop(REFUSED, reason)
        if self.outcome is not None and self.may_have_evicted:
            self.conclude(report, observation)
        elif self.outcome is not None:
            self.revert()

    def fail(self, reason: Reason, report: WorkloadReport, observation: Observation) -> None:
        """Fail because the server cannot evict a pod.

        If certainly none was evicted, the recorded outcome is reverted. Otherwise the result of the evictions is recorded.
        """
        self.result.end(FAILED_ACTION, reason)
        if self.may_have_evicted:
            self.result.outcome = FAILED
            self.conclude(report, observation)
        elif self.outcome is not None:
            self.revert()

    def conclude(self, report: WorkloadReport, observation: Observation, *, even: bool = False, is_replaced: bool = True) -> None:
        """Compare the last report of the workload with the first one, and record the result.

        ``even``: no further eviction is useful. ``is_replaced``: the evicted pods have replacements that are available. Evictions that have
        made progress do not count as an attempt, whatever prevents further evictions now, so that the next run continues. If the workload
        cannot be read, the outcome stays pending.
        """
        result, compared = self.result, PENDING
        if unreadable_violation(report.workload, observation.snapshot, budgets=False) is not None:
            result.outcome = PENDING
            return
        # This is the last outcome of this run, or the one that it found. A newer one belongs to another run, which still needs it.
        pending = self.outcome or read_outcome(report.workload.metadata.annotations)
        after = observation.distribution_over(self.before, report)
        if self._options.verify_spread:
            result.after = listed_by_key(report.distributions)
        if self._options.verify_spread or even:
            earlier = self.before.distributions if self.before is not None else None
            compared = compare_spread(earlier, after, pending=pending)
        if result.outcome != FAILED:
            result.outcome = compared
        if result.outcome != PENDING:
            finalize(
                self._api,
                result,
                report.workload,
                pending,
                observation.snapshot,
                settled=even,
                skew=measure_skew(after),
                improved=is_replaced and compared == IMPROVED,
                # If this run began and certainly evicted no pod, the attempt could not help and does not count.
                counted=self.may_have_evicted or self.before is None,
                event="SpreadEvictionOutcome",
                dry_run=self._options.dry_run,
            )


def end_denied(evictions: WorkloadEvictions, error: KubeError, move: Move, report: WorkloadReport, observation: Observation) -> None:
    """End the evictions with the error of a request: a refusal or a server error."""
    if isinstance(error, ApiError) and is_admission_denial(error):
        evictions.refuse(denial(error, move), report, observation)
    elif isinstance(error, (BudgetError, MultipleBudgetsError)):
        evictions.refuse(budget_refusal(error, move, observation.snapshot), report, observation)
    else:
        evictions.fail(Reason("error", str(error)), report, observation)


def denial(error: ApiError, move: Move) -> Reason:
    """Return the reason why the pod may not be evicted, with the message of the webhook or policy that denies it."""
    pod = move.pod.metadata
    said = str(error).partition(f"an eviction of Pod {pod.namespace}/{pod.name}: ")[2] or str(error)
    return Reason("denied", f"the eviction of pod {pod.namespace}/{pod.name} is not admitted: {said}")


def budget_refusal(error: KubeError, move: Move, snapshot: ClusterSnapshot) -> Reason:
    """Return the reason why the pod may not be evicted. It names the budgets if the server does not."""
    pod = move.pod.metadata
    if isinstance(error, BudgetError):
        said = "; ".join(cause.message for cause in error.causes) or str(error)
        return Reason("budget", f"pod {pod.namespace}/{pod.name} may not be evicted now: {said}")
    names = [budget.metadata.name for budget in snapshot.once(BudgetIndex).selecting(pod.namespace, pod.labels)]
    named = f"PodDisruptionBudgets {' and '.join(sorted(names))} select pod {pod.name}: " if names else ""
    return Reason("several_budgets", f"{named}{error}")


ENOUGH_TIME = "wait_timeout must be longer than the grace period of the old pod and the start of the new pod; the next run continues"
MAX_PODS_GONE = 5
"""Limit of pods that are gone just before their eviction. Beyond it the workload counts as too unstable."""


class _EvictionStep:
    """The common part of the steps: a workload with a pod that was to be evicted."""

    is_awaited = False

    def __init__(self, api: KubeApi, options: RestartOptions, evictions: WorkloadEvictions) -> None:
        self.result = evictions.result
        self.may_continue = options.wait
        self._api = api
        self._options = options
        self._evictions = evictions

    @property
    def needs_observation(self) -> bool:
        return True

    @property
    def has_ended(self) -> bool:
        return True

    def assume(self, observation: Observation) -> None:
        """Do nothing: the deletion of the evicted pod is visible immediately, and its replacement soon after."""

    def wait(self) -> None:
        """Return immediately: there is nothing to wait for."""

    def finish(self, observation: Observation) -> bool:
        """Evaluate the result of the step. Every further step is decided on this observation."""
        report = observation.report_for(self.result.target)
        if report is not None:
            return self._finish(report, observation)
        undecodable = observation.undecodable(self.result.target)
        if undecodable is not None:
            self.result.end(FAILED_ACTION, undecodable)
        else:
            self.result.vanish(FAILED_ACTION, f"{self.result.target} was deleted during its evictions")
        return False

    def _finish(self, report: WorkloadReport, observation: Observation) -> bool:
        raise NotImplementedError


class Replacement(_EvictionStep):
    """The wait for the replacement of a pod that this run or an earlier one evicted."""

    def __init__(
        self,
        api: KubeApi,
        options: RestartOptions,
        evictions: WorkloadEvictions,
        workload: Workload,
        observation: Observation,
        template: t.Optional[bytes] = None,
    ) -> None:
        super().__init__(api, options, evictions)
        self.is_awaited = True
        self._workload = workload
        self._template = template
        self._owner = _owner_of_pods(workload, observation.snapshot)
        self._progress: t.Optional[Progress] = None
        self._lost = False

    @property
    def needs_observation(self) -> bool:
        return self._options.wait

    @property
    def has_ended(self) -> bool:
        return self._progress is not None and self._progress.state == DONE

    def wait(self) -> None:
        try:
            if self._options.wait:
                self._wait()
        except KubeError as error:
            self._lost = True
            self.result.end(FAILED_ACTION, Reason("lost", str(error)))
        finally:
            self.is_awaited = False
            self.result.take_time()

    def _wait(self) -> None:
        if self._evictions.outcome is None:
            time.sleep(min(TAKE_OVER_AFTER_S, self._options.wait_timeout_s))  # the run that wrote last may be about to evict
        evicted = self._evictions.evicted
        self._progress = wait_for_replacement(
            self._api,
            self._workload,
            owner=self._owner,
            gone=evicted.uid if evicted is not None else "",
            template=self._template,
            timeout_s=self._options.wait_timeout_s,
            poll_s=self._options.wait_sleep_s,
        )

    def _finish(self, report: WorkloadReport, observation: Observation) -> bool:
        evictions, progress = self._evictions, self._progress
        if self._lost or progress is None:
            return False
        if progress.state != DONE:
            cause = unfinished_cause(report.workload, observation.snapshot)
            self.result.fail_unfinished(
                "replacement_not_ready", progress, timeout_s=self._options.wait_timeout_s, cause=cause, advice=ENOUGH_TIME
            )
            evictions.conclude(report, observation, is_replaced=False)
            return False
        evicted = evictions.evicted
        if evicted is None:
            return True
        evictions.note_replacement(evicted, report, observation)
        # With a different number of replicas, the effect of the eviction cannot be determined.
        same = report.placed == evicted.before.placed
        if same and skew_cost(observation.distribution_over(evicted.before, report)) >= skew_cost(evicted.before.distributions):
            node = evicted.pod.replacement_node
            self.result.stop(REFUSED, Reason("came_back", f"the replacement of {evicted.pod.pod} was scheduled to {node}"))
            evictions.conclude(report, observation)
            return False
        return True


class EvictionDenied(_EvictionStep):
    """An eviction that the server did not make, or whose result is unknown."""

    def __init__(
        self,
        api: KubeApi,
        options: RestartOptions,
        evictions: WorkloadEvictions,
        move: Move,
        error: KubeError,
        eviction_wait: EvictionWait,
    ) -> None:
        super().__init__(api, options, evictions)
        self._eviction_wait = eviction_wait
        self._move = move
        self._error = error

    def _finish(self, report: WorkloadReport, observation: Observation) -> bool:
        evictions, error = self._evictions, self._error
        if evictions.note_late_evictions(report.workload, observation):
            return self._options.wait  # only the answer was lost
        if is_transient(error) and not self._eviction_wait.over:
            evictions.retry_error = error
            return True
        end_denied(evictions, error, self._move, report, observation)
        return False


class PodGone(_EvictionStep):
    """The pod was gone before its eviction, or its budget was being written or deleted. Another pod may have its name now."""

    def __init__(self, api: KubeApi, options: RestartOptions, evictions: WorkloadEvictions, error: KubeError) -> None:
        super().__init__(api, options, evictions)
        self._error = error
        evictions.vanished += 1
        evictions.rejected = False

    def _finish(self, report: WorkloadReport, observation: Observation) -> bool:
        if self._evictions.note_late_evictions(report.workload, observation) and self._options.wait:
            return True
        if self._evictions.vanished > MAX_PODS_GONE:
            self.result.outcome = FAILED
            self.result.end(FAILED_ACTION, Reason("error", str(self._error)))
        elif self._options.wait:
            return True
        else:
            text = f"the pod of {self.result.target} was gone before it was evicted, or its budget was being changed; run again"
            self.result.stop(SKIPPED, Reason("changed_meanwhile", text))
        if self._evictions.before is not None and not self._evictions.may_have_evicted:
            self._evictions.revert()
        else:
            self._evictions.conclude(report, observation)
        return False


def _owner_of_pods(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """Return the uid of the controller of the pods of the workload's current revision."""
    if workload.kind != "Deployment":
        return workload.metadata.uid
    replica_set = snapshot.current_replica_set(workload)
    return replica_set.metadata.uid if replica_set is not None else ""
