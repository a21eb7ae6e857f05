# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The eviction way: one surplus pod at a time by the Eviction subresource, each decided on a fresh look.

What is about to be done is written on the workload before every eviction, so that a run that is killed is gone on with, and a second
one that runs at the same time notices.
"""

from __future__ import annotations

import typing as t

from ..kube.api import KubeApi
from ..kube.errors import BudgetError, SeveralBudgetsError
from ..memory.outcome import PENDING
from ..spread.check import WorkloadReport
from ..spread.distribution import listed_by_key
from ..spread.eviction_plan import WAIT, EvictionDecision, decide_eviction, planned_moves
from ..spread.guard import budgets_of
from ..spread.restart_plan import RestartOptions
from ..spread.surplus import Move
from .eviction_step import Attempt, Eviction, conclude, refusal, then
from .look import Look
from .restart_memory import remember_eviction
from .restart_result import EVICTED, REFUSED, SKIPPED, EvictedPod, RestartResult, Target
from .way import BudgetsAtStake, Run


class EvictionWay:
    """Evens workloads out by evicting single pods."""

    def __init__(self, api: KubeApi, options: RestartOptions, budgets: BudgetsAtStake) -> None:
        self._api = api
        self._options = options
        self._budgets = budgets
        self._attempts: dict[Target, Attempt] = {}

    def begin(self, line: WorkloadReport, look: Look, result: RestartResult) -> t.Optional[Run]:
        """Decide on the next step of the workload; the eviction itself is made by the run's ``wait``."""
        attempt = self._attempts.get(result.target)
        if attempt is None or attempt.outcome is None:
            result.before = listed_by_key(line.distributions)
        ours = attempt.outcome if attempt is not None else None
        turned_down = attempt is not None and attempt.turned_down
        decision = decide_eviction(
            line, look.snapshot, look.placement, self._options, now_s=self._api.now_s(), ours=ours, turned_down=turned_down
        )
        if decision.action == WAIT:
            return self._wait_for_earlier(line, look, decision, result)
        if decision.move is None or decision.outcome is None:
            self._none_left(line, look, decision, result)
            return None
        budgets = {(budget.metadata.namespace, budget.metadata.name) for budget in budgets_of(line.workload, look.snapshot)}
        conflict = self._budgets.conflict(result, budgets)
        if conflict is not None:
            result.end(REFUSED, conflict)
            return None
        if self._options.dry_run:
            self._plan(line, look, decision, decision.move, result)
            return None
        workload, written = remember_eviction(self._api, line.workload, decision.outcome)
        if attempt is None or attempt.outcome is None:
            attempt = self._attempts[result.target] = Attempt(line)
            result.reason, result.verdict = decision.reason, PENDING
        attempt.outcome, result.changed = written, True
        self._budgets.add(budgets)
        return Eviction(self._api, self._options, result, attempt, workload, look, line, decision.move)

    def _wait_for_earlier(self, line: WorkloadReport, look: Look, decision: EvictionDecision, result: RestartResult) -> t.Optional[Run]:
        """A pod is still away: nothing is evicted before it is back."""
        attempt = self._attempts.setdefault(result.target, Attempt(None))
        if attempt.outcome is None:
            result.action, result.reason, result.verdict = SKIPPED, decision.reason, PENDING
        if self._options.dry_run or not self._options.wait:
            return None
        return Eviction(self._api, self._options, result, attempt, line.workload, look, line, None)

    def _none_left(self, line: WorkloadReport, look: Look, decision: EvictionDecision, result: RestartResult) -> None:
        attempt = self._attempts.get(result.target)
        if not result.evicted:
            result.end(decision.action, decision.reason)
        elif not decision.even:
            then(result, decision.reason)
        if not decision.begun:
            # Nothing is remembered, or what is belongs to somebody else by now.
            result.verdict = PENDING if result.evicted else ""
            return
        if attempt is None or attempt.outcome is None:
            result.before = {}
        if self._options.dry_run:
            result.verdict = PENDING
            return
        before = attempt.before if attempt is not None else None
        conclude(self._api, self._options, result, line, look, before=before, even=decision.even)

    def _plan(self, line: WorkloadReport, look: Look, decision: EvictionDecision, move: Move, result: RestartResult) -> None:
        """Ask the server whether it would evict the first pod; later ones cannot be asked for, since the first stays."""
        try:
            self._api.evict(move.pod.metadata.namespace, move.pod.metadata.name, uid=move.pod.metadata.uid, dry_run=True)
        except (BudgetError, SeveralBudgetsError) as error:
            result.end(REFUSED, refusal(error, move, look.snapshot))
            return
        moves = planned_moves(line, look.snapshot, look.placement, self._options, move)
        result.end(EVICTED, decision.reason)
        result.verdict, result.changed = PENDING, True
        result.evicted = [EvictedPod(one.pod.metadata.name, one.pod.spec.node_name, replacement_node=one.node) for one in moves]
