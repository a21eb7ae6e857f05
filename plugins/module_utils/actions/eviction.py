# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The eviction way: one surplus pod at a time by the Eviction subresource, each decided on a fresh look.

What is about to be done is written on the workload before every eviction, so that a run that is killed is gone on with, and a second
one that runs at the same time notices.
"""

from __future__ import annotations

import typing as t

from ..kube.api import KubeApi
from ..kube.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    NotFoundError,
    SeveralBudgetsError,
    UnreachableError,
    is_denied,
    lacks_rights,
)
from ..memory.outcome import PENDING
from ..model.reasons import Reason
from ..rescue.budgets import BUDGETS_NOT_READABLE, alike
from ..spread.check import WorkloadReport
from ..spread.distribution import listed_by_key
from ..spread.eviction_plan import WAIT, EvictionDecision, decide_eviction, planned_moves
from ..spread.guard import names_of_budgets
from ..spread.restart_plan import RestartOptions
from ..spread.surplus import Move
from .budget_wait import BudgetWait
from .eviction_attempt import Attempt, budget_refusal, denial
from .eviction_step import Replacement, TurnedDown, Vanished
from .look import Look
from .restart_memory import remember_eviction, tell
from .restart_result import EVICTED, REFUSED, SKIPPED, EvictedPod, RestartResult, Target
from .restart_write import StaleJudgementError
from .way import BudgetsAtStake, ClosedBudgetError, Run, unless_room_was_taken


class EvictionWay:
    """Evens workloads out by evicting single pods."""

    def __init__(self, api: KubeApi, options: RestartOptions, budgets: BudgetsAtStake, budget_wait: BudgetWait) -> None:
        self._api = api
        self._options = options
        self._budgets = budgets
        self._budget_wait = budget_wait
        self._attempts: dict[Target, Attempt] = {}

    def begin(self, line: WorkloadReport, look: Look, result: RestartResult, *, alone: bool) -> t.Optional[Run]:
        """Decide on the next step of the workload and, if it is an eviction, ask for it at once."""
        attempt = self._attempts.get(result.target) or Attempt(self._api, self._options, result, None)
        if attempt.outcome is None:
            result.before = listed_by_key(line.distributions)
        decision = decide_eviction(
            line,
            look.snapshot,
            look.placement,
            self._options,
            now_s=self._api.now_s(),
            ours=attempt.outcome,
            turned_down=attempt.turned_down,
        )
        if decision.action == WAIT:
            return self._wait_for_earlier(line, look, decision, attempt)
        if decision.move is None or decision.outcome is None:
            unless_room_was_taken(decision.reason, alone=alone)
            self._none_left(line, look, decision, attempt)
            return None
        budgets = names_of_budgets(line.workload, look.snapshot)
        conflict = self._budgets.conflict(result.target, budgets)
        if conflict is not None:
            result.stop(REFUSED, conflict)
            return None
        refused = self._closed_budget(decision.move, look, attempt)
        if refused is not None:
            attempt.refuse(refused, line, look)
            return None
        if attempt.outcome is None and not self._is_admitted(decision.move, look, result):
            return None
        if self._options.dry_run:
            self._plan(line, look, decision, decision.move, result)
            return None
        remembered = remember_eviction(self._api, line.workload, decision.outcome)
        if attempt.outcome is None:
            attempt.before = line
            result.reason, result.verdict = decision.reason, PENDING
        attempt.outcome, result.changed = remembered.outcome, True
        self._attempts[result.target] = attempt
        self._budgets.begin(result.target, budgets)
        look.assume_moved(decision.move)
        return self._evict(decision.move, line, look, attempt, remembered.template)

    def _evict(self, move: Move, line: WorkloadReport, look: Look, attempt: Attempt, template: bytes) -> Run:
        pod = move.pod.metadata
        try:
            self._api.evict(pod.namespace, pod.name, uid=pod.uid)
        except (ApiError, UnreachableError) as error:
            if isinstance(error, (NotFoundError, ConflictError)) and not is_denied(error):
                return Vanished(self._api, self._options, attempt, error)
            return TurnedDown(self._api, self._options, attempt, move, line, error, self._budget_wait)
        self._budget_wait.granted()
        attempt.note_eviction(move, line, look)
        tell(self._api, attempt.result, line.workload, reason="SpreadEviction", message=f"evicted {pod.name}: {move.reason}")
        return Replacement(self._api, self._options, attempt, line.workload, look, template)

    def _closed_budget(self, move: Move, look: Look, attempt: Attempt) -> t.Optional[Reason]:
        """Why no budget lets the pod go; None where one may. Raises ClosedBudgetError where one will soon, and there is time to wait."""
        standing = look.budgets.standing(move.pod, alike(move.pod))
        refusal, closed_by_server = standing.refusal, attempt.closed
        attempt.closed = False
        if refusal is None or refusal.code == BUDGETS_NOT_READABLE:
            if closed_by_server and not self._budget_wait.over:
                self._budget_wait.expect(None)
                raise ClosedBudgetError
            return None  # the server decides
        pod = move.pod.metadata
        text = f"pod {pod.namespace}/{pod.name} may not be evicted: {refusal.text}"
        if standing.budget is None:
            return Reason(refusal.code, text)
        if not look.budgets.opens_soon(standing.budget):
            return Reason(refusal.code, f"{text}, and will not without a change: {look.budgets.counts(standing.budget)}")
        if not self._budget_wait.over:
            self._budget_wait.expect(standing.budget)
            raise ClosedBudgetError
        return Reason(refusal.code, f"{text}: {look.budgets.counts(standing.budget)}; run again when more pods are healthy")

    def _is_admitted(self, move: Move, look: Look, result: RestartResult) -> bool:
        """Ask the server whether it would evict the pod, before anything is written. Where it would not, the result says why.

        Raises ClosedBudgetError where a budget lets no pod go now, and StaleJudgementError where the pod is gone. Other trouble shows again
        when it is asked in earnest.
        """
        pod = move.pod.metadata
        try:
            self._api.evict(pod.namespace, pod.name, uid=pod.uid, dry_run=True)
        except (ApiError, UnreachableError) as error:
            if isinstance(error, ApiError) and is_denied(error):
                result.end(REFUSED, denial(error, move))
                return False
            if isinstance(error, (NotFoundError, ConflictError)):
                raise StaleJudgementError from error
            if isinstance(error, BudgetError) and not self._budget_wait.over:
                self._budget_wait.expect(None)
                raise ClosedBudgetError from error
            if isinstance(error, (BudgetError, SeveralBudgetsError)):
                result.end(REFUSED, budget_refusal(error, move, look.snapshot))
                return False
            if self._options.dry_run or lacks_rights(error):
                raise
        return True

    def _wait_for_earlier(self, line: WorkloadReport, look: Look, decision: EvictionDecision, attempt: Attempt) -> t.Optional[Run]:
        """A pod is still away: nothing is evicted before it is back."""
        result = attempt.result
        if attempt.outcome is None:
            result.action, result.reason, result.verdict = SKIPPED, decision.reason, PENDING
        if self._options.dry_run or not self._options.wait:
            return None
        self._attempts[result.target] = attempt
        self._budgets.begin(result.target, names_of_budgets(line.workload, look.snapshot))
        return Replacement(self._api, self._options, attempt, line.workload, look)

    def _none_left(self, line: WorkloadReport, look: Look, decision: EvictionDecision, attempt: Attempt) -> None:
        result = attempt.result
        if not (result.evicted and decision.even):
            result.stop(decision.action, decision.reason)
        if not decision.begun:
            # Nothing is remembered, or what is belongs to somebody else by now.
            result.verdict = PENDING if result.evicted else ""
            return
        if attempt.outcome is None:
            result.before = {}
        if self._options.dry_run:
            result.verdict = PENDING
            return
        attempt.conclude(line, look, even=decision.even)

    def _plan(self, line: WorkloadReport, look: Look, decision: EvictionDecision, move: Move, result: RestartResult) -> None:
        """The server would evict the first pod; later ones cannot be asked for, since the first stays."""
        moves = planned_moves(line, look.snapshot, look.placement, self._options, move)
        for planned in moves:
            look.assume_moved(planned)
        result.end(EVICTED, decision.reason)
        result.verdict, result.changed = PENDING, True
        result.evicted = [EvictedPod(one.pod.metadata.name, one.pod.spec.node_name, replacement_node=one.node) for one in moves]
