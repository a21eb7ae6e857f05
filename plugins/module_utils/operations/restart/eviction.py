# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The eviction strategy: one surplus pod at a time by the Eviction subresource, each decided on a new observation.

The outcome is recorded on the workload before every eviction. A later run can continue after a killed one, and a second run at the same
time detects the first.
"""

from __future__ import annotations

import time
import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    DryRunUnsupportedError,
    KubeError,
    NotFoundError,
    UnreachableError,
    is_admission_denial,
    is_transient,
)
from ...model.budgets.ledger import BUDGETS_NOT_READABLE, budget_status_key
from ...model.reason import Reason
from ...spread.distribution import listed_by_key
from ...spread.eviction.decision import EvictionDecision, decide_eviction
from ...spread.eviction.planner import Move
from ...spread.preconditions.workload_budgets import names_of_budgets
from ...spread.restart.actions import EVICTED, FAILED_ACTION, REFUSED, SKIPPED, WAIT, WOULD_EVICT
from ...spread.restart.decided import Decided, decide_in_each
from ...spread.restart.options import RestartOptions
from ...spread.restart.possible_states import PossibleState
from ...spread.restart.run_limits import RunLimits
from ...spread.restart.targets import Target
from ...spread.spread_report import WorkloadReport
from ...state.restart_outcome import PENDING
from .budget_locks import BudgetLocks
from .eviction_steps import EvictionDenied, PodGone, Replacement, WorkloadEvictions, end_denied
from .eviction_wait import EvictionWait, SlowError
from .move_strategy import EvictionDeferredError, PlannedStep, StaleDecisionError, Step, defer_if_undecided
from .observation import Observation
from .outcome_store import record_event, record_eviction
from .result import EvictedPod, RestartResult


class EvictionStrategy:
    """Spreads the replicas of workloads by evictions of single pods."""

    def __init__(self, api: KubeApi, options: RestartOptions, budgets: BudgetLocks, eviction_wait: EvictionWait, limits: RunLimits) -> None:
        self._api = api
        self._options = options
        self._budgets = budgets
        self._eviction_wait = eviction_wait
        self._limits = limits
        self._evictions: dict[Target, WorkloadEvictions] = {}

    def begin(self, report: WorkloadReport, observation: Observation, result: RestartResult, *, alone: bool) -> t.Optional[Step]:
        """Decide on the next step of the workload. If it is an eviction, request it."""
        evictions = self._present_evictions(report, observation, result)

        def decide(state: PossibleState) -> EvictionDecision:
            return decide_eviction(
                report,
                observation.snapshot,
                state.cluster_state,
                self._options,
                now_s=self._api.now_s(),
                limits=state.limits.of(result.target),
                ours=evictions.outcome,
                denied=evictions.rejected and not evictions.unanswered,
                unanswered=evictions.unanswered,
            )

        decided = decide_in_each(observation.states, decide, lambda decision: decision.move is not None, is_plan=self._options.dry_run)
        decision = decided.decision
        # A replacement that is available already ends this wait immediately.
        if decision.action == WAIT or (evictions.evicted is not None and self._options.wait):
            return self._wait_for_earlier(report, observation, decision, evictions)
        if evictions.evicted is not None:
            evictions.note_replacement(evictions.evicted, report, observation)
        if decision.move is None or decision.outcome is None:
            defer_if_undecided(decision.reason, self._eviction_wait, alone=alone)
            self._none_left(report, observation, decision, evictions)
            return None
        budgets = names_of_budgets(report.workload, observation.snapshot)
        if not self._may_request(decision.move, budgets, report, observation, evictions):
            return None
        result.note_pods(observation.snapshot.placed_pods(report.workload))
        if self._options.dry_run:
            self._budgets.begin(result.target, budgets)
            self._plan(report, observation, decided, evictions)
            return PlannedStep(result, has_ended=self._options.wait)
        recorded = record_eviction(self._api, report.workload, decision.outcome, observation.snapshot)
        if evictions.outcome is None:
            evictions.before = report
            result.reason, result.outcome = decision.reason, PENDING
        evictions.outcome, result.changed = recorded.outcome, True
        self._evictions[result.target] = evictions
        self._budgets.begin(result.target, budgets)
        observation.assume_moves(report, dict.fromkeys(decided.acting, decision.move))
        return self._evict(decision.move, report, observation, evictions, recorded.template)

    def _present_evictions(self, report: WorkloadReport, observation: Observation, result: RestartResult) -> WorkloadEvictions:
        """Return the evictions of the workload up to now, with those whose answer was lost and that the observation shows."""
        known = self._evictions.get(result.target)
        evictions = known or WorkloadEvictions(self._api, self._options, result, self._limits.of(result.target))
        if evictions.outcome is None:
            result.before = listed_by_key(report.distributions)
        evictions.note_late_evictions(report.workload, observation)
        if not evictions.unanswered:
            self._budgets.set_unanswered(result.target, set())
        return evictions

    def _may_request(
        self, move: Move, budgets: set[tuple[str, str]], report: WorkloadReport, observation: Observation, evictions: WorkloadEvictions
    ) -> bool:
        """Return whether the eviction may be requested now. If not, the result has the reason.

        Raise EvictionDeferredError if it may be possible soon and there is time to wait, and the errors of ``_is_admitted``.
        """
        conflict = self._budgets.violation(evictions.result.target, budgets)
        if conflict is not None:
            evictions.result.stop(REFUSED, conflict)
            return False
        refused = self._budget_violation(move, observation, evictions)
        if refused is not None:
            evictions.refuse(refused, report, observation)
            return False
        # A rejected eviction is checked again by a dry run, so that nothing is written while the rejection lasts.
        if (evictions.outcome is None or evictions.rejected) and not self._is_admitted(move, report, observation, evictions):
            return False
        if evictions.unanswered and move.pod.metadata.uid not in evictions.unanswered:
            self._wait_for_answer(report, observation, evictions)
            return False
        return True

    @property
    def unanswered_results(self) -> list[RestartResult]:
        """The results of workloads with an eviction whose answer was lost and whose pod still exists."""
        return [evictions.result for evictions in self._evictions.values() if evictions.unanswered]

    def record_late_evictions(self, observation: Observation) -> None:
        """Add the pods that were evicted after the end of the work on their workload to its result."""
        for target, evictions in self._evictions.items():
            result, report = evictions.result, observation.report_for(target)
            action, outcome = result.action, result.outcome
            if report is None or not evictions.note_late_evictions(report.workload, observation):
                continue
            result.action, result.outcome = FAILED_ACTION if action == FAILED_ACTION else EVICTED, outcome or PENDING
            if result.reason is not None:
                text = f"{result.reason.text}; the API server has evicted pod {result.evicted[-1].pod} afterwards"
                result.reason = Reason(result.reason.code, text)

    def _evict(self, move: Move, report: WorkloadReport, observation: Observation, evictions: WorkloadEvictions, template: bytes) -> Step:
        pod = move.pod.metadata
        began_s = time.monotonic()
        eviction = evictions.eviction_of(move, report, observation)
        evictions.limits.add(move.pod)
        try:
            self._api.evict(pod.namespace, pod.name, uid=pod.uid)
        except (ApiError, UnreachableError) as error:
            evictions.note_error(error, move, eviction)
            if evictions.unanswered:
                self._budgets.set_unanswered(evictions.result.target, names_of_budgets(report.workload, observation.snapshot))
            self._eviction_wait.note(pod.namespace, SlowError(error, time.monotonic() - began_s))
            if isinstance(error, (NotFoundError, ConflictError)) and not is_admission_denial(error):
                return PodGone(self._api, self._options, evictions, error)
            return EvictionDenied(self._api, self._options, evictions, move, error, self._eviction_wait)
        self._eviction_wait.granted()
        evictions.note_eviction(eviction)
        record_event(
            self._api, evictions.result, report.workload, reason="SpreadEviction", message=f"evicted {pod.name}: {move.reason.text}"
        )
        return Replacement(self._api, self._options, evictions, report.workload, observation, template)

    def _budget_violation(self, move: Move, observation: Observation, evictions: WorkloadEvictions) -> t.Optional[Reason]:
        """Return the reason why no budget allows the eviction.

        None if it may be allowed. Raise EvictionDeferredError if a budget allows it soon and there is time to wait. A plan does not wait,
        so the eviction is conditional.
        """
        status = observation.budgets.status(move.pod, budget_status_key(move.pod))
        refusal, retry_error = status.violation, evictions.retry_error
        evictions.retry_error = None
        if refusal is None or refusal.code == BUDGETS_NOT_READABLE:
            if retry_error is not None:
                self._wait_if_it_may_help(retry_error)
            return None  # the server decides
        pod = move.pod.metadata
        text = f"pod {pod.namespace}/{pod.name} may not be evicted: {refusal.text}"
        if status.budget is None:
            return Reason(refusal.code, text)
        if not observation.budgets.opens_soon(status.budget):
            return Reason(refusal.code, f"{text}, and this does not change by itself: {observation.budgets.status_text(status.budget)}")
        if not self._eviction_wait.over:
            self._eviction_wait.expect(status.budget)
            raise EvictionDeferredError
        if self._options.dry_run and self._options.wait:
            namespace, name = status.budget
            evictions.condition = f"only if PodDisruptionBudget {namespace}/{name} allows a disruption within wait_timeout"
            return None
        return Reason(refusal.code, f"{text}: {observation.budgets.status_text(status.budget)}; run again when more pods are healthy")

    def _is_admitted(self, move: Move, report: WorkloadReport, observation: Observation, evictions: WorkloadEvictions) -> bool:
        """Return whether the server would evict the pod, by a dry run before any write.

        If it would not, the result has the reason. If a webhook does not support dry runs, the check is skipped. Raise
        EvictionDeferredError if the answer may change soon, StaleDecisionError if the pod is gone, and DryRunUnsupportedError in check
        mode. A dry run that does not ask the server returns True.
        """
        if self._options.dry_run and not self._options.asks_server:
            return True
        pod = move.pod.metadata
        slow = self._eviction_wait.slow_error(pod.namespace)
        if slow is not None:
            self._wait_if_it_may_help(slow.error)
            text = f"the eviction of pod {pod.namespace}/{pod.name} was not requested, because another eviction in its"
            evictions.fail(Reason("error", f"{text} namespace got an error after {slow.took_s:.0f} s: {slow.error}"), report, observation)
            return False
        began_s = time.monotonic()
        try:
            self._api.evict(pod.namespace, pod.name, uid=pod.uid, dry_run=True)
        except DryRunUnsupportedError:
            if self._options.dry_run:
                raise
        except (ApiError, UnreachableError) as error:
            self._eviction_wait.note(pod.namespace, SlowError(error, time.monotonic() - began_s))
            if isinstance(error, (NotFoundError, ConflictError)) and not is_admission_denial(error):
                raise StaleDecisionError from error
            if evictions.condition and isinstance(error, BudgetError):
                return True  # admission allows it, and the server checks the budgets last
            self._wait_if_it_may_help(error)
            end_denied(evictions, error, move, report, observation)
            return False
        return True

    def _wait_if_it_may_help(self, error: KubeError) -> None:
        """Raise EvictionDeferredError if the error is transient and there is time to wait."""
        if is_transient(error) and not self._eviction_wait.over:
            self._eviction_wait.expect(None, after_s=error.retry_after_s if isinstance(error, ApiError) else None)
            raise EvictionDeferredError from error

    def _wait_for_answer(self, report: WorkloadReport, observation: Observation, evictions: WorkloadEvictions) -> None:
        """Evict no other pod while the API server may still carry out a request. Raise EvictionDeferredError if there is time."""
        if not self._eviction_wait.over:
            self._eviction_wait.expect(None)
            raise EvictionDeferredError
        names = ", ".join(eviction.pod.pod for eviction in evictions.unanswered.values())
        text = f"the API server has not answered the eviction of {names} and may still carry it out, so no other pod is evicted; run again"
        evictions.fail(Reason("error", text), report, observation)

    def _wait_for_earlier(
        self, report: WorkloadReport, observation: Observation, decision: EvictionDecision, evictions: WorkloadEvictions
    ) -> t.Optional[Step]:
        """Return the wait for a pod that is still missing. Nothing is evicted before its replacement is available."""
        result = evictions.result
        if evictions.outcome is None:
            result.action, result.reason, result.outcome = SKIPPED, decision.reason, PENDING
        if self._options.dry_run or not self._options.wait:
            return None
        self._evictions[result.target] = evictions
        self._budgets.begin(result.target, names_of_budgets(report.workload, observation.snapshot))
        return Replacement(self._api, self._options, evictions, report.workload, observation)

    def _none_left(
        self, report: WorkloadReport, observation: Observation, decision: EvictionDecision, evictions: WorkloadEvictions
    ) -> None:
        result = evictions.result
        if not (result.evicted and decision.even):
            result.stop(decision.action, decision.reason)
        if not decision.begun:
            # No outcome is recorded, or the recorded one belongs to another run.
            result.outcome = PENDING if result.evicted else ""
            return
        if evictions.outcome is None:
            result.before, result.outcome = {}, PENDING
        if evictions.before is not None and not evictions.may_have_evicted and not decision.even:
            evictions.revert()
            return
        evictions.conclude(report, observation, even=decision.even)

    def _plan(
        self, report: WorkloadReport, observation: Observation, decided: Decided[EvictionDecision], evictions: WorkloadEvictions
    ) -> None:
        """Record the planned moves in the result. The dry run covered only the first pod; later evictions depend on it."""
        result = evictions.result
        condition = "; ".join(filter(None, [evictions.condition, observation.states.condition(list(decided.acting))]))
        first = {state: decision.move for state, decision in decided.acting.items() if decision.move is not None}
        expected, planned = observation.assume_moves(report, first)
        result.plan(WOULD_EVICT, decided.decision.reason, expected, condition)
        result.evicted = [EvictedPod(one.pod.metadata.name, one.pod.spec.node_name, replacement_node=one.node) for one in planned.moves]
        if planned.last is not None:
            result.stop(SKIPPED, planned.last)
