# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Carries restarts out: decide on a fresh snapshot, write one guarded patch, wait, look again, remember what came of it.

Every step can be interrupted. What has been done stands in the workload's own annotation, and the next run goes on from there.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..kube.api import KubeApi
from ..kube.errors import KubeError, NotFoundError
from ..kube.reading import read_snapshot
from ..kube.resources import NAMESPACES, WORKLOADS
from ..memory.outcome import FAILED, PENDING
from ..model.objects import Workload
from ..model.reasons import Reason, in_words
from ..model.snapshot import ClusterSnapshot
from ..spread.check import CheckOptions, WorkloadChecker, WorkloadReport
from ..spread.distribution import Distribution, Topology, listed_by_key
from ..spread.guard import budgets_at_stake
from ..spread.options import check_labels_exist
from ..spread.restart_plan import REFUSED, RESTART, RESUME, SKIPPED, Decision, RestartOptions, compare, decide, well_spread
from ..spread.rollout_status import DONE, WAITING, Progress, rollout_progress
from .restart_memory import NotRememberedError, remember, tell
from .restart_write import StaleJudgementError, write_restart
from .rollout_wait import wait_for_rollout

RESTARTED = "restarted"
FAILED_ACTION = "failed"

LOOKS = 3
"""How often a workload is judged anew when it has moved on before its restart could be written."""

__all__ = ["FAILED_ACTION", "REFUSED", "RESTARTED", "SKIPPED", "RestartResult", "Target", "restart_workloads"]


class Target(t.NamedTuple):
    """A workload that a restart was asked for."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class _SharedBudgetError(Exception):
    """The target has to wait until another restart of the same budget has ended."""


@dataclass
class RestartResult:
    """What happened to one target.

    ``before`` and ``after``: replicas by topology key and domain. ``missing``: it does not exist, or no longer.
    """

    target: Target
    action: str = ""
    reason: t.Optional[Reason] = None
    verdict: str = ""
    before: dict[str, dict[str, int]] = field(default_factory=dict)
    after: dict[str, dict[str, int]] = field(default_factory=dict)
    duration_s: float = 0.0
    changed: bool = False
    missing: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass
class _Run:
    """One target on its way: how it lay before (None after an interruption), and how its rollout went (None while it is under way)."""

    result: RestartResult
    workload: Workload
    before: t.Optional[WorkloadReport]
    started_s: float
    progress: t.Optional[Progress] = None


def restart_workloads(api: KubeApi, targets: Sequence[Target], options: RestartOptions) -> list[RestartResult]:
    """Restart the targets, at most ``max_parallel`` at a time, and return one result for each, in their order.

    Each batch is decided on a snapshot that is newer than the last action. Raises KubeError only where nothing can be read, and
    OptionError for a topology key that no node has.
    """
    unique = list(dict.fromkeys(targets))
    return _Restarter(api, unique, options).run()


class _Look:
    """One look at the cluster: a snapshot, and the lines of single workloads on it."""

    def __init__(self, snapshot: ClusterSnapshot, options: RestartOptions, *, predict: bool) -> None:
        self.snapshot = snapshot
        check_options = CheckOptions(
            namespace_annotation=None, topology_keys=options.topology_keys, max_skew=options.max_skew, predict=predict
        )
        self._checker = WorkloadChecker(snapshot, check_options)
        self._workloads = {
            Target(workload.kind, workload.metadata.namespace, workload.metadata.name): workload for workload in snapshot.workloads()
        }

    def line(self, target: Target) -> t.Optional[WorkloadReport]:
        """How the target lies; None where it does not exist or could not be read."""
        workload = self._workloads.get(target)
        return None if workload is None else self._checker.check(workload)


class _Restarter:
    def __init__(self, api: KubeApi, targets: Sequence[Target], options: RestartOptions) -> None:
        self._api = api
        self._options = options
        self._targets = targets
        self._namespaces = sorted({target.namespace for target in targets})
        self._results: list[RestartResult] = []
        self._at_stake: set[tuple[str, str]] = set()
        self._now: _Look

    def run(self) -> list[RestartResult]:
        self._now = self._look()
        check_labels_exist(self._options.topology_keys, self._now.snapshot.nodes.values())
        waiting = list(self._targets)
        while waiting:
            batch, waiting = self._begin_batch(waiting)
            self._wait(batch)
            try:
                self._look_again(batch, last=not waiting)
            except KubeError as error:
                self._break_off(batch, waiting, error)
                break
        order = {target: number for number, target in enumerate(self._targets)}
        return sorted(self._results, key=lambda result: order[result.target])

    def _begin_batch(self, waiting: Sequence[Target]) -> tuple[list[_Run], list[Target]]:
        """Begin up to ``max_parallel`` restarts; what shares a budget with one of them waits for the next batch."""
        batch: list[_Run] = []
        put_off: list[Target] = []
        if self._options.wait:
            self._at_stake.clear()  # what was begun before has ended
        for number, target in enumerate(waiting):
            if sum(run.progress is None for run in batch) == self._options.max_parallel:
                return batch, [*put_off, *waiting[number:]]
            try:
                run = self._begin(target)
            except _SharedBudgetError:
                put_off.append(target)
            else:
                batch += [run] if run is not None else []
        return batch, put_off

    def _look_again(self, batch: Sequence[_Run], *, last: bool) -> None:
        """See what came of the batch; the next one is decided on what is seen now."""
        ended = [run.progress.state for run in batch if run.progress is not None]
        to_finish = any(state != DONE or self._options.verify_spread for state in ended)
        if not batch or (last and not to_finish):
            return
        # After the last restart no room on nodes is needed any more, only where the replicas of these namespaces are.
        self._now = self._look(pods_everywhere=not last)
        for run in batch:
            self._finish(run)

    def _look(self, *, pods_everywhere: bool = True) -> _Look:
        snapshot = read_snapshot(self._api, namespaces=self._namespaces, pods_everywhere=pods_everywhere)
        return _Look(snapshot, self._options, predict=pods_everywhere and self._options.only_if_helps)

    def _break_off(self, batch: Sequence[_Run], waiting: Sequence[Target], error: KubeError) -> None:
        """The cluster can no longer be read: what has been restarted stays pending, the rest is not begun."""
        for run in batch:
            _end(run.result, FAILED_ACTION, Reason("lost", str(error)))
        self._results += [RestartResult(target, FAILED_ACTION, Reason("not_begun", str(error))) for target in waiting]

    # --- decide and act -----------------------------------------------------------------------------------------------

    def _begin(self, target: Target) -> t.Optional[_Run]:
        """Decide and, if so decided, write the restart; None where there is nothing to wait for."""
        result = RestartResult(target)
        started_s = time.monotonic()
        try:
            run = self._act_on_fresh_judgement(target, result, started_s)
        except NotFoundError as error:
            run = _missing(result, SKIPPED, Reason("vanished", str(error)))
        except KubeError as error:
            run = _end(result, FAILED_ACTION, Reason("error", str(error)))
        result.duration_s = time.monotonic() - started_s
        self._results.append(result)
        return run

    def _act_on_fresh_judgement(self, target: Target, result: RestartResult, started_s: float) -> t.Optional[_Run]:
        for _attempt in range(LOOKS):
            try:
                return self._act(target, result, started_s)
            except StaleJudgementError:
                self._now = self._look()
        return _end(result, SKIPPED, Reason("changed_meanwhile", f"{target} keeps changing; run again when it has settled"))

    def _act(self, target: Target, result: RestartResult, started_s: float) -> t.Optional[_Run]:
        line = self._now.line(target)
        if line is None:
            return self._absent(target, result)
        result.before = listed_by_key(line.distributions)
        decision = decide(line, self._now.snapshot, self._options, now_s=self._api.now_s())
        if decision.action == RESUME:
            return self._resume(line, decision, result, started_s)
        if decision.action != RESTART:
            return _end(result, decision.action, decision.reason)
        at_stake = set() if self._options.allow_downtime else budgets_at_stake(line.workload, self._now.snapshot)
        if at_stake & self._at_stake:
            return self._put_off(target, result)
        patched = write_restart(self._api, line.workload, decision, self._now.snapshot, self._options)
        if patched is None:
            text = f"{target} was changed while its restart was being decided; run again"
            return _end(result, SKIPPED, Reason("changed_meanwhile", text))
        result.action, result.reason, result.verdict, result.changed = RESTARTED, decision.reason, PENDING, True
        if self._options.dry_run:
            return None
        self._at_stake |= at_stake
        self._tell(result, patched, "SpreadRestart", f"restarted: {decision.reason}")
        return _Run(result, patched, line, started_s)

    def _put_off(self, target: Target, result: RestartResult) -> t.Optional[_Run]:
        """Another workload of the same budget is being restarted: two losses at a time were never asked of the budget."""
        if self._options.wait:
            raise _SharedBudgetError
        text = f"a restart that shares a PodDisruptionBudget with {target} was just begun; run again"
        return _end(result, REFUSED, Reason("budget", text))

    def _absent(self, target: Target, result: RestartResult) -> t.Optional[_Run]:
        """Not in the snapshot: either it is gone, or its namespace or kind may not be read."""
        wanted = (NAMESPACES.plural, WORKLOADS[target.kind].plural)
        for entry in self._now.snapshot.skipped:
            if entry.resource in wanted and entry.namespace in ("", target.namespace):
                return _end(result, FAILED_ACTION, Reason("unreadable", entry.reason))
        return _missing(result, SKIPPED, Reason("vanished", f"there is no {target}"))

    def _resume(self, line: WorkloadReport, decision: Decision, result: RestartResult, started_s: float) -> t.Optional[_Run]:
        """An earlier run was interrupted, or did not wait: do not restart again, only take the second look."""
        result.action, result.reason, result.verdict = SKIPPED, decision.reason, PENDING
        result.before = {}
        progress = rollout_progress(line.workload)
        under_way = progress.state == WAITING
        if self._options.dry_run or (under_way and not self._options.wait):
            return None
        return _Run(result, line.workload, None, started_s, None if under_way else progress)

    # --- wait and look again ------------------------------------------------------------------------------------------

    def _wait(self, batch: Sequence[_Run]) -> None:
        under_way = [run for run in batch if run.progress is None]
        if not under_way or not self._options.wait:
            return
        with ThreadPoolExecutor(max_workers=len(under_way)) as pool:
            for _done in pool.map(self._wait_for_one, under_way):
                pass

    def _wait_for_one(self, run: _Run) -> None:
        try:
            run.workload, run.progress = wait_for_rollout(
                self._api, run.workload, timeout_s=self._options.wait_timeout_s, poll_s=self._options.wait_sleep_s
            )
        except KubeError as error:
            run.result.action, run.result.reason = FAILED_ACTION, Reason("lost", str(error))
        run.result.duration_s = time.monotonic() - run.started_s

    def _finish(self, run: _Run) -> None:
        result = run.result
        if run.progress is None:
            return
        if run.progress.state != DONE:
            waited = f" after {self._options.wait_timeout_s} s" if run.progress.state == WAITING else ""
            result.action, result.verdict = FAILED_ACTION, FAILED
            result.reason = Reason(f"rollout_not_finished{waited}", run.progress.text)
        line = self._now.line(result.target)
        if line is None:
            _missing(result, FAILED_ACTION, Reason("vanished", f"{result.target} was deleted during its rollout"))
            return
        if self._options.verify_spread:
            result.after = listed_by_key(line.distributions)
            if run.progress.state == DONE:
                result.verdict = compare(
                    run.before.distributions if run.before else None, self._seen_as_before(run, line), max_skew=self._options.max_skew
                )
        if result.verdict != PENDING:
            self._remember(run, settled=well_spread(line.distributions, max_skew=self._options.max_skew))

    def _seen_as_before(self, run: _Run, line: WorkloadReport) -> Sequence[Distribution]:
        """The replicas of now over the nodes that were eligible before: a node that closed meanwhile makes nothing better."""
        if run.before is None:
            return line.distributions
        snapshot = self._now.snapshot
        eligible = tuple(name for name in run.before.eligible if name in snapshot.nodes)
        homes = [pod.spec.node_name for pod in snapshot.placed_pods(line.workload)]
        return Topology(snapshot.nodes).distribute_over(self._options.topology_keys, homes, eligible)

    def _remember(self, run: _Run, *, settled: bool) -> None:
        result = run.result
        try:
            live = remember(self._api, run.workload, result.verdict, self._now.snapshot, settled=settled)
        except NotRememberedError as error:
            result.warnings.append(str(error))
            return
        result.changed = True
        self._tell(result, live, "SpreadRestartOutcome", f"{result.verdict}: {_in_words(result)}")

    def _tell(self, result: RestartResult, workload: Workload, reason: str, message: str) -> None:
        warning = tell(self._api, workload, reason=reason, message=message, warning=result.action == FAILED_ACTION)
        if warning:
            result.warnings.append(warning)


def _in_words(result: RestartResult) -> str:
    if result.action == FAILED_ACTION:
        return in_words(result.reason)
    return "; ".join(
        f"{key}: " + ", ".join(f"{domain}={count}" for domain, count in domains.items()) for key, domains in result.after.items()
    )


def _end(result: RestartResult, action: str, reason: Reason) -> t.Optional[_Run]:
    """Close a result; None, because there is nothing to wait for."""
    result.action, result.reason = action, reason
    return None


def _missing(result: RestartResult, action: str, reason: Reason) -> t.Optional[_Run]:
    """Close a result of something that does not exist."""
    result.missing = True
    return _end(result, action, reason)
