# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One rescue run from start to end, as k8s_critical_rescue makes it."""

from __future__ import annotations

import math
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, is_transient
from ...model.api.node import Node
from ...model.option_values import OptionError
from ...model.reason import Reason
from ...rescue.options import STATE_RELEASED, RescueRequest, missing_namespaces
from ...rescue.plan import IMPOSSIBLE, WAITING, Victim
from ...rescue.plan_reasons import UNEXPLAINED
from ...state.hold import HOLD_ANNOTATION, NO_SCHEDULE, Hold
from ..common.config_map_store import NAME, NAMESPACE
from ..common.leader_lease import ASKED_EVERY_S, LeaderLease, LeaseLostError
from .attempts import AttemptStore
from .controller import RescueController
from .end_of_run import End, RunState, end_of_run
from .environment import RescueObserver, open_environment
from .result import Eviction, HoldChange, RescueError, RescueResult
from .selected_pods import named_pods_without_task, selected_pods
from .shutdown import RescueShutdown
from .task import FAILED, NOT_LEADER, QUEUED, SETTLING, RescueTask

LEASE_TIMEOUT_S = 30.0
"""Seconds that a run waits for the Lease of a killed program: its duration, and time for slow answers."""
EVICTIONS_END_WITHIN_S = 20.0
"""Seconds that the end of a run waits for its evictions: the time of a request, and of denials by an API server that has just started."""
ASK_AGAIN_S = 1.0
HOW_TO_RELEASE = "ansible localhost -m onprem.kube_scheduling.k8s_critical_rescue -a state=released"
HOW_TO_RELEASE_BY_PLAYBOOK = "ansible-playbook onprem.kube_scheduling.rescue -e rescue_state=released"
STEADY_S = 0.02
"""Seconds to wait after a change. Several changes often occur together, and the wait lets all of them arrive before the next step."""


class _ResultObserver(RescueObserver):
    """Collects the values of the result: errors, each text once, holds, and evictions."""

    def __init__(self) -> None:
        self.errors: dict[str, None] = {}
        self.hold_changes: list[HoldChange] = []
        self.evictions: list[Eviction] = []

    def on_error(self, what: str) -> None:
        self.errors[what] = None

    def on_hold(self, node: Node, hold: Hold) -> None:
        self.hold_changes.append(HoldChange(node, hold))

    def on_evicted(self, task: RescueTask, victim: Victim) -> None:
        self.evictions.append(Eviction(task.name, victim))

    def on_released(self, node: Node, hold: Hold) -> None:
        self.hold_changes.append(HoldChange(node, hold, is_release=True))

    @property
    def has_any(self) -> bool:
        """True if a hold was placed or removed, or an error was reported."""
        return bool(self.hold_changes or self.errors)

    def result(self, tasks: list[RescueTask], *, error: t.Optional[KubeError] = None) -> RescueResult:
        """Return the result with the collected values."""
        return RescueResult(tasks, self.hold_changes, self.evictions, tuple(self.errors), error)

    def plan(self, tasks: list[RescueTask], releases: t.Sequence[HoldChange]) -> RescueResult:
        """Return the result of a dry run: the plans of the tasks, and the nodes that would be released."""
        holds = [HoldChange(*task.planned_hold) for task in tasks if task.is_plan and task.planned_hold is not None]
        choices = [(task, task.last_plan.choice) for task in tasks if task.is_plan and task.last_plan is not None]
        evictions = [Eviction(task.name, victim) for task, choice in choices if choice is not None for victim in choice.victims]
        return RescueResult(tasks, [*holds, *releases], evictions, tuple(self.errors))


def run_rescue(api: KubeApi, request: RescueRequest) -> RescueResult:
    """Rescue the pods that need it, or release all nodes. Raise OptionError, RescueError and KubeError."""
    notes = _ResultObserver()
    environment = open_environment(api, request.options, notes, dry_run=request.dry_run)
    selected, cache = selected_pods(api, request), environment.cache
    cache.start()
    try:
        missing = missing_namespaces(request.options, cache.snapshot()) if request.state != STATE_RELEASED else ""
        if missing:
            raise OptionError(missing)
        shutdown = RescueShutdown(RescueController(environment, AttemptStore(environment.api), selected=selected))
        run = _release_result if request.state == STATE_RELEASED else _rescue_result
        return run(shutdown, request, notes)._replace(undecodable=cache.undecodable)
    finally:
        cache.stop()


# --- rescue -----------------------------------------------------------------------------------------------------------


def _rescue_result(shutdown: RescueShutdown, request: RescueRequest, notes: _ResultObserver) -> RescueResult:
    """Rescue the pods. Return the result, also after an error if something was done or planned before it. Raise KubeError otherwise."""
    controller, cache = shutdown.controller, shutdown.controller.environment.cache
    error: t.Optional[KubeError] = None
    try:
        _rescue(shutdown, request)
    except KubeError as caught:
        if not (controller.tasks or notes.has_any):
            raise
        error = caught
    if request.dry_run and error is None:
        others = named_pods_without_task(controller.tasks, cache.snapshot(), request)
        return notes.plan([*controller.tasks.values(), *others], _would_release(controller, notes))
    error = _with_held_nodes(error, shutdown)
    if error is not None:
        _fail_unfinished(controller, error)
        return notes.result([*controller.tasks.values()], error=error)
    others = named_pods_without_task(controller.tasks, cache.snapshot(), request)
    return notes.result([*controller.tasks.values(), *others])


def _rescue(shutdown: RescueShutdown, request: RescueRequest) -> None:
    controller = shutdown.controller
    cache, lease = controller.environment.cache, controller.environment.lease
    clock = _Clock(request.options.wait_timeout_s)
    ask_at_s, complete_at_s = 0.0, math.inf
    with _released_at_the_end(shutdown, lease), controller.nominations.renewed():
        while True:
            version, began_at_s = cache.version, time.monotonic()
            requeue_after_s = controller.reconcile()
            clock.note(blocked=bool(controller.problem) or (not lease.held and _has_to_write(shutdown)))
            end = end_of_run(_state_of(shutdown, clock, lease), wait=request.wait, dry_run=request.dry_run)
            if end is End.UNREADABLE:
                raise RescueError(f"the cluster could not be read within wait_timeout: {controller.problem}")
            if end is End.DONE and request.dry_run and not clock.is_over:
                # The plans were completed at different times. An impossible one may be seconds old, and nothing else repeats it.
                complete_at_s = min(complete_at_s, began_at_s)
                if controller.plan_again_if_older(complete_at_s):
                    continue
            if end is not None:
                if shutdown.finish_evictions(EVICTIONS_END_WITHIN_S):
                    shutdown.record_open_attempts()
                    if end is End.BEGUN:
                        shutdown.keep_holds()
                break
            now_at_s = time.monotonic()
            if not request.dry_run and not lease.held and now_at_s >= ask_at_s and _needs_lease(shutdown):
                ask_at_s = now_at_s + ASKED_EVERY_S
                if _acquire(lease):
                    continue
            cache.wait_for_change(version, min(requeue_after_s, ASKED_EVERY_S))
            time.sleep(STEADY_S)


class _Clock:
    """The time limit of a run.

    ``wait_timeout`` counts from the start of the run. While the API server cannot be read, or a write is due without the Lease, the
    run waits at least for the time that the Lease needs.
    """

    def __init__(self, wait_timeout: float) -> None:
        self._started_at_s = time.monotonic()
        self._wait_timeout = wait_timeout
        self._blocked_at_s: t.Optional[float] = None

    def note(self, *, blocked: bool) -> None:
        """Record whether the cluster cannot be read now, or a write is due that is not possible now."""
        if not blocked:
            self._blocked_at_s = None
        elif self._blocked_at_s is None:
            self._blocked_at_s = time.monotonic()

    @property
    def blocked(self) -> bool:
        """True if the cluster cannot be read now, or a write is due that is not possible now."""
        return self._blocked_at_s is not None

    @property
    def is_over(self) -> bool:
        """True if the time limit of the run is over."""
        end_at_s = self._started_at_s + self._wait_timeout
        if self._blocked_at_s is not None:
            end_at_s = max(end_at_s, self._blocked_at_s + LEASE_TIMEOUT_S)
        return time.monotonic() > end_at_s

    def has_run_for(self, seconds: float) -> bool:
        """Return whether this time has passed since the start of the run."""
        return time.monotonic() > self._started_at_s + seconds


def _acquire(lease: LeaderLease) -> bool:
    """Try once to acquire the Lease. Return False after a transient error, so that the caller tries again later."""
    try:
        return lease.acquire(0)
    except KubeError as error:
        if not is_transient(error):
            raise
        return False


def _needs_lease(shutdown: RescueShutdown) -> bool:
    """Return whether something must be written. Otherwise no Lease is acquired."""
    controller = shutdown.controller
    planned = any(task.reason is not None and task.reason.code == NOT_LEADER for task in controller.tasks.values())
    return planned or bool(controller.holds.expired) or bool(controller.holds.orphaned) or _has_to_write(shutdown)


def _is_unreadable(shutdown: RescueShutdown) -> bool:
    """Return whether the cluster cannot be read and the state of the pods is not known.

    If this run has left something behind, the end of the run reports it.
    """
    controller = shutdown.controller
    if not controller.problem or shutdown.still_held or shutdown.unrecorded:
        return False
    return not controller.tasks or not all(task.is_finished for task in controller.tasks.values())


def _has_to_write(shutdown: RescueShutdown) -> bool:
    """Return whether this run must still release a node or record the result of an attempt."""
    return bool(shutdown.still_held) or bool(shutdown.unrecorded)


def _state_of(shutdown: RescueShutdown, clock: _Clock, lease: LeaderLease) -> RunState:
    controller = shutdown.controller
    tasks = list(controller.tasks.values())
    waiting = [task for task in tasks if not task.is_finished and (task.status != IMPOSSIBLE or task.evicted)]
    cleared_for = {task.uid for task in waiting if task.is_clearing}
    now_at_s = time.monotonic()
    # A run that has the Lease, or has not asked for it yet, can begin a rescue. The holder of the Lease is known only after a request.
    has_other_leader = not lease.held and bool(lease.holder)
    return RunState(
        is_over=clock.is_over,
        lease_time_is_over=clock.has_run_for(LEASE_TIMEOUT_S),
        is_blocked=clock.blocked,
        is_unreadable=_is_unreadable(shutdown),
        has_unexplained=any(task.reason is UNEXPLAINED for task in tasks),
        is_waiting=bool(waiting),
        is_settling=any(task.status != WAITING or task.settles_at_s >= now_at_s for task in waiting),
        can_begin=not has_other_leader and (bool(controller.holds.orphaned) or any(_can_begin(task) for task in waiting)),
        is_clearing=bool(controller.clearing),
        must_write=bool(shutdown.unrecorded) or any(hold.uid not in cleared_for for hold in shutdown.still_held.values()),
        has_expired_holds=bool(controller.holds.expired),
    )


def _can_begin(task: RescueTask) -> bool:
    """Return whether this run can still begin the rescue: evictions are due, or only the settle time or the Lease is missing."""
    code = task.reason.code if task.reason is not None else ""
    if task.uncertain_evictions:
        return True
    if task.is_clearing:
        return task.status != WAITING and code != QUEUED
    return task.status not in (WAITING, IMPOSSIBLE) or code in (SETTLING, NOT_LEADER)


@contextmanager
def _released_at_the_end(shutdown: RescueShutdown, lease: LeaderLease) -> Iterator[None]:
    """Release all nodes and the Lease at the end of the block, also after an error.

    Evictions that may still be carried out are awaited first, because the next program would not know of them. If that takes too long, the
    nodes stay held and the Lease expires by itself.
    """
    retry_for_s = 0.0
    try:
        yield
    except KubeError:
        retry_for_s = LEASE_TIMEOUT_S
        raise
    finally:
        try:
            if shutdown.finish_evictions(EVICTIONS_END_WITHIN_S):
                _release_own(shutdown, lease, retry_for_s)
        finally:
            if shutdown.controller.has_pending_evictions:
                lease.abandon()
            elif lease.holder:
                lease.release()


def _release_own(shutdown: RescueShutdown, lease: LeaderLease, retry_for_s: float) -> None:
    """Release the nodes of a run that ends. After an error, failed writes are repeated for some time."""
    end_at_s = time.monotonic() + retry_for_s
    while shutdown.still_held and time.monotonic() < end_at_s:
        with suppress(KubeError, LeaseLostError):
            if lease.acquire(0):
                shutdown.release_own_holds()
        if shutdown.still_held:
            time.sleep(ASK_AGAIN_S)
    if lease.held:
        with suppress(LeaseLostError):  # the new holder of the Lease releases the nodes
            shutdown.release_own_holds()


def _with_held_nodes(error: t.Optional[KubeError], shutdown: RescueShutdown) -> t.Optional[KubeError]:
    """Return the error with instructions for the nodes that the run could not release. None without an error and such nodes."""
    held, controller = shutdown.still_held, shutdown.controller
    if not held:
        return error
    nodes = "; ".join(_held(name, hold) for name, hold in sorted(held.items()))
    why = (
        controller.problem
        or "; ".join(controller.stale_resources)
        or f"the Lease {NAMESPACE}/{NAME} was not available, or the node could not be written"
    )
    cause = "" if error is None else f"{error} "
    return RescueError(
        f"{cause}The run could not release these holds: {nodes}. Reason: {why}. "
        f"Release them with `{HOW_TO_RELEASE}` or `{HOW_TO_RELEASE_BY_PLAYBOOK}`."
    )


def _fail_unfinished(controller: RescueController, error: KubeError) -> None:
    """Finish the open tasks with the error, so that the result has the actions before the error."""
    for task in controller.tasks.values():
        if not task.is_finished and task.status != IMPOSSIBLE:
            task.status, task.reason = FAILED, Reason("error", str(error))


def _held(node_name: str, hold: Hold) -> str:
    taint = f"taint {hold.key}={hold.value}:{NO_SCHEDULE} and annotation" if hold.key else "annotation"
    return f"node {node_name} has the {taint} {HOLD_ANNOTATION} for pod {hold.pod_name}"


def _would_release(controller: RescueController, notes: _ResultObserver) -> list[HoldChange]:
    """Return the nodes that a run would release. Nodes that are held for a waiting pod are reported as warnings."""
    over = set(controller.holds.expired)
    for node, hold in controller.holds_seen():
        if node.name not in over:
            notes.on_error(f"{_held(node.name, hold)}; the hold of {hold.writer} lasts until {hold.deadline} at most")
    return [HoldChange(node, hold, is_release=True) for node, hold in controller.holds_seen() if node.name in over]


# --- release ----------------------------------------------------------------------------------------------------------


def _release_result(shutdown: RescueShutdown, request: RescueRequest, notes: _ResultObserver) -> RescueResult:
    """Release all nodes. Return the result, also after an error if a node was released before it. Raise KubeError otherwise."""
    holds, snapshot = shutdown.controller.holds, shutdown.controller.environment.cache.snapshot()
    try:
        holds.refresh(snapshot, leading=False)
        held = holds.active(snapshot)
        if request.dry_run:
            return notes.plan([], [HoldChange(node, hold, is_release=True) for node, hold in held])
        if held:
            _release_all(shutdown)
    except KubeError as error:
        if not notes.has_any:
            raise
        return notes.result([], error=error)
    return notes.result([])


def _release_all(shutdown: RescueShutdown) -> None:
    """Release all nodes. Raise RescueError and KubeError."""
    cache, lease = shutdown.controller.environment.cache, shutdown.controller.environment.lease
    if not lease.acquire(LEASE_TIMEOUT_S):
        raise RescueError(
            f"the rescuer or module run {lease.holder} has the Lease {NAMESPACE}/{NAME} and does the rescues. Stop it first "
            "(the rescuer: kubectl -n kube-system scale deployment kube-scheduling-rescuer --replicas=0); "
            "it releases its own nodes when it stops"
        )
    try:
        shutdown.release_all_holds()
    except LeaseLostError as error:
        raise RescueError(str(error)) from error
    finally:
        lease.release()
    left = shutdown.controller.holds.active(cache.snapshot())
    if left:
        nodes = "; ".join(_held(node.name, hold) for node, hold in left)
        raise RescueError(f"not every hold could be removed: {nodes}. Run the task again when the nodes can be written.")
