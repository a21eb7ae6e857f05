# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rollout strategy: one guarded patch restarts the whole workload, which then follows its own update strategy."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from functools import partial

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError, was_not_applied
from ...kube.client.resources import WORKLOADS
from ...model.api.pod import TopologySpreadConstraint
from ...model.api.workload import Workload
from ...model.codec import decode_json, member, replace
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...spread.comparison import compare_spread
from ...spread.distribution import Distribution, listed_by_key
from ...spread.history import remembered_constraints
from ...spread.preconditions.unreadable import unreadable_violation
from ...spread.preconditions.workload_budgets import budgets_at_stake, budgets_of
from ...spread.prediction.old_pods import terminating_pods_reason
from ...spread.restart.actions import FAILED_ACTION, REFUSED, RESTART, RESTARTED, RESUME, SKIPPED, WOULD_RESTART
from ...spread.restart.decided import decide_in_each
from ...spread.restart.decision import RestartDecision, decide_restart, is_still_valid_for, restart_patch
from ...spread.restart.options import RestartOptions
from ...spread.restart.possible_states import PossibleState
from ...spread.restart.run_limits import RunLimits
from ...spread.restart.targets import Target
from ...spread.rollout import DONE, WAITING, Progress, rollout_progress
from ...spread.skew_cost import measure_skew
from ...spread.spread_report import WorkloadReport
from ...spread.stuck_pods import unfinished_cause
from ...spread.verdict import is_well_spread
from ...state.restart_outcome import IMPROVED, PENDING, RestartOutcome, make_outcome, new_write_id, read_outcome
from ..common.guarded_patch import LiveWorkload, read_live_workload, write_guarded
from ..common.wait import wait_for_workload
from .budget_locks import BudgetLocks
from .eviction_wait import EvictionWait
from .live_window import is_inside_live_window
from .move_strategy import MoveStrategy, PlannedStep, SettlingError, StaleDecisionError, Step, defer_if_undecided
from .observation import Observation
from .outcome_store import finalize, next_outcome_time, record_event, record_update_revision
from .result import RestartResult
from .stuck_rollout import stuck_container_of_rollout


def write_restart(
    api: KubeApi,
    decided_on: Workload,
    decision: RestartDecision,
    snapshot: ClusterSnapshot,
    options: RestartOptions,
    on_request: t.Callable[[], None] = lambda: None,
) -> t.Optional[Workload]:
    """Write the restart and return the workload. ``on_request`` is called before each request that may restart it.

    None if another client changed it during the write. Writes of the status and by an autoscaler change the resource version without effect
    on the decision. After such a conflict the workload is read again and the patch is repeated. Raise StaleDecisionError before any write
    if the generation is not the snapshot's. An annotation raises the generation like an edit of the spec, and the snapshot has too few
    fields to distinguish them.
    """
    metadata, resource = decided_on.metadata, WORKLOADS[decided_on.kind]
    first: t.Optional[LiveWorkload] = None
    outcome: t.Optional[RestartOutcome] = None
    written: t.Optional[RestartOutcome] = None
    patched: t.Optional[Workload] = None

    def write(live: LiveWorkload) -> None:
        nonlocal first, outcome, written, patched
        workload = live.workload
        is_valid = is_still_valid_for(workload, decided_on, snapshot, options) and is_inside_live_window(api, workload, snapshot)
        if first is not None and (live.template != first.template or not is_valid):
            raise _ChangedMeanwhileError
        if first is None and (workload.metadata.generation != metadata.generation or not is_valid):
            raise StaleDecisionError
        outcome = outcome or _pending_outcome(api, workload, decision, snapshot.revision_number(decided_on))
        first, written = first or live, _with_expected_generation(outcome, workload)
        if options.dry_run and not options.asks_server:
            return
        on_request()
        patch = restart_patch(workload, written, decision.constraints, present=_constraints_in(live.template))
        patched = api.merge_patch(resource, metadata.namespace, metadata.name, patch, dry_run=options.dry_run)

    def is_written(live: LiveWorkload) -> bool:
        return read_outcome(live.workload.metadata.annotations) == written

    try:
        found = write_guarded(lambda: read_live_workload(api, decided_on), write, is_written)
    except (_ChangedMeanwhileError, ConflictError):
        return None
    return patched or found.workload


def _constraints_in(template: bytes) -> list[dict[str, t.Any]]:
    """Return the spread constraints of a template with all their fields, as the server writes them."""
    return decode_json(list[dict[str, t.Any]], member(template, "spec", "topologySpreadConstraints") or b"[]")


class _ChangedMeanwhileError(Exception):
    """Another client has changed the workload between two tries of the write."""


def _pending_outcome(api: KubeApi, live: Workload, decision: RestartDecision, number: t.Optional[int]) -> RestartOutcome:
    outcome = make_outcome(
        now_s=next_outcome_time(api.now_s(), live),
        attempts=decision.attempts,
        outcome=PENDING,
        revision=decision.revision,
        eligible=decision.eligible,
        number=number,
        lowest=decision.lowest,
        constraints=[*remembered_constraints(live), *(constraint.topology_key for constraint in decision.constraints)],
    )
    return replace(outcome, write_id=new_write_id())


def _with_expected_generation(outcome: RestartOutcome, live: Workload) -> RestartOutcome:
    """Return the outcome with the generation that the patch gives to a StatefulSet. No other version of it has this generation."""
    return replace(outcome, generation=live.metadata.generation + 1) if live.kind == "StatefulSet" else outcome


class RolloutStrategy:
    """Restarts workloads as ``kubectl rollout restart`` does. ``auto`` uses ``evictions`` if only that does not help or is refused."""

    def __init__(
        self,
        api: KubeApi,
        options: RestartOptions,
        budgets: BudgetLocks,
        limits: RunLimits,
        evictions: MoveStrategy,
        eviction_wait: EvictionWait,
    ) -> None:
        self._api = api
        self._options = options
        self._budgets = budgets
        self._limits = limits
        self._evictions = evictions
        self._eviction_wait = eviction_wait

    def begin(self, report: WorkloadReport, observation: Observation, result: RestartResult, *, alone: bool) -> t.Optional[Step]:
        """Decide on the workload. If the decision is a restart, write it.

        A workload that gets evictions instead gets no rollout in this run.
        """
        if result.no_rollout is not None:
            return self._evictions.begin(report, observation, result, alone=alone)
        result.before = listed_by_key(report.distributions)
        decided = decide_in_each(
            observation.states,
            lambda state: self._decide(observation.report_in(state, report), observation, state, result.target),
            lambda decision: decision.action == RESTART,
            is_plan=self._options.dry_run,
        )
        states, decision = list(decided.acting), decided.decision
        if decision.action == RESUME:
            return self._resume(report, observation, decision, result)
        if not states:
            budgets = budgets_of(report.workload, observation.snapshot) if decision.reason.code == "budget" else ()
            if self._budgets.counts_lag(budgets) and not self._eviction_wait.over:
                raise SettlingError
            defer_if_undecided(decision.reason, self._eviction_wait, alone=alone)
            if decision.evicts_instead:
                result.no_rollout = decision.reason
                return self._evictions.begin(report, observation, result, alone=alone)
            result.end(decision.action, decision.reason)
            result.advise_constraints(report.workload, decision.constraints)
            return None
        at_stake = set() if self._options.allow_downtime else budgets_at_stake(report.workload, observation.snapshot)
        conflict = self._budgets.violation(result.target, at_stake) or self._budgets.unanswered_violation(result.target, at_stake)
        if conflict is not None:
            result.end(REFUSED, conflict)
            return None
        patched = self._write(report.workload, decision, observation.snapshot, result.target)
        if patched is None:
            text = f"{result.target} was changed while its restart was being decided; run again"
            result.end(SKIPPED, Reason("changed_meanwhile", text))
            return None
        result.action, result.reason, result.outcome, result.changed = RESTARTED, decision.reason, PENDING, True
        result.templates = (report.workload.spec.template, patched.spec.template)
        result.advise_constraints(report.workload, decision.constraints)
        self._note_constraints(decision.constraints, patched, result)
        self._budgets.begin(result.target, at_stake)
        self._budgets.note_healthy(budgets_of(report.workload, observation.snapshot))
        condition = observation.states.condition(states)
        expected = observation.assume_restarted(report, states)
        if self._options.dry_run:
            result.plan(WOULD_RESTART, decision.reason, expected, condition)
            return PlannedStep(result, has_ended=self._options.wait)
        outcome = read_outcome(patched.metadata.annotations)
        if patched.kind == "StatefulSet" and outcome is not None:
            outcome = record_update_revision(self._api, result, patched, outcome, poll_s=self._options.wait_sleep_s)
        record_event(self._api, result, patched, reason="SpreadRestart", message=f"restarted: {decision.reason.text}")
        return _Rollout(self._api, self._options, result, patched, outcome, before=report)

    def _decide(self, report: WorkloadReport, observation: Observation, state: PossibleState, target: Target) -> RestartDecision:
        decision = decide_restart(report, observation.snapshot, self._options, now_s=self._api.now_s())
        if decision.action != RESTART:
            return decision
        limited = state.limits.workload_limit_violation(target)
        if limited is None and self._options.only_if_helps and report.prediction is not None and report.prediction.awaits_ends:
            limited = terminating_pods_reason(state.cluster_state)
        return decision if limited is None else RestartDecision(SKIPPED, limited)

    def _write(self, workload: Workload, decision: RestartDecision, snapshot: ClusterSnapshot, target: Target) -> t.Optional[Workload]:
        """Write the restart and count it, also if it is unknown whether the write succeeded. A plan counts it in each state."""
        is_requested = False

        def on_request() -> None:
            nonlocal is_requested
            is_requested = True

        try:
            patched = write_restart(self._api, workload, decision, snapshot, self._options, on_request)
        except KubeError as error:
            if is_requested and not self._options.dry_run and not was_not_applied(error):
                self._limits.add_restart(target)
            raise
        if patched is not None and not self._options.dry_run:
            self._limits.add_restart(target)
        return patched

    def _note_constraints(self, added: Sequence[TopologySpreadConstraint], patched: Workload, result: RestartResult) -> None:
        """Record the added constraints as the API server has stored them.

        It drops ``matchLabelKeys`` before Kubernetes 1.27 and without its feature gate (kubernetes ``pkg/api/pod/util.go``,
        dropDisabledMatchLabelKeysFieldInTopologySpread). The constraint spreads also without it, so this is a warning and no refusal. In
        a dry run that does not ask the server, ``patched`` is the workload as it was.
        """
        if self._options.dry_run and not self._options.asks_server:
            result.constraints = list(added)
            return
        keys = {constraint.topology_key for constraint in added}
        stored = patched.spec.template.spec.topology_spread_constraints or ()
        result.constraints = [constraint for constraint in stored if constraint.topology_key in keys]
        for constraint in added:
            if constraint not in result.constraints:
                result.warnings.append(_difference(constraint, result))

    def _resume(
        self, report: WorkloadReport, observation: Observation, decision: RestartDecision, result: RestartResult
    ) -> t.Optional[Step]:
        """Verify an earlier restart instead of a new one. The earlier run was interrupted, or did not wait."""
        result.action, result.reason, result.outcome = SKIPPED, decision.reason, PENDING
        result.before = {}
        progress = rollout_progress(report.workload)
        under_way = progress.state == WAITING
        if under_way:
            observation.assume_continued(report)
        if under_way and (self._options.dry_run or not self._options.wait):
            return PlannedStep(result, has_ended=True) if self._options.wait else None
        outcome = read_outcome(report.workload.metadata.annotations)
        return _Rollout(self._api, self._options, result, report.workload, outcome, progress=None if under_way else progress)


def _difference(constraint: TopologySpreadConstraint, result: RestartResult) -> str:
    what = f"the API server has not stored the spread constraint over {constraint.topology_key} of {result.target} as it was written"
    stored = next((one for one in result.constraints if one.topology_key == constraint.topology_key), None)
    if stored is None or not constraint.match_label_keys or stored.match_label_keys:
        return f"{what}: an admission webhook or a policy has changed it"
    return f"{what}: it has no matchLabelKeys, which need Kubernetes 1.27, so the old pods count during a rollout"


class _Rollout:
    """One rollout.

    ``before`` is the report before it (None after an interruption). ``progress`` is its end (None while it is in progress).
    """

    may_continue = False

    def __init__(
        self,
        api: KubeApi,
        options: RestartOptions,
        result: RestartResult,
        workload: Workload,
        outcome: t.Optional[RestartOutcome],
        *,
        before: t.Optional[WorkloadReport] = None,
        progress: t.Optional[Progress] = None,
    ) -> None:
        self.result = result
        self._api = api
        self._options = options
        self._workload = workload
        self._outcome = outcome
        self._before = before
        self._progress = progress

    @property
    def is_awaited(self) -> bool:
        return self._progress is None

    @property
    def has_ended(self) -> bool:
        return self._progress is not None and self._progress.state == DONE

    @property
    def needs_observation(self) -> bool:
        return self._progress is not None and (self._progress.state != DONE or self._options.verify_spread)

    def assume(self, observation: Observation) -> None:
        report = observation.report_for(self.result.target)
        if report is not None:
            observation.assume_continued(report)

    def wait(self) -> None:
        if not self._options.wait or not self.is_awaited:
            return
        try:
            self._workload, self._progress = wait_for_workload(
                self._api,
                self._workload,
                rollout_progress,
                timeout_s=self._options.wait_timeout_s,
                poll_s=self._options.wait_sleep_s,
                stuck=partial(stuck_container_of_rollout, self._api),
            )
        except KubeError as error:
            self.result.end(FAILED_ACTION, Reason("lost", str(error)))
        self.result.take_time()

    def finish(self, observation: Observation) -> bool:
        result, progress = self.result, self._progress
        if progress is None:
            return False
        report = observation.report_for(result.target)
        if progress.state != DONE:
            cause = unfinished_cause(report.workload, observation.snapshot) if report is not None else ""
            result.fail_unfinished("rollout_not_finished", progress, timeout_s=self._options.wait_timeout_s, cause=cause)
        undecodable = observation.undecodable(result.target) if report is None else None
        if undecodable is not None:
            result.end(FAILED_ACTION, undecodable)
            return False
        if report is None:
            result.vanish(FAILED_ACTION, f"{result.target} was deleted during its rollout")
            return False
        if unreadable_violation(report.workload, observation.snapshot, budgets=False) is not None:
            result.outcome = PENDING  # the next run compares the spread
            return False
        after, before = observation.distribution_over(self._before, report), self._before.distributions if self._before else None
        was_even = before is not None and self._is_even(before)
        if self._options.verify_spread:
            result.after = listed_by_key(report.distributions)
            if progress.state == DONE:
                result.outcome = compare_spread(before, after, pending=self._outcome, is_even=self._is_even(after))
        if result.outcome != PENDING:
            finalize(
                self._api,
                result,
                self._workload,
                self._outcome,
                observation.snapshot,
                settled=self._is_even(report.distributions) and not was_even,
                skew=measure_skew(after),
                improved=result.outcome == IMPROVED,
                event="SpreadRestartOutcome",
                dry_run=self._options.dry_run,
            )
        return False

    def _is_even(self, distributions: Sequence[Distribution]) -> bool:
        return is_well_spread(distributions, max_skew=self._options.max_skew)
