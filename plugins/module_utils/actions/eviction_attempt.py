# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The evictions of one workload in one run: what was done, what stands in the way, and what is remembered at their end."""

from __future__ import annotations

import time
import typing as t

from ..kube.api import KubeApi
from ..kube.errors import ApiError, BudgetError, KubeError
from ..memory.outcome import FAILED, PENDING, Outcome, read_outcome
from ..model.reasons import Reason
from ..model.selectors import matches
from ..model.snapshot import ClusterSnapshot
from ..spread.check import WorkloadReport
from ..spread.distribution import listed_by_key
from ..spread.eviction_plan import eviction_outcome
from ..spread.restart_plan import RestartOptions
from ..spread.surplus import Move
from .look import Look
from .restart_memory import settle, take_back
from .restart_result import EVICTED, REFUSED, EvictedPod, RestartResult

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0


class Evicted(t.NamedTuple):
    """An eviction whose replacement is still to be seen: how the workload lay before it, and the uids of the pods that it had."""

    pod: EvictedPod
    uid: str
    before: WorkloadReport
    known: t.AbstractSet[str]


class Attempt:
    """The evictions of one workload in this run.

    ``before``: how it lay before the first one; None where an earlier run began. ``outcome``: what this run has remembered; None as long as
    it has evicted nothing itself. ``evicted``: the eviction whose replacement is awaited. ``turned_down``: the server surely did not grant
    the last one, ``closed``: because of a budget that lets no pod go now.
    """

    def __init__(self, api: KubeApi, options: RestartOptions, result: RestartResult, before: t.Optional[WorkloadReport]) -> None:
        self.result = result
        self.before = before
        self.outcome: t.Optional[Outcome] = None
        self.evicted: t.Optional[Evicted] = None
        self.turned_down = False
        self.closed = False
        self.vanished = 0
        self._api = api
        self._options = options
        self._blocked_since_s: t.Optional[float] = None
        self._pause_s = FIRST_PAUSE_S

    def note_eviction(self, move: Move, line: WorkloadReport, look: Look) -> None:
        """The pod of the move goes."""
        self._blocked_since_s, self._pause_s = None, FIRST_PAUSE_S
        self.turned_down = False
        known = {pod.metadata.uid for pod in look.snapshot.owned_pods(line.workload)}
        evicted = EvictedPod(move.pod.metadata.name, move.pod.spec.node_name)
        self.evicted = Evicted(evicted, move.pod.metadata.uid, line, known)
        self.result.action = EVICTED
        self.result.evicted.append(evicted)

    def note_replacement(self, evicted: Evicted, line: WorkloadReport, look: Look) -> None:
        """What came in the place of the evicted pod."""
        self.evicted = None
        for pod in look.snapshot.placed_pods(line.workload):
            if pod.metadata.uid not in evicted.known:
                evicted.pod.replacement, evicted.pod.replacement_node = pod.metadata.name, pod.spec.node_name

    def pause(self, asked_s: t.Optional[float], timeout_s: float) -> None:
        """Sleep ``asked_s`` seconds, or twice as long as last time, but not beyond ``timeout_s`` after the first refusal."""
        now_s = time.monotonic()
        if self._blocked_since_s is None:
            self._blocked_since_s = now_s
        left_s = self._blocked_since_s + timeout_s - now_s
        time.sleep(max(0.0, min(asked_s if asked_s is not None else self._pause_s, left_s)))
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def may_ask_again(self, timeout_s: float) -> bool:
        """``timeout_s`` has not passed since the first refusal in a row."""
        return self._blocked_since_s is not None and time.monotonic() < self._blocked_since_s + timeout_s

    def take_back(self) -> None:
        """Nothing was done, and will not be by trying again: the attempt does not count."""
        self.result.verdict = ""
        if self.before is not None and self.outcome is not None:
            take_back(self._api, self.result, self.before.workload, self.outcome)

    def refuse(self, reason: Reason, line: WorkloadReport, look: Look) -> None:
        """No pod may be evicted. Where none was, nothing stays written; otherwise see what came of those that were."""
        if self.result.evicted or self.outcome is None:
            self.result.stop(REFUSED, reason)
            if self.outcome is not None:
                self.conclude(line, look)
            return
        self.result.end(REFUSED, reason)
        self.take_back()

    def conclude(self, line: WorkloadReport, look: Look, *, even: bool = False) -> None:
        """The last look at the workload: compare with the first one, and remember what came of it; ``even``: nothing is left to do."""
        result = self.result
        if self._options.verify_spread:
            result.after = listed_by_key(line.distributions)
        if result.verdict != FAILED and (self._options.verify_spread or even):
            earlier = self.before.distributions if self.before is not None else None
            result.verdict = eviction_outcome(earlier, look.seen_as(self.before, line), even=even)
        if result.verdict != PENDING:
            # What this run wrote last, or else what it found: anything newer is another run's, which still needs it.
            pending = self.outcome or read_outcome(line.workload.metadata.annotations)
            # Where this run began and no pod went, nothing was tried that could have helped: then the attempt does not count.
            counted = bool(result.evicted) or self.before is None
            settle(self._api, result, line.workload, pending, look.snapshot, settled=even, counted=counted, event="SpreadEvictionOutcome")


def denial(error: ApiError, move: Move) -> Reason:
    """Why the pod may not go, in the words of the webhook or policy that denies it."""
    pod = move.pod.metadata
    said = str(error).partition(f"pods/eviction {pod.namespace}/{pod.name}: ")[2] or str(error)
    return Reason("denied", f"the eviction of pod {pod.namespace}/{pod.name} is not admitted: {said}")


def budget_refusal(error: KubeError, move: Move, snapshot: ClusterSnapshot) -> Reason:
    """Why the pod may not go, with the names of the budgets where the server does not give them."""
    pod = move.pod.metadata
    if isinstance(error, BudgetError):
        said = "; ".join(cause.message for cause in error.causes) or str(error)
        return Reason("budget", f"pod {pod.namespace}/{pod.name} may not be evicted now: {said}")
    budgets = snapshot.budgets_by_namespace.get(pod.namespace, ())
    names = [budget.metadata.name for budget in budgets if matches(budget.spec.selector, pod.labels)]
    named = f"PodDisruptionBudgets {' and '.join(sorted(names))} select pod {pod.name}: " if names else ""
    return Reason("several_budgets", f"{named}{error}")
