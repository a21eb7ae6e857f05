# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rollout way: one guarded patch restarts the whole workload, which then follows its own update strategy."""

from __future__ import annotations

import typing as t
from functools import partial

from ..kube.client.api import KubeApi
from ..kube.client.errors import KubeError
from ..model.api.workload import Workload
from ..model.reason import Reason
from ..spread.check import WorkloadReport
from ..spread.distribution import listed_by_key
from ..spread.guard import budgets_at_stake
from ..spread.restart_plan import RESTART, RESUME, Decision, RestartOptions, compare, decide, well_spread
from ..spread.rollout_status import DONE, WAITING, Progress, rollout_progress
from ..spread.unhealthy import why_unfinished
from ..state.restart_outcome import PENDING, Outcome, read_outcome
from .hanging import hanging_rollout
from .look import Look
from .restart_memory import remember_update_revision, settle, tell
from .restart_result import FAILED_ACTION, REFUSED, RESTARTED, SKIPPED, RestartResult
from .restart_write import write_restart
from .way import BudgetsAtStake, Run, unless_room_was_taken
from .workload_wait import wait_for_workload


class RolloutWay:
    """Restarts workloads as ``kubectl rollout restart`` does."""

    def __init__(self, api: KubeApi, options: RestartOptions, budgets: BudgetsAtStake) -> None:
        self._api = api
        self._options = options
        self._budgets = budgets

    def begin(self, line: WorkloadReport, look: Look, result: RestartResult, *, alone: bool) -> t.Optional[Run]:
        """Decide and, if so decided, write the restart."""
        result.before = listed_by_key(line.distributions)
        decision = decide(line, look.snapshot, self._options, now_s=self._api.now_s())
        if decision.action == RESUME:
            return self._resume(line, decision, result)
        if decision.action != RESTART:
            unless_room_was_taken(decision.reason, alone=alone)
            result.end(decision.action, decision.reason)
            return None
        at_stake = set() if self._options.allow_downtime else budgets_at_stake(line.workload, look.snapshot)
        conflict = self._budgets.conflict(result.target, at_stake)
        if conflict is not None:
            result.end(REFUSED, conflict)
            return None
        patched = write_restart(self._api, line.workload, decision, look.snapshot, self._options)
        if patched is None:
            text = f"{result.target} was changed while its restart was being decided; run again"
            result.end(SKIPPED, Reason("changed_meanwhile", text))
            return None
        result.action, result.reason, result.verdict, result.changed = RESTARTED, decision.reason, PENDING, True
        look.assume_restarted(line)
        if self._options.dry_run:
            return None
        self._budgets.begin(result.target, at_stake)
        outcome = read_outcome(patched.metadata.annotations)
        if patched.kind == "StatefulSet" and outcome is not None:
            outcome = remember_update_revision(self._api, result, patched, outcome, poll_s=self._options.wait_sleep_s)
        tell(self._api, result, patched, reason="SpreadRestart", message=f"restarted: {decision.reason}")
        return _Rollout(self._api, self._options, result, patched, outcome, before=line)

    def _resume(self, line: WorkloadReport, decision: Decision, result: RestartResult) -> t.Optional[Run]:
        """An earlier run was interrupted, or did not wait: do not restart again, only take the second look."""
        result.action, result.reason, result.verdict = SKIPPED, decision.reason, PENDING
        result.before = {}
        progress = rollout_progress(line.workload)
        under_way = progress.state == WAITING
        if self._options.dry_run or (under_way and not self._options.wait):
            return None
        outcome = read_outcome(line.workload.metadata.annotations)
        return _Rollout(self._api, self._options, result, line.workload, outcome, progress=None if under_way else progress)


class _Rollout:
    """One rollout: how the workload lay before (None after an interruption), and how it went (None while it is under way)."""

    may_go_on = False

    def __init__(
        self,
        api: KubeApi,
        options: RestartOptions,
        result: RestartResult,
        workload: Workload,
        outcome: t.Optional[Outcome],
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
    def under_way(self) -> bool:
        return self._progress is None

    @property
    def has_ended(self) -> bool:
        return self._progress is not None and self._progress.state == DONE

    @property
    def to_look_at(self) -> bool:
        return self._progress is not None and (self._progress.state != DONE or self._options.verify_spread)

    def assume(self, look: Look) -> None:
        line = look.line(self.result.target)
        if line is not None:
            look.assume_restarted(line)

    def wait(self) -> None:
        if not self._options.wait or not self.under_way:
            return
        try:
            self._workload, self._progress = wait_for_workload(
                self._api,
                self._workload,
                rollout_progress,
                timeout_s=self._options.wait_timeout_s,
                poll_s=self._options.wait_sleep_s,
                hanging=partial(hanging_rollout, self._api),
            )
        except KubeError as error:
            self.result.end(FAILED_ACTION, Reason("lost", str(error)))
        self.result.take_time()

    def finish(self, look: Look) -> bool:
        result, progress = self.result, self._progress
        if progress is None:
            return False
        line = look.line(result.target)
        if progress.state != DONE:
            cause = why_unfinished(line.workload, look.snapshot) if line is not None else ""
            result.fail_unfinished("rollout_not_finished", progress, timeout_s=self._options.wait_timeout_s, cause=cause)
        undecodable = look.undecodable(result.target) if line is None else None
        if undecodable is not None:
            result.end(FAILED_ACTION, undecodable)
            return False
        if line is None:
            result.vanish(FAILED_ACTION, Reason("vanished", f"{result.target} was deleted during its rollout"))
            return False
        if self._options.verify_spread:
            result.after = listed_by_key(line.distributions)
            if progress.state == DONE:
                before = self._before.distributions if self._before else None
                result.verdict = compare(before, look.seen_as(self._before, line), max_skew=self._options.max_skew)
        if result.verdict != PENDING:
            settled = well_spread(line.distributions, max_skew=self._options.max_skew)
            settle(self._api, result, self._workload, self._outcome, look.snapshot, settled=settled, event="SpreadRestartOutcome")
        return False
