# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The control loop of rescues: observe, plan, hold a node, evict one pod after the other, wait until the scheduler binds the pod.

``reconcile`` never waits by itself. It does the work that is possible now and returns the time of the next call. The module and the daemon
both call it. If the program is killed, its holds remain on the nodes. The next program takes them over or releases them.
"""

from __future__ import annotations

import time
import typing as t

from ...kube.cache.informer import REQUIRED_RESOURCES
from ...kube.client.errors import KubeError, UnreachableError, is_permission_error, is_transient
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.gc_pause import gc_paused
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_of
from ...rescue.critical import NOT_CRITICAL, is_critical, is_unschedulable, not_critical_message
from ...rescue.opened_nodes import changed_nodes, has_opened
from ...rescue.plan import IMPOSSIBLE, PLANNED
from ...rescue.planner import RescuePlanner
from ...rescue.terminating_pods import longest_wait_s
from ...state.hold import Hold
from ..common.event_recorder import EventRecorder
from ..common.leader_lease import LeaseLostError
from .environment import RescueEnvironment
from .executor import RescueExecutor
from .holds import Holds
from .nomination import Nominator
from .planning_rounds import PlanningRounds
from .reconcile_view import ReconcileView
from .records.attempt_recorder import AttemptRecorder
from .task import (
    CLEARING,
    FAILED,
    POD_GONE,
    REPLAN_S,
    RESCUED,
    WATCHED,
    RescueTask,
)
from .waits import Settling, Waits

MAX_REQUEUE_S = 10.0
"""The default maximum of seconds between two calls. Deadlines and ends of grace periods cause no change that a watch shows."""
ERROR_RETRY_S = 2.0
SEEN_LIVE_S = 2.0
"""A condition of at most this age counts as new: its time has only whole seconds."""
CLOCKS_DIFFER_S = 60.0
"""The maximum expected difference between the clocks of the scheduler and of the API servers."""
MAX_REQUEUE_CLEARING_S = 1.0
"""The same as MAX_REQUEUE_S while a node is being cleared."""
STALE_RETRY_S = 1.0
"""Seconds until the next call if the watches are broken."""
MAX_STEPS = 50
"""Limit of steps in one call of ``reconcile``. Without it, a loop of steps that does not end would never return to the caller."""


def waited_s(since_s: float, now_s: float) -> float:
    """Return the seconds since the scheduler marked a pod as unschedulable.

    The condition has its time in whole seconds, so a new condition seems up to a second old. A wait of up to SEEN_LIVE_S therefore counts
    as 0.
    """
    seconds = now_s - since_s
    return seconds if seconds > SEEN_LIVE_S else 0.0


class RescueController:
    """The rescue tasks of one program.

    ``selected`` selects the critical pods that this program handles. With ``once``, a finished task stays finished; otherwise its pod is
    planned again later. ``idle_s`` is the maximum of seconds between two calls. ``accepts_new``: new nodes may be cleared. ``problem`` is
    the reason why the last ``reconcile`` could not work; empty if it could.
    """

    def __init__(
        self,
        environment: RescueEnvironment,
        *,
        selected: t.Callable[[Pod], bool] = lambda _pod: True,
        once: bool = True,
        idle_s: float = MAX_REQUEUE_S,
    ) -> None:
        self.tasks: dict[str, RescueTask] = {}
        self.accepts_new = True
        self.environment = environment
        self.problem = ""
        api, cache, options = environment.api, environment.cache, environment.options
        self._api, self._cache, self._options = api, cache, options
        self._lease = environment.lease
        self._observer, self._dry_run = environment.observer, environment.dry_run
        self._selected, self._once, self._idle_s = selected, once, idle_s
        self._events = EventRecorder(api, self._observer.on_error, options.namespaces)
        self.nominations = Nominator(api, cache, self._lease)
        self.holds = Holds(api, self._events, self._observer, options, self.nominations)
        self.attempts = AttemptRecorder(environment, self._events)
        self.executor = RescueExecutor(
            environment, holds=self.holds, nominator=self.nominations, events=self._events, attempts=self.attempts
        )
        self._rounds = PlanningRounds(environment, self.tasks, self.executor, self._events, once=once, may_write=lambda: self._may_write)
        self._planner: t.Optional[RescuePlanner] = None
        self._seen: t.Optional[ClusterSnapshot] = None

    def reconcile(self) -> float:
        """Do the work that is possible now. Return the seconds after which the next call is due even if the cluster does not change."""
        stale = self.stale_resources
        if stale:
            self.problem = "; ".join(stale)
            for text in stale:
                self._observer.on_error(text)
            return STALE_RETRY_S
        try:
            self.holds.refresh(self._cache.snapshot(), leading=self._lease.held)
        except KubeError as error:
            if not is_transient(error):
                raise
            self.problem = str(error)
            self._observer.on_error(self.problem)
            return STALE_RETRY_S
        self.problem = ""
        with gc_paused():
            view = self.observe()
            self.attempts.reconcile(view, self.tasks)
            self._rounds.begin_round(view)
            try:
                for _step in range(MAX_STEPS):
                    if not self._reconcile_next(view) and not self._rounds.explain_next(view, self._on_error):
                        break
                    view = self.observe()
            except LeaseLostError as error:
                self._observer.on_error(str(error))
                self.abandon_holds()
        return 0.0 if self._rounds.is_interrupted else self._requeue_after_s(view)

    def plan_again_if_older(self, since_s: float) -> bool:
        """Let the next ``reconcile`` renew each impossible plan that is older than ``since_s``. Return whether there is one."""
        now_at_s = time.monotonic()
        older = [task for task in self.tasks.values() if task.plan_again_if_older(since_s, now_at_s)]
        return bool(older)

    @property
    def stale_resources(self) -> list[str]:
        """The required resources without a working watch, with the errors.

        No decision is made without them, because the cached state may be outdated.
        """
        errors = self._cache.errors
        broken = [f"{resource.plural}: {errors[resource.plural]}" for resource in REQUIRED_RESOURCES if resource.plural in errors]
        silent = self._cache.silent
        without_data = [resource.plural for resource in REQUIRED_RESOURCES if resource.plural in silent and resource.plural not in errors]
        return [*broken, *(f"{plural}: the API server has sent nothing for {silent[plural]:.0f} s" for plural in without_data)]

    @property
    def seen_nodes(self) -> t.Optional[t.Mapping[str, Node]]:
        """The nodes as last observed, or None before the first observation."""
        return self._seen.nodes if self._seen is not None else None

    def holds_seen(self) -> list[tuple[Node, Hold]]:
        """Return every node with a hold of any program, as last observed."""
        return self.holds.active(self._seen) if self._seen is not None else []

    def abandon_holds(self) -> None:
        """Stop the work on held nodes, because another program may be active.

        The holds remain, and the holder of the Lease takes them over.
        """
        self.nominations.drop_all()
        for task in self.in_stage(CLEARING):
            task.abandon()

    @property
    def has_pending_evictions(self) -> bool:
        """True if the API server may still carry out an eviction that this program requested."""
        return self.executor.has_pending_evictions

    @property
    def is_clearing(self) -> bool:
        """True if a node is being cleared."""
        return any(task.stage == CLEARING for task in self.tasks.values())

    # --- observe ---

    def observe(self) -> ReconcileView:
        """Return the cluster as it is now, with the tasks and the holds brought up to date."""
        now_s, now_at_s = self._api.now_s(), time.monotonic()
        snapshot = self._cache.snapshot()
        changes = changed_nodes(self._seen.nodes, snapshot.nodes) if self._seen is not None else []
        self._seen = snapshot
        self._update_tasks(snapshot.pods, now_s, now_at_s)
        for task in self.tasks.values() if changes else ():
            if not task.is_finished and has_opened(task.pod, changes, snapshot.profile_of(task.pod)):
                task.restart_settling(now_at_s, self._options.settle_time_s)
        in_use = {task.node: task.uid for task in self.tasks.values() if task.stage == CLEARING}
        held = {node.name: hold for node, hold in self.holds.active(snapshot)}
        evicted = {uid: at_s - now_at_s for task in self.tasks.values() for uid, at_s in task.grace_ends_at_s.items()}
        rescued = self.attempts.rescued_pods(now_s).union(task.uid for task in self.tasks.values() if task.pod.spec.node_name)
        self._planner = RescuePlanner(
            snapshot, self._options, now_s=now_s, in_use=in_use, held=held, evicted=evicted, rescued=rescued, earlier=self._planner
        )
        for task in self.tasks.values() if self._dry_run else ():
            if task.status == PLANNED and task.is_finished and task.last_plan is not None and not self._planner.reserve(task.last_plan):
                task.discard_plan()  # the capacity of the plan is no longer there
        for task in self.tasks.values():
            if task.last_plan is not None and task.is_expected(now_at_s):
                self._planner.expect(task.last_plan)
        view = ReconcileView(snapshot, self._planner, now_s, now_at_s, {}, time.monotonic() - now_at_s)
        self.holds.reconcile(snapshot, self.tasks, now_s=now_s, now_at_s=now_at_s, may_write=self._may_write)
        return view

    def _update_tasks(self, pods: t.Iterable[Pod], now_s: float, now_at_s: float) -> None:
        found: dict[str, Pod] = {}
        for pod in pods:
            uid = pod.metadata.uid
            if uid in self.tasks:
                found[uid] = pod
            elif not pod.spec.node_name and self._is_ours(pod):
                self._add_task(pod, now_s, now_at_s)
                found[uid] = pod
        for task in self.tasks.values():
            task.observe(found.get(task.uid), now_at_s, self._options.settle_time_s)

    def _is_ours(self, pod: Pod) -> bool:
        if pod.metadata.namespace not in self._options.namespaces or not is_unschedulable(pod):
            return False
        return is_critical(pod, self._options) and self._selected(pod)

    def _add_task(self, pod: Pod, now_s: float, now_at_s: float) -> None:
        since_s = self._cache.unschedulable_since(pod.metadata.uid) or now_s
        # The condition's time and the present time are from different clocks, so a short wait is measured here.
        waited = waited_s(since_s, now_s) > self._options.settle_time_s + CLOCKS_DIFFER_S
        settles_at_s = now_at_s if waited else now_at_s + self._options.settle_time_s
        max_s = longest_wait_s(self._options.grace_period_s)
        self.tasks[pod.metadata.uid] = RescueTask(pod, since_s, Settling(settles_at_s), Waits(max_s))

    # --- act ---

    def _reconcile_next(self, view: ReconcileView) -> bool:
        """Do a step of the first task, in their order, that has one now. Return whether the cluster must be observed again."""
        leading = self._lease.held
        for task in self._rounds.in_order():
            try:
                changed = self._reconcile_task(task, view)
            except KubeError as error:
                changed = self._on_error(task, error, view)
                if leading:
                    self._lease.ensure_held()
                elif isinstance(error, UnreachableError):
                    return False  # no other task can act either, and the caller must learn of it soon
            if changed:
                return True
        return False

    def _reconcile_task(self, task: RescueTask, view: ReconcileView) -> bool:
        if task.is_finished:
            self._complete_finish(task, view)
            return self._remove_finished(task, view)
        if task.uncertain_evictions or (task.stage == CLEARING and not task.loaded):
            if not task.may_request(view.now_at_s):
                return False
            if self.executor.resolve_uncertain(task, view):
                return True
            if task.uncertain_evictions:
                return False  # an eviction is in progress
        end = _end_of(task, leading=self._lease.held) or self._no_longer_critical(task)
        if end is not None:
            task.finish(*end)
            return self._finish(task, view)
        if task.stage == CLEARING:
            changed = self._rounds.advance(task, view)
        else:
            changed = view.now_at_s >= task.plan_at_s and self._rounds.plan(task, view)
        # The step may have finished the task.
        return self._finish(task, view) if task.is_finished else changed

    def _no_longer_critical(self, task: RescueTask) -> t.Optional[tuple[str, Reason]]:
        """Return the final status if the pod is no longer critical, for example because its annotation was removed.

        None if the pod is critical. None also for an undecodable pod, because its annotations are not known.
        """
        if undecodable_of(task.pod) is not None or is_critical(task.pod, self._options):
            return None
        return IMPOSSIBLE, Reason(NOT_CRITICAL, not_critical_message(task.pod, self._options))

    @property
    def _may_write(self) -> bool:
        """True if a node may be held now."""
        return self._lease.held and self.accepts_new and not self._dry_run

    def _finish(self, task: RescueTask, view: ReconcileView) -> bool:
        """Release the node, record the result of the attempt, and notify the observer.

        Failed writes are repeated later: ``Holds.reconcile`` releases the node, and ``_reconcile_task`` records the result.
        """
        if self._dry_run:
            return False
        if self._lease.held:
            self.executor.release_node(task, view.snapshot.nodes)
            self.attempts.try_to_record_outcome(task, view)
        self._observer.on_finished(task)
        return True

    def _complete_finish(self, task: RescueTask, view: ReconcileView) -> None:
        """Repeat the failed writes of a finished task. ``Holds.reconcile`` releases the nodes in ``Holds.expired``."""
        if self._dry_run or not self._lease.held:
            return
        if task.hold is not None and task.node not in self.holds.expired:
            self.executor.release_node(task, view.snapshot.nodes)
        self.attempts.try_to_record_outcome(task, view)

    def _remove_finished(self, task: RescueTask, view: ReconcileView) -> bool:
        """Remove a finished task in a daemon, and add a new one if its rescue failed.

        The limit of attempts still applies. Return whether the cluster must be observed again.
        """
        if self._dry_run and task.status == PLANNED and _end_of(task, leading=False) is None:
            return self._plan_again(task, view)
        if not self._once and not self.attempts.must_record(task):
            del self.tasks[task.uid]
            if task.status == FAILED and not task.pod_gone:
                again_at_s = view.now_at_s + REPLAN_S[IMPOSSIBLE]
                self.tasks[task.uid] = RescueTask(task.pod, task.unschedulable_since_s, Settling(again_at_s), Waits(task.waits.max_s))
        return False

    def _plan_again(self, task: RescueTask, view: ReconcileView) -> bool:
        """Discard a dry run's plan after some time and plan again, so that the old plan does not reserve capacity.

        Only dry runs that continue do this.
        """
        if self._once or view.now_at_s < task.plan_at_s + REPLAN_S[IMPOSSIBLE]:
            return False
        task.discard_plan()
        return True

    def _on_error(self, task: RescueTask, error: KubeError, view: ReconcileView) -> bool:
        """Handle a failed request. It is repeated later. A forbidden one ends the task, because the same request would fail again."""
        self._observer.on_error(f"{task.name}: {error}")
        task.retry_after_error(view.now_at_s + ERROR_RETRY_S)
        # A node does not stay held after a permanent error, nor if a transient error lasts beyond the time limit of the task.
        has_no_effect = task.stage == CLEARING and (not is_transient(error) or view.now_at_s > task.give_up_at_s)
        if is_permission_error(error) or has_no_effect:
            task.finish(FAILED, Reason("error", str(error)))
            return self._finish(task, view)
        return False

    def _requeue_after_s(self, view: ReconcileView) -> float:
        watched = self.in_stage(WATCHED)
        times = [task.settling.ends_at_s if task.settling.ends_at_s > view.now_at_s else task.plan_at_s for task in watched]
        times += [min(task.give_up_at_s, task.retry_at_s or task.give_up_at_s) for task in self.in_stage(CLEARING)]
        ahead = [at_s - view.now_at_s for at_s in times if at_s > view.now_at_s]
        return min([self._idle_s, *([MAX_REQUEUE_CLEARING_S] if self.is_clearing else []), *ahead])

    def in_stage(self, stage: str) -> list[RescueTask]:
        """Return the tasks in this stage."""
        return [task for task in self.tasks.values() if task.stage == stage]


def _end_of(task: RescueTask, *, leading: bool) -> t.Optional[tuple[str, Reason]]:
    """Return the final status of the task: the pod is bound, or it does not exist any more.

    None otherwise. Only the leader knows that no rescue was involved.
    """
    if task.pod_gone or task.pod.terminating or task.pod.terminal:
        return POD_GONE, Reason("pod_gone", f"the pod was deleted before it was bound; pods evicted for it: {len(task.evicted)}")
    if not task.pod.spec.node_name:
        return None
    if leading and not task.attempt_started:
        return RESCUED, Reason("bound", f"the scheduler has bound it to node {task.pod.spec.node_name} by itself")
    return RESCUED, Reason("bound", f"it is bound to node {task.pod.spec.node_name}")
