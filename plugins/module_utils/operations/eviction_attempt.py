# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The evictions of one workload in one run: what was done, what stands in the way, and what is remembered at their end."""

from __future__ import annotations

import typing as t

from ..kube.client.api import KubeApi
from ..kube.client.errors import ApiError, BudgetError, KubeError, MultipleBudgetsError, is_admission_denial
from ..model.reason import Reason
from ..model.selectors.label_selector import matches
from ..model.snapshot import ClusterSnapshot
from ..spread.check import WorkloadReport
from ..spread.distribution import listed_by_key
from ..spread.eviction_plan import eviction_outcome
from ..spread.restart_plan import RestartOptions
from ..spread.surplus import Move
from ..state.restart_outcome import FAILED, PENDING, Outcome, read_outcome
from .look import Look
from .restart_memory import settle, take_back
from .restart_result import EVICTED, FAILED_ACTION, REFUSED, EvictedPod, RestartResult


class Evicted(t.NamedTuple):
    """An eviction whose replacement is still to be seen: how the workload lay before it, and the uids of the pods that it had."""

    pod: EvictedPod
    uid: str
    before: WorkloadReport
    known: t.AbstractSet[str]


class Attempt:
    """The evictions of one workload in this run.

    ``before``: how it lay before the first one; None where an earlier run began. ``outcome``: what this run has remembered; None as long as
    it has evicted nothing itself. ``evicted``: the eviction whose replacement is awaited. ``turned_down``: the server surely did not make
    the last one. ``closed``: the error for which the next one has to wait.
    """

    def __init__(self, api: KubeApi, options: RestartOptions, result: RestartResult, before: t.Optional[WorkloadReport]) -> None:
        self.result = result
        self.before = before
        self.outcome: t.Optional[Outcome] = None
        self.evicted: t.Optional[Evicted] = None
        self.turned_down = False
        self.closed: t.Optional[KubeError] = None
        self.vanished = 0
        self._api = api
        self._options = options

    def note_eviction(self, move: Move, line: WorkloadReport, look: Look) -> None:
        """The pod of the move goes."""
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

    def fail(self, reason: Reason, line: WorkloadReport, look: Look) -> None:
        """The server cannot evict a pod. Where none was evicted, nothing stays written; otherwise see what came of those that were."""
        self.result.end(FAILED_ACTION, reason)
        if self.result.evicted:
            self.result.verdict = FAILED
            self.conclude(line, look)
        elif self.outcome is not None:
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


def end_turned_down(attempt: Attempt, error: KubeError, move: Move, line: WorkloadReport, look: Look) -> None:
    """End the attempt with an error that shows that the server did nothing: a refusal, or trouble of the server."""
    if isinstance(error, ApiError) and is_admission_denial(error):
        attempt.refuse(denial(error, move), line, look)
    elif isinstance(error, (BudgetError, MultipleBudgetsError)):
        attempt.refuse(budget_refusal(error, move, look.snapshot), line, look)
    else:
        attempt.fail(Reason("error", str(error)), line, look)


def denial(error: ApiError, move: Move) -> Reason:
    """Why the pod may not go, in the words of the webhook or policy that denies it."""
    pod = move.pod.metadata
    said = str(error).partition(f"an eviction of Pod {pod.namespace}/{pod.name}: ")[2] or str(error)
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
