# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One rescue run from start to end, as k8s_critical_rescue makes it."""

from __future__ import annotations

import math
import time
import typing as t
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from enum import Enum

from ...kube.client.api import KubeApi
from ...kube.client.errors import InvalidError, KubeError, is_transient
from ...kube.client.resources import PODS
from ...model.api.pod import Pod
from ...model.option_values import OptionError
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_of
from ...rescue.critical import NOT_CRITICAL, is_critical, not_critical_message
from ...rescue.held_nodes import HeldNode
from ...rescue.options import STATE_RELEASED, RescueOptions, RescueRequest, missing_namespaces
from ...rescue.plan import IMPOSSIBLE, WAITING
from ...rescue.plan_reasons import UNEXPLAINED
from ..common.config_map_store import NAME, NAMESPACE, ConfigMapStore
from ..common.leader_lease import ASKED_EVERY_S, LeaderLease, LeaseLostError
from .controller import RescueController
from .environment import open_environment
from .result import RescueError, RescueResult
from .task import FAILED, NOT_LEADER, POD_GONE, QUEUED, RESCUED, SETTLING, RescueTask

LEASE_TIMEOUT_S = 30.0
"""Seconds that a run waits for the Lease of a killed program: its duration, and time for slow answers."""
EVICTIONS_END_WITHIN_S = 20.0
"""Seconds that the end of a run waits for its evictions: the time of a request, and of denials by an API server that has just started."""
ASK_AGAIN_S = 1.0
HOW_TO_RELEASE = "ansible localhost -m onprem.kube_scheduling.k8s_critical_rescue -a state=released"
HOW_TO_RELEASE_BY_PLAYBOOK = "ansible-playbook onprem.kube_scheduling.rescue -e rescue_state=released"
STEADY_S = 0.02
"""Seconds to wait after a change. Several changes often occur together, and the wait lets all of them arrive before the next step."""


class End(Enum):
    """An end of a run."""

    DONE = "done"
    """Nothing is left to do."""
    BEGUN = "begun"
    """Without ``wait``: every rescue that is possible now has begun. The nodes stay held."""
    TIMED_OUT = "timed_out"
    """The time limit is over, and pods are still waiting, or this run could not release a node or record a result."""


def run_rescue(api: KubeApi, request: RescueRequest) -> RescueResult:
    """Rescue the pods that need it, or release all nodes. Raise OptionError, RescueError and KubeError."""
    result = RescueResult()
    environment = open_environment(api, request.options, result, dry_run=request.dry_run)
    selected, cache = selected_pods(api, request), environment.cache
    cache.start()
    try:
        missing = missing_namespaces(request.options, cache.snapshot()) if request.state != STATE_RELEASED else ""
        if missing:
            raise OptionError(missing)
        controller = RescueController(environment, ConfigMapStore(environment.api), selected=selected)
        run = _release_nodes if request.state == STATE_RELEASED else _rescue_pods
        run(controller, request, result)
        result.undecodable = cache.undecodable
        return result
    finally:
        cache.stop()


# --- rescue -----------------------------------------------------------------------------------------------------------


def _rescue_pods(controller: RescueController, request: RescueRequest, result: RescueResult) -> None:
    """Rescue the pods. An error is in the result if something was done or planned before it. Raise KubeError otherwise."""
    try:
        _rescue(controller, request)
    except KubeError as error:
        if not (controller.tasks or result.has_changes):
            raise
        result.error = error
    result.error = _with_held_nodes(result.error, controller)
    result.tasks = list(controller.tasks.values())
    result.add_plans()
    if result.error is not None:
        _fail_unfinished(result.tasks, result.error)
        return
    result.tasks += named_pods_without_task(controller.tasks, controller.environment.cache.snapshot(), request)
    if request.dry_run:
        _add_releases(controller, result)


def _rescue(controller: RescueController, request: RescueRequest) -> None:
    cache, lease = controller.environment.cache, controller.environment.lease
    clock = _Clock(request.options.wait_timeout_s)
    ask_at_s, complete_at_s = 0.0, math.inf
    with _released_at_the_end(controller, lease), controller.nominations.renewed():
        while True:
            version, began_at_s = cache.version, time.monotonic()
            requeue_after_s = controller.reconcile()
            clock.note(blocked=bool(controller.problem) or (not lease.held and _has_to_write(controller)))
            end = end_of_run(controller, clock, wait=request.wait, dry_run=request.dry_run)
            if end is End.DONE and request.dry_run and not clock.is_over:
                # The plans were completed at different times. An impossible one may be seconds old, and nothing else repeats it.
                complete_at_s = min(complete_at_s, began_at_s)
                if controller.plan_again_if_older(complete_at_s):
                    continue
            if end is not None:
                if controller.finish_evictions(EVICTIONS_END_WITHIN_S):
                    controller.record_open_attempts()
                    if end is End.BEGUN:
                        controller.keep_holds()
                break
            now_at_s = time.monotonic()
            if not request.dry_run and not lease.held and now_at_s >= ask_at_s and _needs_lease(controller):
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
    def is_blocked(self) -> bool:
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


def _needs_lease(controller: RescueController) -> bool:
    """Return whether something must be written. Otherwise no Lease is acquired."""
    planned = any(task.reason is not None and task.reason.code == NOT_LEADER for task in controller.tasks.values())
    resumable = any(task.may_be_resumed for task in controller.tasks.values())
    return planned or resumable or bool(controller.holds.expired) or bool(controller.holds.orphaned) or _has_to_write(controller)


def _has_to_write(controller: RescueController) -> bool:
    """Return whether this run must still release a node or record the result of an attempt."""
    return bool(controller.still_held) or bool(controller.unrecorded)


def end_of_run(controller: RescueController, clock: _Clock, *, wait: bool, dry_run: bool) -> t.Optional[End]:
    """Return the end of the run, or None if it continues. Raise RescueError if the state of the pods is not known in time."""
    tasks = list(controller.tasks.values())
    all_finished = bool(tasks) and all(task.is_finished for task in tasks)
    if clock.is_over and controller.problem and not all_finished and not _has_to_write(controller):
        raise RescueError(f"the cluster could not be read within wait_timeout: {controller.problem}")
    if any(task.reason is UNEXPLAINED for task in tasks) and not clock.is_over:
        return None
    if clock.is_blocked:
        return End.TIMED_OUT if clock.is_over else None
    waiting = [task for task in tasks if not task.is_finished and (task.status != IMPOSSIBLE or task.evicted)]
    if dry_run:  # a plan waits only for the settle time of the scheduler and for answers to its dry runs
        is_settling = any(task.status != WAITING or task.settles_at_s >= time.monotonic() for task in waiting)
        return None if is_settling else End.DONE
    if waiting and (wait or _can_begin_one(controller, waiting)):
        # A node that is being cleared has its own time limit.
        return End.TIMED_OUT if clock.is_over and not controller.clearing else None
    cleared_for = {task.uid for task in waiting if task.is_clearing}
    if controller.unrecorded or any(held.uid not in cleared_for for held in controller.still_held):
        return End.TIMED_OUT if clock.is_over else None
    # Another active program releases its holds by itself.
    if controller.holds.expired and not clock.has_run_for(LEASE_TIMEOUT_S):
        return None
    return End.BEGUN if waiting else End.DONE


def _can_begin_one(controller: RescueController, waiting: list[RescueTask]) -> bool:
    """Return whether the next step for a waiting pod is possible now.

    A run that has the Lease, or has not asked for it yet, can begin a rescue. The holder of the Lease is known only after a request.
    """
    lease = controller.environment.lease
    has_other_leader = not lease.held and bool(lease.holder)
    return not has_other_leader and (bool(controller.holds.orphaned) or any(_can_begin(task) for task in waiting))


def _can_begin(task: RescueTask) -> bool:
    """Return whether this run can begin or continue the rescue: evictions are due, or only the settle time or the Lease is missing."""
    code = task.reason.code if task.reason is not None else ""
    if task.uncertain_evictions or task.may_be_resumed:
        return True
    if task.is_clearing:
        return task.status != WAITING and code != QUEUED
    return task.status not in (WAITING, IMPOSSIBLE) or code in (SETTLING, NOT_LEADER)


@contextmanager
def _released_at_the_end(controller: RescueController, lease: LeaderLease) -> Iterator[None]:
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
            if controller.finish_evictions(EVICTIONS_END_WITHIN_S):
                _release_own(controller, lease, retry_for_s)
        finally:
            if controller.pending_write:
                lease.abandon()
            elif lease.holder:
                lease.release()


def _release_own(controller: RescueController, lease: LeaderLease, retry_for_s: float) -> None:
    """Release the nodes of a run that ends. After an error, failed writes are repeated for some time."""
    end_at_s = time.monotonic() + retry_for_s
    while controller.still_held and time.monotonic() < end_at_s:
        with suppress(KubeError, LeaseLostError):
            if lease.acquire(0):
                controller.release_own_holds()
        if controller.still_held:
            time.sleep(ASK_AGAIN_S)
    if lease.held:
        with suppress(LeaseLostError):  # the new holder of the Lease releases the nodes
            controller.release_own_holds()


def _with_held_nodes(error: t.Optional[KubeError], controller: RescueController) -> t.Optional[KubeError]:
    """Return the error with instructions for the nodes that the run could not release. None without an error and such nodes."""
    held = controller.still_held
    if not held:
        return error
    nodes = "; ".join(sorted(map(_held, held)))
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


def _fail_unfinished(tasks: list[RescueTask], error: KubeError) -> None:
    """Finish the open tasks with the error, so that the result has the actions before the error."""
    for task in tasks:
        if not task.is_finished and task.status != IMPOSSIBLE:
            task.status, task.reason = FAILED, Reason("error", str(error))


def _held(held: HeldNode) -> str:
    taint = held.hold.taint
    return f"node {held.node.name} has the taint {taint.key}={taint.value}:{taint.effect} for {held.pod_text}"


def _add_releases(controller: RescueController, result: RescueResult) -> None:
    """Add the nodes that a run would release. Nodes that are held for a waiting pod are reported as warnings."""
    for held in controller.holds_seen():
        if held.node.name in controller.holds.expired:
            result.on_released(held)
        else:
            result.on_error(f"{_held(held)}; the hold lasts until {held.hold.deadline} at most")


# --- the pods of a run ----------------------------------------------------------------------------------------------


def selected_pods(api: KubeApi, request: RescueRequest) -> t.Callable[[Pod], bool]:
    """Return the predicate for pods that the options name and label_selectors select. The API server evaluates the selector."""
    if not request.name and not request.label_selector:
        return lambda _pod: True
    found: list[Pod] = []
    for namespace in request.options.namespaces:
        try:
            found += api.list_all(PODS, namespace=namespace, label_selector=request.label_selector)
        except InvalidError as error:
            raise OptionError(f"label_selectors: {error}") from error
    found = [pod for pod in found if request.name in ("", pod.metadata.name)]
    if request.name and not found:
        labels = f" with the labels {request.label_selector}" if request.label_selector else ""
        raise RescueError(f"Pod {request.name}{labels} is not in namespace {' or '.join(request.options.namespaces)}: check its name")
    if request.name:
        return lambda pod: pod.metadata.name == request.name  # this includes a pod that a controller creates again with this name
    uids = {pod.metadata.uid for pod in found}
    return lambda pod: pod.metadata.uid in uids


def named_pods_without_task(tasks: Container[str], snapshot: ClusterSnapshot, request: RescueRequest) -> list[RescueTask]:
    """Return tasks for pods that the option name selects and that need no rescue or cannot have one, so that the result has them."""
    if not request.name:
        return []
    found = [pod for pod in snapshot.pods if pod.metadata.name == request.name]
    return [
        _answer(pod, request.options)
        for pod in found
        if pod.metadata.namespace in request.options.namespaces and pod.metadata.uid not in tasks
    ]


def _answer(pod: Pod, options: RescueOptions) -> RescueTask:
    task = RescueTask(pod, 0.0, 0.0)
    undecodable = undecodable_of(pod)
    if pod.spec.node_name:
        task.status, task.reason = RESCUED, Reason("bound", f"it is bound to node {pod.spec.node_name}")
    elif pod.terminating or pod.terminal:
        task.status, task.reason = POD_GONE, Reason("pod_gone", "it is being deleted, or has finished")
    elif undecodable is not None:
        task.status, task.reason = IMPOSSIBLE, undecodable.reason
    elif not is_critical(pod, options):
        task.status, task.reason = IMPOSSIBLE, Reason(NOT_CRITICAL, not_critical_message(pod, options))
    else:
        text = "the scheduler has not reported yet that it finds no node for it"
        task.status, task.reason = WAITING, Reason("not_reported_yet", text)
    return task


# --- release ----------------------------------------------------------------------------------------------------------


def _release_nodes(controller: RescueController, request: RescueRequest, result: RescueResult) -> None:
    """Release all nodes. An error is in the result if a node was released before it. Raise KubeError otherwise."""
    found = controller.holds.active(controller.environment.cache.snapshot(), controller.tasks)
    try:
        if request.dry_run:
            for held in found:
                result.on_released(held)
        elif found:
            _release_all(controller)
    except KubeError as error:
        if not result.has_changes:
            raise
        result.error = error


def _release_all(controller: RescueController) -> None:
    """Release all nodes. Raise RescueError and KubeError."""
    cache, lease = controller.environment.cache, controller.environment.lease
    if not lease.acquire(LEASE_TIMEOUT_S):
        raise RescueError(
            f"the rescuer or module run {lease.holder} has the Lease {NAMESPACE}/{NAME} and does the rescues. Stop it first "
            "(the rescuer: kubectl -n kube-system scale deployment kube-scheduling-rescuer --replicas=0); "
            "it releases its own nodes when it stops"
        )
    try:
        controller.release_all_holds()
    except LeaseLostError as error:
        raise RescueError(str(error)) from error
    finally:
        lease.release()
    left = controller.holds.active(cache.snapshot(), controller.tasks)
    if left:
        nodes = "; ".join(map(_held, left))
        raise RescueError(f"not every hold could be removed: {nodes}. Run the task again when the nodes can be written.")
