# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The steps of the eviction way, one for each answer of the server: wait for a replacement, ask again later, see that the pod had gone."""

from __future__ import annotations

import time
import typing as t

from ..kube.client.api import KubeApi
from ..kube.client.errors import KubeError, MultipleBudgetsError, is_transient, was_not_applied
from ..model.api.workload import Workload
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from ..spread.check import WorkloadReport
from ..spread.eviction_plan import TAKE_OVER_AFTER_S
from ..spread.restart_plan import RestartOptions
from ..spread.rollout_status import DONE, Progress
from ..spread.surplus import Move, excess
from ..spread.unhealthy import why_unfinished
from ..state.restart_outcome import FAILED
from .budget_wait import BudgetWait
from .eviction_attempt import Attempt, end_turned_down
from .look import Look
from .replacement_wait import wait_for_replacement
from .restart_result import FAILED_ACTION, REFUSED, SKIPPED

ENOUGH_TIME = "wait_timeout has to cover the end of the old pod (its grace period) and the start of the new one; the next run goes on"
MOST_VANISHED = 5
"""Pods that may go by themselves, just before they are evicted, until the workload counts as too restless."""


class _Step:
    """What the steps have in common: a workload of which a pod was to be evicted."""

    under_way = False

    def __init__(self, api: KubeApi, options: RestartOptions, attempt: Attempt) -> None:
        self.result = attempt.result
        self.may_go_on = options.wait
        self._api = api
        self._options = options
        self._attempt = attempt

    @property
    def to_look_at(self) -> bool:
        return True

    @property
    def has_ended(self) -> bool:
        return True

    def assume(self, look: Look) -> None:
        """The pod that goes is seen at once, and what comes in its place soon after."""

    def wait(self) -> None:
        """Nothing to wait for."""

    def finish(self, look: Look) -> bool:
        """See what came of it; every further step is decided on this look."""
        line = look.line(self.result.target)
        if line is not None:
            return self._finish(line, look)
        undecodable = look.undecodable(self.result.target)
        if undecodable is not None:
            self.result.end(FAILED_ACTION, undecodable)
        else:
            self.result.vanish(FAILED_ACTION, Reason("vanished", f"{self.result.target} was deleted during its evictions"))
        return False

    def _finish(self, line: WorkloadReport, look: Look) -> bool:
        raise NotImplementedError


class Replacement(_Step):
    """The wait for the replacement of an evicted pod, be it of this run or of an earlier one."""

    def __init__(
        self, api: KubeApi, options: RestartOptions, attempt: Attempt, workload: Workload, look: Look, template: t.Optional[bytes] = None
    ) -> None:
        super().__init__(api, options, attempt)
        self.under_way = True
        self._workload = workload
        self._template = template
        self._owner = _owner_of_pods(workload, look.snapshot)
        self._progress: t.Optional[Progress] = None
        self._lost = False

    @property
    def to_look_at(self) -> bool:
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
            self.under_way = False
            self.result.take_time()

    def _wait(self) -> None:
        if self._attempt.outcome is None:
            time.sleep(min(TAKE_OVER_AFTER_S, self._options.wait_timeout_s))  # the run that wrote last may be about to evict
        evicted = self._attempt.evicted
        self._progress = wait_for_replacement(
            self._api,
            self._workload,
            owner=self._owner,
            gone=evicted.uid if evicted is not None else "",
            template=self._template,
            timeout_s=self._options.wait_timeout_s,
            poll_s=self._options.wait_sleep_s,
        )

    def _finish(self, line: WorkloadReport, look: Look) -> bool:
        attempt, progress = self._attempt, self._progress
        if self._lost or progress is None:
            return False
        if progress.state != DONE:
            cause = why_unfinished(line.workload, look.snapshot)
            self.result.fail_unfinished(
                "replacement_not_ready", progress, timeout_s=self._options.wait_timeout_s, cause=cause, advice=ENOUGH_TIME
            )
            attempt.conclude(line, look)
            return False
        evicted = attempt.evicted
        if evicted is None:
            return True
        attempt.note_replacement(evicted, line, look)
        # With another number of replicas than before it cannot be told what the eviction made of them.
        same = line.placed == evicted.before.placed
        if same and excess(look.seen_as(evicted.before, line)) >= excess(evicted.before.distributions):
            home = evicted.pod.replacement_node
            self.result.stop(REFUSED, Reason("came_back", f"the replacement of {evicted.pod.pod} came to {home}"))
            attempt.conclude(line, look)
            return False
        return True


class TurnedDown(_Step):
    """An eviction that the server did not make, or did not say that it made."""

    def __init__(
        self,
        api: KubeApi,
        options: RestartOptions,
        attempt: Attempt,
        move: Move,
        before: WorkloadReport,
        error: KubeError,
        budget_wait: BudgetWait,
    ) -> None:
        super().__init__(api, options, attempt)
        self._budget_wait = budget_wait
        self._move = move
        self._before = before
        self._error = error
        attempt.turned_down = was_not_applied(error)  # otherwise it may have been made all the same

    def _finish(self, line: WorkloadReport, look: Look) -> bool:
        attempt, error, move = self._attempt, self._error, self._move
        if not attempt.turned_down:
            placed = {pod.metadata.uid for pod in look.snapshot.placed_pods(line.workload)}
            if move.pod.metadata.uid not in placed:
                attempt.note_eviction(move, self._before, look)  # only the answer was lost
                return self._options.wait
        if is_transient(error) and not self._budget_wait.over:
            attempt.closed = error
            return True
        if attempt.turned_down or isinstance(error, MultipleBudgetsError):
            end_turned_down(attempt, error, move, line, look)
            return False
        self.result.verdict = FAILED
        self.result.end(FAILED_ACTION, Reason("error", str(error)))
        attempt.conclude(line, look)
        return False


class Vanished(_Step):
    """The pod was gone when it was to be evicted, and another may have its name by now; or its budget was being written or deleted."""

    def __init__(self, api: KubeApi, options: RestartOptions, attempt: Attempt, error: KubeError) -> None:
        super().__init__(api, options, attempt)
        self._error = error
        attempt.vanished += 1
        attempt.turned_down = False

    def _finish(self, line: WorkloadReport, look: Look) -> bool:
        if self._attempt.vanished > MOST_VANISHED:
            self.result.verdict = FAILED
            self.result.end(FAILED_ACTION, Reason("error", str(self._error)))
        elif self._options.wait:
            return True
        else:
            text = f"the pod of {self.result.target} was gone before it was evicted, or its budget was being changed; run again"
            self.result.end(SKIPPED, Reason("changed_meanwhile", text))
        self._attempt.conclude(line, look)
        return False


def _owner_of_pods(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """The uid that controls the pods of the workload's current revision."""
    if workload.kind != "Deployment":
        return workload.metadata.uid
    replica_set = snapshot.current_replica_set(workload)
    return replica_set.metadata.uid if replica_set is not None else ""
