# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Restarts and evictions for many workloads, batch by batch: decide on a new snapshot, act, wait, observe again, record the result.

A run that does not wait has nothing to observe between two targets. It uses one snapshot while that is recent enough, with the effects of
its own actions assumed. The strategies in rollout.py and eviction.py execute the moves. Every step can be interrupted. The workload's own
annotation has the state of the work, and the next run continues from it. That also holds for a run that its caller stops.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Sequence
from dataclasses import replace

from ...kube.client.api import KubeApi
from ...kube.client.errors import DryRunUnsupportedError, KubeError, NotFoundError
from ...kube.client.resources import NAMESPACES, WORKLOADS
from ...model.reason import Reason
from ...model.undecodable import Undecodable
from ...spread.options import check_labels_exist
from ...spread.restart.actions import FAILED_ACTION, REFUSED, SKIPPED
from ...spread.restart.options import EVICT_SURPLUS, ROLLOUT, RestartOptions
from ...spread.restart.run_limits import RunLimits
from ...spread.restart.strategy_choice import choose_strategy
from ...spread.restart.targets import Target
from ...spread.restart.turns import in_turns
from ...state.restart_outcome import PENDING
from ..common.scheduler_profiles import read_scheduler_profiles
from .budget_locks import BudgetLocks, SharedBudgetError
from .eviction import EvictionStrategy
from .eviction_wait import EvictionWait
from .move_strategy import CapacityReservedError, EvictionDeferredError, MoveStrategy, SettlingError, StaleDecisionError, Step
from .observation import Observation
from .result import RestartResult
from .rollout import RolloutStrategy
from .stopping import RunStoppedError, Stop, never_stop, raise_if_stopped, wait_unless_stopped

MAX_OBSERVATIONS = 3
"""Limit of observations for a workload that changes before anything could be written."""

OBSERVATION_VALID_S = 10.0
"""Seconds for which a run that does not wait uses one observation. Other runs and controllers change the cluster meanwhile."""


def run_restart(
    api: KubeApi,
    targets: Sequence[Target],
    options: RestartOptions,
    *,
    undecodable: t.Optional[list[Undecodable]] = None,
    stop: Stop = never_stop,
) -> list[RestartResult]:
    """Move the replicas of the targets, at most ``max_parallel`` of them at a time.

    Return one result for each target, in their order. Their namespaces take turns. Each batch is decided on a snapshot that is newer than
    the last action. Without ``wait``, all targets are begun, each on a snapshot that is at most OBSERVATION_VALID_S old and includes all
    earlier actions. Raise KubeError only if nothing can be read, and OptionError for a topology key that no node has or a configuration of
    a scheduler that cannot be used. ``undecodable`` receives the objects that could not be decoded. ``stop`` is asked before each
    step and during waits. If it returns a reason, the outcomes of begun steps stay pending, and targets that were not begun are skipped
    with that reason.
    """
    options = replace(options, profiles=read_scheduler_profiles(api, options.scheduler_config))
    batches = _Batches(api, list(dict.fromkeys(targets)), options, stop)
    try:
        return batches.run()
    finally:
        if undecodable is not None:
            undecodable += batches.undecodable


class _Batches:
    def __init__(self, api: KubeApi, targets: Sequence[Target], options: RestartOptions, stop: Stop) -> None:
        self._api = api
        self._stop = stop
        self._options = options
        self._targets = targets
        self._results = {target: RestartResult(target) for target in targets}
        self._budgets = BudgetLocks()
        self._eviction_wait = EvictionWait(api, timeout_s=options.awaited_s or 0)
        self._limits = RunLimits(options)
        self._evictions = EvictionStrategy(api, options, self._budgets, self._eviction_wait, self._limits)
        self._strategies: dict[str, MoveStrategy] = {
            ROLLOUT: RolloutStrategy(api, options, self._budgets, self._limits, self._evictions, self._eviction_wait),
            EVICT_SURPLUS: self._evictions,
        }
        self._blocked: list[Target] = []
        self._strategy_of: dict[Target, MoveStrategy] = {}
        self._unfinished: list[Step] = []
        self._observation: Observation
        self._observed_at_s = 0.0
        self.undecodable: list[Undecodable] = []

    def run(self) -> list[RestartResult]:
        self._observation = self._observe()
        check_labels_exist(self._options.topology_keys, self._observation.snapshot.nodes.values())
        self._targets = in_turns(self._targets, self._observation.snapshot.workloads(), now_s=self._api.now_s())
        try:
            if self._options.wait:
                self._in_batches()
            else:
                self._without_waiting()
        except RunStoppedError as stopped:
            self._leave_pending(stopped.reason)
            return list(self._results.values())
        if self._evictions.unanswered_results:
            self._record_late_evictions()
        return list(self._results.values())

    def _leave_pending(self, reason: Reason) -> None:
        """End the results of a stopped run. The next run continues the steps that are begun."""
        for result in self._results.values():
            if not result.action:
                result.end(SKIPPED, reason)
            elif result.outcome == PENDING and result.evicted:
                result.stop(SKIPPED, reason)

    def _record_late_evictions(self) -> None:
        """Read the cluster once more, because the API server may have carried out requests whose answers were lost."""
        try:
            self._evictions.record_late_evictions(self._observe(last=True))
        except KubeError as error:
            for result in self._evictions.unanswered_results:
                result.warnings.append(f"it is unknown whether an eviction without an answer of {result.target} was made: {error}")

    def _in_batches(self) -> None:
        waiting = list(self._targets)
        while waiting or self._blocked:
            batch, waiting = self._begin_batch(waiting)
            self._wait(batch)
            self._note_ends(batch)
            try:
                # The steps of the batch are finished before others begin.
                waiting = [*self._observe_again(batch, last=not waiting), *waiting] or self._wait_for_evictions()
            except KubeError as error:
                self._abort(batch, [*waiting, *self._blocked], error)
                break

    def _without_waiting(self) -> None:
        """Begin all targets. At the end, evaluate the ones that have ended already."""
        waiting = list(self._targets)
        deferred: list[Target] = []
        needs_observation: list[Step] = []
        try:
            self._begin_each(waiting, deferred, needs_observation)
            if deferred:
                waiting, deferred = deferred, []
                self._observation = self._observe()
                self._begin_each(waiting, deferred, needs_observation, last=True)
            if needs_observation:
                self._observation = self._observe(last=True)
        except KubeError as error:
            self._abort(needs_observation, [*deferred, *waiting], error)
            return
        for run in needs_observation:
            run.finish(self._observation)

    def _begin_each(self, waiting: list[Target], deferred: list[Target], needs_observation: list[Step], *, last: bool = False) -> None:
        """Begin the targets one after the other and remove them from ``waiting``.

        Targets that need another observation are appended to ``deferred``. ``last``: another observation would show nothing new.
        """
        begun = False
        while waiting:
            if time.monotonic() > self._observed_at_s + OBSERVATION_VALID_S:
                self._observation = self._observe()
            target = waiting[0]
            try:
                run = self._begin(target, alone=last or not begun)
            except (SharedBudgetError, StaleDecisionError, CapacityReservedError):
                run = None
                deferred.append(target)
            del waiting[0]
            if run is None:
                continue
            begun = True
            run.wait()
            self._note_ends([run])
            if run.needs_observation:
                needs_observation.append(run)

    def _wait_for_evictions(self) -> list[Target]:
        """Wait once for all blocked targets until an eviction may be granted.

        Return these targets. All other work is done before. The order rotates, because a target with a slow error prevents requests for the
        others.
        """
        blocked, self._blocked = [*self._blocked[1:], *self._blocked[:1]], []
        if blocked:
            try:
                wait_unless_stopped([self._eviction_wait.skip if self._options.dry_run else self._eviction_wait.wait], self._stop)
                self._observation = self._observe()
            except KubeError:
                self._blocked = blocked
                raise
        return blocked

    def _begin_batch(self, waiting: Sequence[Target]) -> tuple[list[Step], list[Target]]:
        """Begin up to ``max_parallel`` steps. A target that depends on the end of one of them waits for the next batch."""
        batch: list[Step] = []
        deferred: list[Target] = []
        for number, target in enumerate(waiting):
            if sum(run.is_awaited for run in batch) == self._options.max_parallel:
                return batch, [*deferred, *waiting[number:]]
            try:
                run = self._begin(target, alone=not batch)
            except (SharedBudgetError, StaleDecisionError, CapacityReservedError):
                deferred.append(target)
            except EvictionDeferredError:
                self._blocked.append(target)
            else:
                batch += [run] if run is not None else []
        return batch, deferred

    def _wait(self, batch: Sequence[Step]) -> None:
        awaited = [run for run in batch if run.is_awaited]
        for run, seconds in zip(awaited, wait_unless_stopped([run.wait for run in awaited], self._stop)):
            self._limits.add_time(run.result.target.namespace, seconds)

    def _note_ends(self, batch: Sequence[Step]) -> None:
        """Record the ends of the batch.

        A step that has not ended is not awaited any longer, but it still reduces its budgets and will use capacity.
        """
        for run in batch:
            if run.has_ended:
                self._budgets.ended(run.result.target)
            else:
                self._budgets.left_unfinished(run.result.target)
                self._unfinished.append(run)

    def _observe(self, *, last: bool = False) -> Observation:
        """Read the cluster. A plan reads it once, because its actions are only assumed."""
        if self._options.dry_run and self._observed_at_s:
            return self._observation
        observation = Observation.read(self._api, self._targets, self._options, self._limits, last=last)
        self.undecodable += observation.snapshot.undecodable
        for run in self._unfinished:
            run.assume(observation)
        self._observed_at_s = time.monotonic()
        return observation

    def _observe_again(self, batch: Sequence[Step], *, last: bool) -> list[Target]:
        """Evaluate the batch on a new observation, which the next batch also uses. Return the targets that need another step."""
        if not batch or (last and not any(run.needs_observation for run in batch)):
            return []
        self._observation = self._observe(last=last and not any(run.may_continue for run in batch))
        return [run.result.target for run in batch if run.finish(self._observation)]

    def _abort(self, batch: Sequence[Step], waiting: Sequence[Target], error: KubeError) -> None:
        """End the run because the cluster cannot be read. Steps in progress stay pending, and no other target is begun."""
        for run in batch:
            run.result.end(FAILED_ACTION, Reason("lost", str(error)))
        for target in waiting:
            result = self._results[target]
            result.end(FAILED_ACTION, Reason("lost" if result.changed else "not_begun", str(error)))

    def _begin(self, target: Target, *, alone: bool) -> t.Optional[Step]:
        """Decide and act. None if there is nothing to wait for. ``alone``: nothing else has begun since the last observation."""
        raise_if_stopped(self._stop)
        result = self._results[target]
        result.start()
        try:
            return self._begin_on_current_report(target, result, alone=alone)
        except NotFoundError as error:
            result.vanish(SKIPPED, str(error))
            return None
        except DryRunUnsupportedError as error:
            text = f"{target} cannot be tried in check mode: {error}; a run without check mode asks the webhook"
            result.end(SKIPPED, Reason("dry_run_unsupported", text))
            return None
        except KubeError as error:
            result.end(FAILED_ACTION, Reason("error", str(error)))
            self._budgets.left_unfinished(target)  # the step may already have reduced them
            return None
        finally:
            result.take_time()

    def _begin_on_current_report(self, target: Target, result: RestartResult, *, alone: bool) -> t.Optional[Step]:
        attempts = 0
        while attempts < MAX_OBSERVATIONS:
            report = self._observation.report_for(target)
            if report is None:
                self._absent(target, result)
                return None
            if target not in self._strategy_of:
                self._strategy_of[target] = self._strategies[choose_strategy(report, self._observation.snapshot, self._options)]
            try:
                return self._strategy_of[target].begin(report, self._observation, result, alone=alone)
            except StaleDecisionError as error:
                if not alone:
                    raise
                # The workload keeps its turn, so that the run does what its plan says.
                if isinstance(error, SettlingError):
                    wait_unless_stopped([self._eviction_wait.pause], self._stop)
                else:
                    attempts += 1
                self._observation = self._observe()
        result.stop(SKIPPED, Reason("changed_meanwhile", f"{target} keeps changing; run again later"))
        return None

    def _absent(self, target: Target, result: RestartResult) -> None:
        """Record why the target is not in the snapshot: it is gone or undecodable, or its namespace or kind may not be read."""
        undecodable = self._observation.undecodable(target)
        if undecodable is not None:
            result.end(REFUSED, undecodable)
            return
        wanted = (NAMESPACES.plural, WORKLOADS[target.kind].plural)
        for entry in self._observation.snapshot.skipped:
            if entry.resource in wanted and entry.namespace in ("", target.namespace):
                result.end(FAILED_ACTION, Reason("unreadable", entry.reason))
                return
        result.vanish(SKIPPED, f"there is no {target}")
