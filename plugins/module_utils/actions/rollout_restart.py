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
from ..kube.errors import ConflictError, KubeError, NotFoundError
from ..kube.events import workload_event
from ..kube.reading import read_snapshot
from ..kube.resources import WORKLOADS
from ..memory.outcome import FAILED, IMPROVED, OUTCOME_ANNOTATION, PENDING, make_outcome, read_outcome
from ..memory.timestamps import format_time
from ..model.objects import Workload
from ..model.snapshot import ClusterSnapshot
from ..model.wire import Raw, Struct, decode_json, encode_json, force_setattr
from ..spread.check import CheckOptions, WorkloadChecker, WorkloadReport
from ..spread.distribution import Distribution
from ..spread.remembered import RESTARTED_AT, made_current_revision
from ..spread.restart_plan import (
    RESTART,
    RESUME,
    Decision,
    RestartOptions,
    compare,
    decide,
    outcome_patch,
    restart_patch,
)
from ..spread.rollout_status import DONE, WAITING, Progress
from .rollout_wait import read_workload, wait_for_rollout

CONFLICT_RETRIES = 5

RESTARTED = "restarted"
SKIPPED = "skipped"
REFUSED = "refused"
FAILED_ACTION = "failed"


class Target(t.NamedTuple):
    """A workload that a restart was asked for."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass
class RestartResult:
    """What happened to one target. ``before`` and ``after``: replicas by topology key and domain; ``duration_s`` in seconds."""

    target: Target
    action: str = ""
    reason: str = ""
    verdict: str = ""
    before: dict[str, dict[str, int]] = field(default_factory=dict)
    after: dict[str, dict[str, int]] = field(default_factory=dict)
    duration_s: float = 0.0
    changed: bool = False
    warnings: list[str] = field(default_factory=list)


class _TemplateSpec(Struct, frozen=True):
    template: Raw


class _WholeTemplate(Struct, frozen=True):
    spec: _TemplateSpec


@dataclass
class _Run:
    """One target on its way: what it looked like before (None after an interruption), and how its rollout went."""

    result: RestartResult
    workload: Workload
    before: t.Optional[tuple[Distribution, ...]]
    started_s: float
    progress: t.Optional[Progress] = None


def restart_workloads(api: KubeApi, targets: Sequence[Target], options: RestartOptions) -> list[RestartResult]:
    """Restart the targets, at most ``max_parallel`` at a time, and return one result for each, in their order.

    Each batch is decided on a snapshot that is newer than the last action. Raises KubeError only where nothing can be read.
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

    def run(self) -> list[RestartResult]:
        look = self._look()
        waiting = list(self._targets)
        while waiting:
            batch: list[_Run] = []
            while waiting and len(batch) < self._options.max_parallel:
                run = self._begin(waiting.pop(0), look)
                if run is not None:
                    batch.append(run)
            self._wait(batch)
            try:
                # The last look needs no room on nodes, only where the replicas of these namespaces are.
                look = self._look(pods_everywhere=bool(waiting)) if batch else look
            except KubeError as error:
                self._break_off(batch, waiting, error)
                break
            for run in batch:
                self._finish(run, look)
        return self._results

    def _look(self, *, pods_everywhere: bool = True) -> _Look:
        snapshot = read_snapshot(self._api, namespaces=self._namespaces, pods_everywhere=pods_everywhere)
        return _Look(snapshot, self._options, predict=pods_everywhere and self._options.only_if_helps)

    def _break_off(self, batch: Sequence[_Run], waiting: Sequence[Target], error: KubeError) -> None:
        """The cluster can no longer be read: what has been restarted stays pending, the rest is not begun."""
        for run in batch:
            _end(run.result, FAILED_ACTION, f"lost: {error}")
        self._results += [RestartResult(target, FAILED_ACTION, f"not_begun: {error}") for target in waiting]

    # --- decide and act -----------------------------------------------------------------------------------------------

    def _begin(self, target: Target, look: _Look) -> t.Optional[_Run]:
        """Decide and, if so decided, write the restart; None where there is nothing to wait for."""
        result = RestartResult(target)
        self._results.append(result)
        started_s = time.monotonic()
        try:
            run = self._act(target, look, result, started_s)
        except NotFoundError as error:
            return _end(result, SKIPPED, f"vanished: {error}")
        except KubeError as error:
            return _end(result, FAILED_ACTION, f"error: {error}")
        finally:
            result.duration_s = time.monotonic() - started_s
        return run

    def _act(self, target: Target, look: _Look, result: RestartResult, started_s: float) -> t.Optional[_Run]:
        line, snapshot = look.line(target), look.snapshot
        if line is None:
            unreadable = next((s.reason for s in snapshot.skipped if s.namespace in ("", target.namespace)), None)
            if unreadable is not None:
                return _end(result, FAILED_ACTION, f"unreadable: {unreadable}")
            return _end(result, SKIPPED, f"vanished: there is no {target}")
        result.before = _domains(line.distributions)
        decision = decide(line, snapshot, self._options, now_s=self._api.now_s())
        if decision.action == RESUME:
            return self._resume(line, decision, result, started_s)
        if decision.action != RESTART:
            return _end(result, decision.action, decision.reason)
        patched = self._write_restart(line.workload, decision)
        if patched is None:
            return _end(result, SKIPPED, f"changed_meanwhile: {target} was changed while its restart was being decided; run again")
        result.action, result.reason, result.verdict, result.changed = RESTARTED, decision.reason, PENDING, True
        if self._options.dry_run:
            return None
        self._tell(result, patched, "SpreadRestart", f"restarted: {decision.reason}")
        return _Run(result, patched, line.distributions, started_s) if self._options.wait else None

    def _resume(self, line: WorkloadReport, decision: Decision, result: RestartResult, started_s: float) -> t.Optional[_Run]:
        """An earlier run was interrupted, or did not wait: do not restart again, only take the second look."""
        result.action, result.reason, result.verdict = SKIPPED, decision.reason, PENDING
        result.before = {}
        if self._options.dry_run or not self._options.wait:
            return None
        return _Run(result, line.workload, None, started_s)

    def _write_restart(self, judged: Workload, decision: Decision) -> t.Optional[Workload]:
        """The patched workload, or None where somebody changed it since it was judged.

        Status and autoscaler writes move the resource version without changing anything that was judged: after such a conflict
        the workload is read again and the patch repeated.
        """
        metadata, resource = judged.metadata, WORKLOADS[judged.kind]
        live, template = self._read_live(judged)
        if live.metadata.generation != metadata.generation or not _same_judgement(judged, live):
            return None
        outcome = make_outcome(
            now_s=self._restart_time(live),
            attempts=decision.attempts,
            verdict=PENDING,
            revision=decision.revision,
            eligible=decision.eligible,
        )
        for _attempt in range(CONFLICT_RETRIES):
            patch = restart_patch(live, outcome, OUTCOME_ANNOTATION)
            try:
                patched: Workload = self._api.merge_patch(resource, metadata.namespace, metadata.name, patch, dry_run=self._options.dry_run)
            except ConflictError:
                live, template_now = self._read_live(judged)
            else:
                force_setattr(patched, "kind", judged.kind)
                return patched
            if read_outcome(live.metadata.annotations) == outcome and made_current_revision(live, outcome):
                return live  # the patch had got through, only its answer was lost
            if template_now != template or not _same_judgement(judged, live):
                return None
        return None

    def _restart_time(self, live: Workload) -> float:
        now_s = self._api.now_s()
        last = (live.spec.template.metadata.annotations or {}).get(RESTARTED_AT)
        return now_s + 1 if last == format_time(now_s) else now_s  # the same text again would start no rollout

    def _read_live(self, workload: Workload) -> tuple[Workload, bytes]:
        """The workload as it is now, and its whole template as the server writes it (the struct holds only a part)."""
        data = self._api.get_bytes(WORKLOADS[workload.kind], workload.metadata.namespace, workload.metadata.name)
        live = decode_json(Workload, data)
        force_setattr(live, "kind", workload.kind)
        return live, bytes(decode_json(_WholeTemplate, data).spec.template)

    # --- wait and look again ------------------------------------------------------------------------------------------

    def _wait(self, batch: Sequence[_Run]) -> None:
        if not batch:
            return
        with ThreadPoolExecutor(max_workers=len(batch)) as pool:
            for _done in pool.map(self._wait_for_one, batch):
                pass

    def _wait_for_one(self, run: _Run) -> None:
        try:
            run.workload, run.progress = wait_for_rollout(
                self._api, run.workload, timeout_s=self._options.wait_timeout_s, poll_s=self._options.wait_sleep_s
            )
        except KubeError as error:
            run.result.action, run.result.reason = FAILED_ACTION, f"lost: {error}"
        run.result.duration_s = time.monotonic() - run.started_s

    def _finish(self, run: _Run, look: _Look) -> None:
        result = run.result
        if run.progress is None:
            return
        if run.progress.state != DONE:
            waited = f" after {self._options.wait_timeout_s} s" if run.progress.state == WAITING else ""
            result.action, result.verdict = FAILED_ACTION, FAILED
            result.reason = f"rollout_not_finished{waited}: {run.progress.text}"
        line = look.line(result.target)
        if line is None:
            _end(result, FAILED_ACTION, f"vanished: {result.target} was deleted during its rollout")
            return
        result.after = _domains(line.distributions)
        if run.progress.state == DONE and self._options.verify_spread:
            result.verdict = compare(run.before, line.distributions, max_skew=self._options.max_skew)
        if result.verdict != PENDING:
            self._remember(run, look.snapshot)

    def _remember(self, run: _Run, snapshot: ClusterSnapshot) -> None:
        """Replace the pending verdict; what cannot be written stays pending and is settled by the next run."""
        result, metadata = run.result, run.workload.metadata
        try:
            for _attempt in range(CONFLICT_RETRIES):
                live = read_workload(self._api, run.workload.kind, metadata.namespace, metadata.name)
                pending = read_outcome(live.metadata.annotations)
                if pending is None or not made_current_revision(live, pending):
                    result.warnings.append(f"{result.target} was changed by someone else during its rollout: the outcome is not kept")
                    return
                outcome = make_outcome(
                    now_s=self._api.now_s(),
                    attempts=0 if result.verdict == IMPROVED else pending.attempts,
                    verdict=result.verdict,
                    revision=snapshot.revision(live),
                    eligible=pending.eligible,
                )
                try:
                    patch = outcome_patch(live, outcome, OUTCOME_ANNOTATION)
                    self._api.merge_patch(WORKLOADS[run.workload.kind], metadata.namespace, metadata.name, patch)
                except ConflictError:
                    continue
                result.changed = True
                self._tell(result, live, "SpreadRestartOutcome", f"{result.verdict}: {_in_words(result)}")
                return
            result.warnings.append(f"{result.target} kept changing: the outcome stays pending until the next run")
        except KubeError as error:
            result.warnings.append(f"the outcome of {result.target} stays pending until the next run: {error}")

    def _tell(self, result: RestartResult, workload: Workload, reason: str, message: str) -> None:
        event = workload_event(
            workload,
            reason=reason,
            message=message,
            time=format_time(self._api.now_s()),
            warning=result.action == FAILED_ACTION,
        )
        try:
            self._api.create_event(workload.metadata.namespace, event)
        except KubeError as error:
            result.warnings.append(f"no event was written: {error}")


def _same_judgement(judged: Workload, live: Workload) -> bool:
    """What the decision rests on is as it was: the same object, template, replicas and strategy, and nothing begun since."""
    same_spec = encode_json(judged.spec) == encode_json(live.spec)
    return same_spec and judged.metadata.uid == live.metadata.uid and live.metadata.deletion_timestamp is None


def _domains(distributions: Sequence[Distribution]) -> dict[str, dict[str, int]]:
    return {distribution.topology_key: distribution.listed for distribution in distributions}


def _in_words(result: RestartResult) -> str:
    if result.action == FAILED_ACTION:
        return result.reason
    return "; ".join(
        f"{key}: " + ", ".join(f"{domain}={count}" for domain, count in domains.items()) for key, domains in result.after.items()
    )


def _end(result: RestartResult, action: str, reason: str) -> t.Optional[_Run]:
    """Close a result; None, because there is nothing to wait for."""
    result.action, result.reason = action, reason
    return None
