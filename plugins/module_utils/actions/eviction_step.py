# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One step of the eviction way: ask once, wait for the replacement or pause, and see on a fresh look what came of it."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from ..kube.api import KubeApi
from ..kube.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    KubeError,
    NotFoundError,
    OverloadedError,
    SeveralBudgetsError,
    UnreachableError,
    UntrustedError,
)
from ..memory.outcome import FAILED, PENDING, Outcome
from ..model.objects import Workload
from ..model.reasons import Reason
from ..model.selectors import matches
from ..model.snapshot import ClusterSnapshot
from ..spread.check import WorkloadReport
from ..spread.distribution import listed_by_key
from ..spread.eviction_plan import TAKE_OVER_AFTER_S, eviction_outcome
from ..spread.restart_plan import RestartOptions
from ..spread.rollout_status import DONE, Progress
from ..spread.surplus import Move, excess
from .look import Look
from .replacement_wait import wait_for_replacement
from .restart_memory import settle, tell
from .restart_result import EVICTED, FAILED_ACTION, REFUSED, SKIPPED, EvictedPod, RestartResult

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0
MOST_VANISHED = 5
"""Pods that may go by themselves, just before they are evicted, until the workload counts as too restless."""


@dataclass
class Attempt:
    """The evictions of one workload in this run: how it lay before, what is remembered on it, and what stands in the way."""

    before: t.Optional[WorkloadReport]
    outcome: t.Optional[Outcome] = None
    blocked_since_s: t.Optional[float] = None
    pause_s: float = FIRST_PAUSE_S
    turned_down: bool = False
    vanished: int = 0


class _Blocked(t.NamedTuple):
    """An eviction that was not made, and the server's answer."""

    move: Move
    error: KubeError


class Eviction:
    """One step: the eviction of one pod, or without ``move`` only the wait for an earlier one."""

    def __init__(
        self,
        api: KubeApi,
        options: RestartOptions,
        result: RestartResult,
        attempt: Attempt,
        workload: Workload,
        look: Look,
        line: WorkloadReport,
        move: t.Optional[Move],
    ) -> None:
        self.result = result
        self.under_way = True
        self.may_go_on = options.wait
        self._api = api
        self._options = options
        self._attempt = attempt
        self._workload = workload
        self._line = line
        self._move = move
        self._owner = _owner_of_pods(workload, look.snapshot)
        self._known = {pod.metadata.uid for pod in look.snapshot.owned_pods(workload)}
        self._evicted: t.Optional[EvictedPod] = None
        self._blocked: t.Optional[_Blocked] = None
        self._lost = False
        self._progress: t.Optional[Progress] = None

    @property
    def to_look_at(self) -> bool:
        return self._options.wait or self._evicted is None

    def wait(self) -> None:
        """Evict the pod, once, and wait for its replacement; or pause, where it may be evicted later."""
        try:
            if self._move is not None and not self._evict(self._move):
                return
            if self._options.wait:
                self._wait()
        except KubeError as error:
            self._lost = True
            self.result.end(FAILED_ACTION, Reason("lost", str(error)))
        finally:
            self.under_way = False
            self.result.take_time()

    def finish(self, look: Look) -> bool:
        """See where the replacement is; every further step is decided on this look."""
        result = self.result
        line = look.line(result.target)
        if line is None:
            result.vanish(FAILED_ACTION, Reason("vanished", f"{result.target} was deleted during its evictions"))
            return False
        if self._lost:
            return False
        if self._blocked is not None:
            return self._may_try_again(self._blocked, line, look)
        if not self._options.wait:
            if self._evicted is None:
                text = f"the pod of {result.target} went by itself before it was evicted; run again"
                result.end(SKIPPED, Reason("changed_meanwhile", text))
                self._conclude(line, look)
            return False
        if self._progress is not None and self._progress.state != DONE:
            result.fail_unfinished("replacement_not_ready", self._progress, timeout_s=self._options.wait_timeout_s)
            self._conclude(line, look)
            return False
        if self._evicted is not None and self._move is not None:
            self._note_replacement(self._evicted, look)
            if excess(look.seen_as(self._line, line)) >= excess(self._line.distributions):
                then(result, Reason("came_back", f"the replacement of {self._evicted.pod} came to {self._evicted.replacement_node}"))
                self._conclude(line, look)
                return False
        return True

    def _evict(self, move: Move) -> bool:
        """Whether there is a replacement to wait for."""
        metadata, attempt = move.pod.metadata, self._attempt
        attempt.turned_down = False
        try:
            self._api.evict(metadata.namespace, metadata.name, uid=metadata.uid)
        except (NotFoundError, ConflictError) as error:  # it has gone by itself, and another may have its name by now
            attempt.vanished += 1
            self._blocked = _Blocked(move, error) if attempt.vanished > MOST_VANISHED else None
            return False
        except (ApiError, UnreachableError) as error:
            self._blocked = _Blocked(move, error)
            attempt.turned_down = isinstance(error, OverloadedError)  # after any other error it may have been made all the same
            self._pause(error)
            return False
        self._count(move)
        tell(self._api, self.result, self._workload, reason="SpreadEviction", message=f"evicted {metadata.name}: {move.reason}")
        return True

    def _count(self, move: Move) -> None:
        self._attempt.blocked_since_s, self._attempt.pause_s = None, FIRST_PAUSE_S
        self._evicted = EvictedPod(move.pod.metadata.name, move.pod.spec.node_name)
        self.result.action = EVICTED
        self.result.evicted.append(self._evicted)

    def _pause(self, error: KubeError) -> None:
        """Where the same may be asked again later, sleep as long as the server says, else twice as long as last time."""
        attempt, now_s = self._attempt, time.monotonic()
        if attempt.blocked_since_s is None:
            attempt.blocked_since_s = now_s
        if not self._options.wait or not _is_temporary(error):
            return
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        left_s = attempt.blocked_since_s + self._options.wait_timeout_s - now_s
        time.sleep(max(0.0, min(asked_s if asked_s is not None else attempt.pause_s, left_s)))
        attempt.pause_s = min(attempt.pause_s * 2, LONGEST_PAUSE_S)

    def _may_try_again(self, blocked: _Blocked, line: WorkloadReport, look: Look) -> bool:
        attempt, error, move = self._attempt, blocked.error, blocked.move
        if _is_temporary(error) and not isinstance(error, OverloadedError):
            placed = {pod.metadata.uid for pod in look.snapshot.placed_pods(line.workload)}
            if move.pod.metadata.uid not in placed:
                self._count(move)  # only the answer was lost
                return self._options.wait
        in_time = attempt.blocked_since_s is not None and time.monotonic() < attempt.blocked_since_s + self._options.wait_timeout_s
        if self._options.wait and in_time and _is_temporary(error):
            return True
        refused = isinstance(error, (BudgetError, SeveralBudgetsError))
        reason = refusal(error, move, look.snapshot) if refused else Reason("error", str(error))
        if not refused:
            self.result.verdict = FAILED
            self.result.end(FAILED_ACTION, reason)
        elif self.result.evicted:
            then(self.result, reason)
        else:
            self.result.end(REFUSED, reason)
        self._conclude(line, look)
        return False

    def _wait(self) -> None:
        if self._attempt.outcome is None:
            time.sleep(min(TAKE_OVER_AFTER_S, self._options.wait_timeout_s))  # the run that wrote last may be about to evict
        self._progress = wait_for_replacement(
            self._api,
            self._workload,
            owner=self._owner,
            gone=self._move.pod.metadata.uid if self._move is not None else "",
            timeout_s=self._options.wait_timeout_s,
            poll_s=self._options.wait_sleep_s,
        )

    def _note_replacement(self, evicted: EvictedPod, look: Look) -> None:
        for pod in look.snapshot.placed_pods(self._workload):
            if pod.metadata.uid not in self._known:
                evicted.replacement, evicted.replacement_node = pod.metadata.name, pod.spec.node_name

    def _conclude(self, line: WorkloadReport, look: Look) -> None:
        conclude(self._api, self._options, self.result, line, look, before=self._attempt.before, even=False)


def conclude(
    api: KubeApi,
    options: RestartOptions,
    result: RestartResult,
    line: WorkloadReport,
    look: Look,
    *,
    before: t.Optional[WorkloadReport],
    even: bool,
) -> None:
    """The last look at a workload: compare with the first one, and remember what came of it."""
    if options.verify_spread:
        result.after = listed_by_key(line.distributions)
        if result.verdict != FAILED:
            earlier = before.distributions if before is not None else None
            result.verdict = eviction_outcome(earlier, look.seen_as(before, line), even=even)
    if result.verdict != PENDING:
        settle(api, result, line.workload, look.snapshot, settled=even, event="SpreadEvictionOutcome")


def then(result: RestartResult, reason: Reason) -> None:
    """Some pods were evicted, and then this ended it."""
    first = result.reason or reason
    result.reason = Reason(first.code, f"{first.text}; then {reason}")


def _is_temporary(error: KubeError) -> bool:
    if isinstance(error, (SeveralBudgetsError, UntrustedError)):
        return False
    return isinstance(error, (OverloadedError, UnreachableError)) or (isinstance(error, ApiError) and error.status >= 500)


def refusal(error: KubeError, move: Move, snapshot: ClusterSnapshot) -> Reason:
    if isinstance(error, BudgetError):
        return Reason("budget", str(error))
    pod = move.pod.metadata
    budgets = snapshot.budgets_by_namespace.get(pod.namespace, ())
    names = [budget.metadata.name for budget in budgets if matches(budget.spec.selector, pod.labels)]
    named = f"PodDisruptionBudgets {' and '.join(sorted(names))} select pod {pod.name}: " if names else ""
    return Reason("several_budgets", f"{named}{error}")


def _owner_of_pods(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """The uid that controls the pods of the workload's current revision."""
    if workload.kind != "Deployment":
        return workload.metadata.uid
    replica_set = snapshot.current_replica_set(workload)
    return replica_set.metadata.uid if replica_set is not None else ""
