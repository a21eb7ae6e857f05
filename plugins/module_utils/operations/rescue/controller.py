# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The control loop of rescues: observe, plan, hold a node, evict one pod after the other, wait until the scheduler binds the pod.

``reconcile`` never waits by itself. It does the work that is possible now and returns the time of the next call. The module and the daemon
both call it. If the program is killed, its holds remain on the nodes. The next program takes them over or releases them.
"""

from __future__ import annotations

import time
import typing as t
from dataclasses import replace

from ...kube.cache.informer import CACHED_RESOURCES, REQUIRED_RESOURCES, WORKLOAD_RESOURCES, ClusterInformer
from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError, UnreachableError, is_permission_error, is_transient
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.gc_pause import gc_paused
from ...model.reason import Reason, reason_message
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_of
from ...rescue.critical import NOT_CRITICAL, effective_priority, is_critical, is_unschedulable, not_critical_message
from ...rescue.equivalence import depends_on_others, equivalence_key
from ...rescue.opened_nodes import changed_nodes, has_opened
from ...rescue.options import NONE, RescueOptions
from ...rescue.plan import BY_NOMINATION, IMPOSSIBLE, PLANNED, WAITING, RescueContext, RescuePlan
from ...rescue.planner import CAPACITY_BECOMING_FREE, NO_NODE, UNEXPLAINED, RescuePlanner
from ...rescue.terminating_pods import longest_wait_s
from ...state.hold import Hold
from ..common.event_recorder import EventRecorder
from ..common.leader_lease import LeaderLease, LeaseLostError
from .environment import RescueEnvironment
from .eviction_requests import REQUEST_TIMEOUT_S
from .executor import RescueExecutor
from .holds import Holds
from .nomination import Nominator
from .reconcile_view import ReconcileView
from .records.attempt_store import record_leftover_results
from .records.rescued_pods import RescuedPodTracker
from .scheduler_health import SchedulerHealth
from .task import (
    CLEARING,
    ENDED,
    FAILED,
    NO_OTHER_NODE,
    POD_GONE,
    QUEUED,
    REPLAN_S,
    RESCUED,
    SETTLING,
    WATCHED,
    RescueTask,
)

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
PLAN_SLICE_S = 0.2
"""Seconds after which no further plan begins on the same view."""
PENDING_EVICTIONS_POLL_S = 0.05
"""Interval of the check for pending evictions at the end of the program."""
EXPLAINED_EVERY_S = 2.0
"""Minimum seconds between two explanations while pods are always due for planning. One pod is explained each time."""
MAX_STEPS = 50
"""Limit of steps in one call of ``reconcile``, so that the caller regains control in an endless loop."""
MAX_NAMED_PODS = 5
"""Limit of pods in one message."""
POSTPONED_EVENTS = {"attempts_used_up": "RescueAttemptsUsedUp", "backoff": "RescueBackoff"}
"""The Events of postponed rescues, by the reason's code."""
RETRY_FOR_S = 5.0
"""Seconds for which a request is repeated after a transient error. After that the next reconciliation decides on a newer state."""
ANSWER_TIMEOUT_S = REQUEST_TIMEOUT_S
"""Limit of seconds for one response, the same as for an eviction."""
WRITE_WITHIN_S = 5.0
"""Limit of seconds for a write to a node, a pod's status or the ConfigMap.

The loop waits for the write, and a slow admission webhook must not block it for long. Requests for the Lease have no more time either, so a
slower server has no leader anyway.
"""


def rescue_client(api: KubeApi, lease: LeaderLease) -> KubeApi:
    """Return the API client for rescues.

    Requests without a quick response are repeated on a newer state. Every write ends before the Lease can be lost.
    """
    return api.with_timeouts(
        retry_for_s=RETRY_FOR_S, answer_timeout_s=ANSWER_TIMEOUT_S, until=lease.ends_at_s, write_within_s=WRITE_WITHIN_S
    )


def rescue_informer(api: KubeApi, options: RescueOptions) -> ClusterInformer:
    """Return an informer of what these options need. Workloads are cached only for their maintenance windows."""
    return ClusterInformer(api, (*CACHED_RESOURCES, *WORKLOAD_RESOURCES) if options.respect_windows else CACHED_RESOURCES)


def waited_s(since_s: float, now_s: float) -> float:
    """Return the seconds since the scheduler marked a pod as unschedulable.

    The condition's time is in whole seconds. For a new condition it would make the wait too long, so a wait of up to SEEN_LIVE_S counts as
    0.
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
        self.problem = ""
        api, cache, options = environment.api, environment.cache, environment.options
        self._api, self._cache, self._options = api, cache, options
        self._lease, self._attempts, self._writer = environment.lease, environment.attempts, environment.writer
        self._observer, self._dry_run = environment.observer, environment.dry_run
        self._selected, self._once, self._idle_s = selected, once, idle_s
        self._scheduler_health = SchedulerHealth(api, cache)
        self._events = EventRecorder(api, self._observer.on_error, options.namespaces)
        self.nominations = Nominator(api, cache, self._lease)
        self.holds = Holds(api, self._events, self._observer, options, self.nominations)
        self._rescued = RescuedPodTracker(api, cache, self._attempts)
        self._executor = RescueExecutor(
            environment, holds=self.holds, nominations=self.nominations, events=self._events, rescued=self._rescued
        )
        self._planner: t.Optional[RescuePlanner] = None
        self._observed_in_s = 0.0
        self._seen: t.Optional[ClusterSnapshot] = None
        self._attempts_loaded = False
        self._reconcile_attempts_at_s = 0.0
        self._round = 0
        self._interrupted = False
        self._explained_at_s = 0.0
        self._kept: set[str] = set()

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
            view = self._observe()
            self._reconcile_attempts(view)
            self._interrupted = False
            self._begin_round(view)
            try:
                for _step in range(MAX_STEPS):
                    if not self._reconcile_next(view) and not self._explain_next(view):
                        break
                    view = self._observe()
            except LeaseLostError as error:
                self._observer.on_error(str(error))
                self.abandon_holds()
        return 0.0 if self._interrupted else self._requeue_after_s(view)

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

    def release_all_holds(self) -> None:
        """Release every held node, whichever program holds it. Raise LeaseLostError and KubeError."""
        self._lease.ensure_held()
        snapshot = self._cache.snapshot()
        self.holds.refresh(snapshot, leading=True)
        for node, hold in self.holds.active(snapshot):
            self.holds.release(node, hold)
        for task in self.tasks.values():
            task.note_released()

    def release_own_holds(self) -> None:
        """Release the nodes that this program holds, as last observed. The tasks keep their state. Raise LeaseLostError."""
        if self._seen is None:
            return
        for task in self.tasks.values():
            if task.uid not in self._kept:
                self._executor.release_node(task, self._seen.nodes)
        for node, hold in self._own_holds():
            self._lease.ensure_held()
            self.holds.release(node, hold)

    def keep_holds(self) -> None:
        """Keep the holds of the rescues that have begun. The next program continues these rescues, or releases their nodes.

        The program ends then. Its hold records and attempts are complete, as after the end of a killed program.
        """
        for task in self._in_stage(CLEARING):
            self._kept.add(task.uid)
            task.keep_hold()

    @property
    def still_held(self) -> dict[str, Hold]:
        """The holds of this program that it must release and that are on their nodes as far as it knows, by node name."""
        cleared = {task.node: task.hold for task in self._in_stage(CLEARING) if task.hold is not None and task.uid not in self._kept}
        ended = {task.node: task.hold for task in self._in_stage(ENDED) if task.hold is not None}
        return {**{node.name: hold for node, hold in self._own_holds()}, **ended, **cleared}

    @property
    def unrecorded(self) -> list[RescueTask]:
        """The finished tasks whose result this program must still record."""
        return [task for task in self.tasks.values() if self._must_record(task)]

    def holds_seen(self) -> list[tuple[Node, Hold]]:
        """Return every node with a hold of any program, as last observed."""
        return self.holds.active(self._seen) if self._seen is not None else []

    def _own_holds(self) -> list[tuple[Node, Hold]]:
        """Return the holds that this program has placed or taken over, without those that it keeps at its end."""
        taken_over = {task.uid for task in self.tasks.values() if task.attempt_started}
        own = ((node, hold) for node, hold in self.holds_seen() if hold.writer == self._writer or hold.uid in taken_over)
        return [(node, hold) for node, hold in own if hold.uid not in self._kept]

    def abandon_holds(self) -> None:
        """Stop the work on held nodes, because another program may be active.

        The holds remain, and the holder of the Lease takes them over.
        """
        self.nominations.drop_all()
        for task in self._in_stage(CLEARING):
            task.abandon()

    @property
    def has_pending_evictions(self) -> bool:
        """True if the API server may still carry out an eviction that this program requested."""
        return self._executor.has_pending_evictions

    def finish_evictions(self, timeout_s: float, *, hurried: t.Callable[[], bool] = lambda: False) -> bool:
        """Wait until no eviction can be carried out any more, and record the evicted pods.

        Return False if that takes longer than ``timeout_s`` seconds or ``hurried`` returns True. The program ends then, so no further node
        is cleared.
        """
        self.accepts_new = False
        end_at_s = time.monotonic() + timeout_s
        while self.has_pending_evictions:
            if hurried() or time.monotonic() > end_at_s:
                return False
            time.sleep(PENDING_EVICTIONS_POLL_S)
        try:
            unclear = [task for task in self.tasks.values() if task.uncertain_evictions]
            if unclear:
                view = self._observe()
                for task in unclear:
                    self._executor.resolve_uncertain(task, view)
        except (KubeError, LeaseLostError) as error:
            self._observer.on_error(f"it is not known which pods were evicted at the end: {error}")
        return True

    def record_open_attempts(self) -> None:
        """Record the results of the attempts whose pods are still unschedulable.

        The program ends then, and no node is being cleared for these pods. Attempts with evicted pods have failed.
        """
        open_tasks = [task for task in self._in_stage(WATCHED) if task.attempt_started and not task.outcome_recorded]
        if not open_tasks or self._dry_run or not self._lease.held:
            return
        try:
            view = self._observe()
            for task in open_tasks:
                self._lease.ensure_held()
                self._executor.record_outcome(task, view)
                task.note_recorded_outcome()
        except (KubeError, LeaseLostError) as error:
            self._observer.on_error(f"the results of attempts could not be written at the end of the run: {error}")

    @property
    def is_clearing(self) -> bool:
        """True if a node is being cleared."""
        return any(task.stage == CLEARING for task in self.tasks.values())

    # --- observe ---

    def _observe(self) -> ReconcileView:
        now_s, now_at_s = self._api.now_s(), time.monotonic()
        snapshot = self._cache.snapshot()
        changes = changed_nodes(self._seen.nodes, snapshot.nodes) if self._seen is not None else []
        self._seen = snapshot
        self._update_tasks(snapshot.pods, now_s, now_at_s)
        for task in self.tasks.values() if changes else ():
            if not task.is_finished and has_opened(task.pod, changes):
                task.restart_settling(now_at_s, self._options.settle_time_s)
        in_use = {task.node: task.uid for task in self.tasks.values() if task.stage == CLEARING}
        held = {node.name: hold for node, hold in self.holds.active(snapshot)}
        evicted = {uid: at_s - now_at_s for task in self.tasks.values() for uid, at_s in task.grace_ends_at_s.items()}
        self._planner = RescuePlanner(
            snapshot, self._options, now_s=now_s, in_use=in_use, held=held, evicted=evicted, earlier=self._planner
        )
        for task in self.tasks.values() if self._dry_run else ():
            if task.status == PLANNED and task.is_finished and task.last_plan is not None and not self._planner.reserve(task.last_plan):
                task.discard_plan()  # the capacity of the plan is no longer there
        view = ReconcileView(snapshot, self._planner, now_s, now_at_s, {})
        self._observed_in_s = time.monotonic() - now_at_s
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
        patience_s = longest_wait_s(self._options.grace_period_s)
        self.tasks[pod.metadata.uid] = RescueTask(pod, unschedulable_since_s=since_s, settles_at_s=settles_at_s, max_wait_s=patience_s)

    # --- act ---

    def _reconcile_next(self, view: ReconcileView) -> bool:
        """Let the first task in the order that can act do so. Return whether the cluster must be observed again."""
        leading = self._lease.held
        for task in self._in_order():
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

    def _in_order(self) -> list[RescueTask]:
        """Return the tasks in their order: tasks in progress, then the longest time since the last plan, then priority, then age.

        A task in progress is first so that nothing disturbs it. Of pods with the same priority, pods whose plan takes the least time are
        first.
        """

        def rank(task: RescueTask) -> tuple[bool, int, int, bool, float, str]:
            planned_in = task.planned_in_round if task.stage == WATCHED else 0
            priority = effective_priority(task.pod, self._options)
            return task.stage != CLEARING, planned_in, -priority, depends_on_others(task.pod), task.unschedulable_since_s, task.name

        return sorted(self.tasks.values(), key=rank)

    def _begin_round(self, view: ReconcileView) -> None:
        """Begin a new round if every pod that is due was planned in this one. No pod is planned twice before another one is planned."""
        due = [task for task in self._in_stage(WATCHED) if view.now_at_s >= task.plan_at_s]
        if all(task.planned_in_round >= self._round for task in due):
            self._round += 1

    def _reconcile_task(self, task: RescueTask, view: ReconcileView) -> bool:
        if task.is_finished:
            self._complete_finish(task, view)
            return self._remove_finished(task, view)
        if task.uncertain_evictions or (task.stage == CLEARING and not task.loaded):
            if not task.may_request(view.now_at_s):
                return False
            if self._executor.resolve_uncertain(task, view):
                return True
            if task.uncertain_evictions:
                return False  # an eviction is in progress
        end = _end_of(task, leading=self._lease.held) or self._no_longer_critical(task)
        if end is not None:
            task.finish(*end)
            return self._finish(task, view)
        if task.stage == CLEARING:
            scheduler = self._scheduler_health.violation(task.pod, task.unschedulable_since_s, view.snapshot)
            hold_method = BY_NOMINATION if task.hold is not None and task.hold.nominates else None
            changed = self._executor.advance(task, view, scheduler, self._queue_violation(task, hold_method, view))
        else:
            changed = view.now_at_s >= task.plan_at_s and self._plan(task, view)
        # The step may have finished the task.
        return self._finish(task, view) if task.is_finished else changed

    def _no_longer_critical(self, task: RescueTask) -> t.Optional[tuple[str, Reason]]:
        """Return the final status if the pod is no longer critical, for example because its annotation was removed.

        None if the pod is critical. None also for an undecodable pod, because its annotations are not known.
        """
        if undecodable_of(task.pod) is not None or is_critical(task.pod, self._options):
            return None
        return IMPOSSIBLE, Reason(NOT_CRITICAL, not_critical_message(task.pod, self._options))

    def _explain_next(self, view: ReconcileView) -> bool:
        """Find the reasons why no eviction helps, for pods that still lack them.

        Return whether the cluster must be observed again. This takes longer than a plan. All pods that are due are planned first, so that a
        possible rescue does not wait. If some pods are always due, one pod is explained every EXPLAINED_EVERY_S, and none before all were
        planned once.
        """
        waiting = self._in_stage(WATCHED)
        overdue = time.monotonic() > self._explained_at_s + EXPLAINED_EVERY_S and all(task.planned_in_round >= 0 for task in waiting)
        if self._interrupted and not overdue:
            return False
        # Reasons that are only renewed are last.
        for task in sorted(self._in_order(), key=lambda task: task.reason is not UNEXPLAINED):
            if not task.needs_explanation or task.stage != WATCHED:
                continue
            if not overdue and _is_outdated(view):
                self._interrupted = True
                break
            leading = self._lease.held
            try:
                changed = self._plan(task, view, explain=True)
            except KubeError as error:
                changed = self._on_error(task, error, view)
                if leading:
                    self._lease.ensure_held()
            if changed:
                return True
            self._explained_at_s, overdue = time.monotonic(), False
        return False

    def _plan(self, task: RescueTask, view: ReconcileView, *, explain: bool = False) -> bool:
        scheduler = self._scheduler_health.violation(task.pod, task.unschedulable_since_s, view.snapshot)
        began_at_s = time.monotonic()
        # After an eviction for it, the pod may be given up, which requires current reasons.
        plan = self._shared_plan(task, view, task.context(view.now_at_s, scheduler), explain=explain or bool(task.evicted))
        if plan is None:
            self._interrupted = True
            return False
        explained, unexplained = task.explained_plan, plan.reason is UNEXPLAINED
        if unexplained and explained is not None:
            plan = replace(explained, pod=task.pod)
        self._observer.on_planned(task, self._observed_in_s + time.monotonic() - began_at_s)
        plan = self._if_settled(task, plan, view)
        # The result of a run that ends has current reasons.
        needs_explanation = unexplained and plan.status == IMPOSSIBLE and (self._once or explained is None)
        task.accept_plan(plan, view.now_at_s, in_round=self._round, needs_explanation=needs_explanation)
        if plan.status == PLANNED and not self._dry_run and not self._may_write:
            task.wait_for_leader(view.now_at_s, self._lease.holder)
            return False
        first = self._queue_violation(task, plan.hold_method, view) if plan.status == PLANNED and not self._dry_run else None
        if first is not None:
            task.queue(view.now_at_s, first)
            return False
        choice = plan.choice
        changed = choice is not None and self._executor.start(task, plan, choice, view)
        if plan.reason.code == CAPACITY_BECOMING_FREE and not task.loaded and self._may_write:
            changed = self._executor.resume(task, view)
        if plan.status == IMPOSSIBLE and task.evicted and plan.reason.code == NO_NODE and not task.may_change_soon:
            task.finish(FAILED, Reason(NO_OTHER_NODE, f"{len(task.evicted)} pods were evicted, and then: {plan.reason.text}"))
        self._report(task)
        return changed

    def _queue_violation(self, task: RescueTask, hold_method: t.Optional[str], view: ReconcileView) -> t.Optional[Reason]:
        """Return the reason why another rescue must end before pods are evicted for this task. None if there is none.

        Taints and evictions for one pod make the scheduler try the other pods and clear their nominations. While only a nomination reserves
        a node, no other rescue begins.
        """
        if self._options.hold == NONE:
            return None
        hinders = RescueTask.is_under_way if hold_method == BY_NOMINATION else RescueTask.is_held_by_nomination
        others = (other for other in self.tasks.values() if other is not task)
        first = next((other for other in others if hinders(other, view.now_at_s, view.snapshot)), None)
        if first is None:
            return self._overdue_task_violation(task, view)
        return Reason(QUEUED, f"pod {first.name} is rescued first, because only a nomination reserves the capacity for one of both pods")

    def _overdue_task_violation(self, task: RescueTask, view: ReconcileView) -> t.Optional[Reason]:
        """Return the reason why a pod that has waited for other rescues for its maximum time begins first. None if there is none.

        Without this rule, rescues of pods with the same or lower priority could delay that pod without end.
        """
        waiting = [one for one in self.tasks.values() if one.is_next(view.now_at_s)]
        if task.stage == CLEARING or not waiting:
            return None
        priority = {one.uid: effective_priority(one.pod, self._options) for one in (task, *waiting)}
        first = min(waiting, key=lambda one: (-priority[one.uid], one.queued_since_s, one.name))
        if first is task or priority[task.uid] > priority[first.uid]:
            return None
        return Reason(QUEUED, f"pod {first.name} is rescued first, because it has waited for other rescues for a long time")

    @property
    def _may_write(self) -> bool:
        """True if a node may be held now."""
        return self._lease.held and self.accepts_new and not self._dry_run

    def _if_settled(self, task: RescueTask, plan: RescuePlan, view: ReconcileView) -> RescuePlan:
        """Return the plan, or a waiting plan while the scheduler has its settle time. The time restarts when a plan becomes possible."""
        possible = plan.status == PLANNED
        if task.note_possible(possible) and not self._dry_run:
            task.restart_settling(view.now_at_s, self._options.settle_time_s)
        if view.now_at_s >= task.settles_at_s or plan.status == WAITING:
            return plan
        text = f"the scheduler has {self._options.settle_time_s} s to bind it by itself"
        return RescuePlan(task.pod, WAITING, Reason(SETTLING, text))

    def _shared_plan(self, task: RescueTask, view: ReconcileView, context: RescueContext, *, explain: bool) -> t.Optional[RescuePlan]:
        """Return the plan for the pod on this view.

        None if the next plan needs a newer view. Equivalent pods share a plan. On a large cluster plans take long, and new pods, releases
        and signals are due between two of them.
        """
        same = None if view.planner.has_node_for(task.uid) else equivalence_key(task.pod, context, view.snapshot, self._options)
        key = (same, explain) if same is not None else None
        known = view.plans.get(key) if key is not None else None
        if known is not None and known.status != PLANNED:
            return replace(known, pod=task.pod)
        if not explain and _is_outdated(view):
            return None
        plan = view.planner.plan_rescue(task.pod, context, explain=explain)
        if plan.status == PLANNED:
            view.plans.clear()  # a plan reserves capacity and budgets that other pods then lack
        view.plans[key or task.uid] = plan
        return plan

    def _report(self, task: RescueTask) -> None:
        """Report a changed status or reason. An impossible rescue is reported once its reasons are known."""
        reported, reason = task.reported_reason, task.reason
        if reason is UNEXPLAINED:
            return
        if reported is not None and reason is not None and reported.code == reason.code and (task.status != PLANNED or reported == reason):
            return
        task.note_reported()
        self._observer.on_plan_changed(task)
        # Of several replicas of a daemon, the leader writes the Events.
        if task.reason is None or self._dry_run or not (self._once or self._lease.held):
            return
        if task.status == IMPOSSIBLE or task.reason.code in POSTPONED_EVENTS:
            event = POSTPONED_EVENTS.get(task.reason.code, "RescueImpossible")
            self._events.on_pod(task.pod, event, task.reason.text, warning=task.status == IMPOSSIBLE)

    def _finish(self, task: RescueTask, view: ReconcileView) -> bool:
        """Release the node, record the result of the attempt, and notify the observer.

        Failed writes are repeated later: ``Holds.reconcile`` releases the node, and ``_reconcile_task`` records the result.
        """
        if self._dry_run:
            return False
        if self._lease.held:
            self._executor.release_node(task, view.snapshot.nodes)
            self._record_outcome(task, view)
        self._observer.on_finished(task)
        return True

    def _complete_finish(self, task: RescueTask, view: ReconcileView) -> None:
        """Repeat the failed writes of a finished task. ``Holds.reconcile`` releases the nodes in ``Holds.expired``."""
        if self._dry_run or not self._lease.held:
            return
        if task.hold is not None and task.node not in self.holds.expired:
            self._executor.release_node(task, view.snapshot.nodes)
        self._record_outcome(task, view)

    def _record_outcome(self, task: RescueTask, view: ReconcileView) -> None:
        if not task.needs_recording or view.now_at_s < task.retry_at_s:
            return
        try:
            self._executor.record_outcome(task, view)
        except KubeError as error:
            self._observer.on_error(f"{task.name}: the result of the attempt could not be written: {error}")
            if is_transient(error) or isinstance(error, ConflictError):
                task.retry_at(view.now_at_s + ERROR_RETRY_S)
                return
        task.note_recorded_outcome()
        if task.status in (FAILED, RESCUED):
            warning = task.status == FAILED
            self._events.on_pod(task.pod, "RescueFailed" if warning else "Rescued", reason_message(task.reason), warning=warning)

    def _reconcile_attempts(self, view: ReconcileView) -> None:
        """Correct the ConfigMap entries of ended programs, and record the fate of rescued pods.

        Only the leader does this. The first part is done once after the Lease was acquired.
        """
        if not self._lease.held:
            self._attempts_loaded = False
            return
        if self._dry_run or view.now_at_s < self._reconcile_attempts_at_s:
            return
        try:
            if not self._attempts_loaded:
                record_leftover_results(self._attempts, view.snapshot, self.tasks, now_s=view.now_s)
                self._rescued.load(self._attempts.read())
                self._attempts_loaded = True
            self._rescued.record_fates(view.snapshot, view.now_s)
        except KubeError as error:
            self._observer.on_error(f"attempts in the ConfigMap may be out of date: {error}")
            self._reconcile_attempts_at_s = view.now_at_s + ERROR_RETRY_S
        names = self._attempts.dropped
        if names:
            shown = f"{', '.join(names[:MAX_NAMED_PODS])}{' and others' if len(names) > MAX_NAMED_PODS else ''}"
            self._observer.on_error(f"the ConfigMap is full: it no longer has the records of all attempts for {shown}")
            names.clear()

    def _remove_finished(self, task: RescueTask, view: ReconcileView) -> bool:
        """Remove a finished task in a daemon, and add a new one if its rescue failed.

        The limit of attempts still applies. Return whether the cluster must be observed again.
        """
        if self._dry_run and task.status == PLANNED and _end_of(task, leading=False) is None:
            return self._plan_again(task, view)
        if not self._once and not self._must_record(task):
            del self.tasks[task.uid]
            if task.status == FAILED and not task.pod_gone:
                again_at_s = view.now_at_s + REPLAN_S[IMPOSSIBLE]
                self.tasks[task.uid] = RescueTask(
                    task.pod, unschedulable_since_s=task.unschedulable_since_s, settles_at_s=again_at_s, max_wait_s=task.max_wait_s
                )
        return False

    def _must_record(self, task: RescueTask) -> bool:
        """Return whether this program must still record the result. If another program holds the Lease, that program records it."""
        return task.needs_recording and not self._dry_run and self._lease.holder in ("", self._writer)

    def _plan_again(self, task: RescueTask, view: ReconcileView) -> bool:
        """Discard a dry run's plan after some time and plan again, so that the old plan does not reserve capacity.

        Only dry runs that continue do this.
        """
        if self._once or view.now_at_s < task.plan_at_s + REPLAN_S[IMPOSSIBLE]:
            return False
        task.discard_plan()
        return True

    def _on_error(self, task: RescueTask, error: KubeError, view: ReconcileView) -> bool:
        """Handle a failed request. It is repeated later; a forbidden one ends the task, because it does not succeed by itself."""
        self._observer.on_error(f"{task.name}: {error}")
        task.retry_after_error(view.now_at_s + ERROR_RETRY_S)
        # A held node must not wait for an error that lasts, nor without limit for one that may pass.
        has_no_effect = task.stage == CLEARING and (not is_transient(error) or view.now_at_s > task.give_up_at_s)
        if is_permission_error(error) or has_no_effect:
            task.finish(FAILED, Reason("error", str(error)))
            return self._finish(task, view)
        return False

    def _requeue_after_s(self, view: ReconcileView) -> float:
        times = [task.settles_at_s if task.settles_at_s > view.now_at_s else task.plan_at_s for task in self._in_stage(WATCHED)]
        times += [min(task.give_up_at_s, task.retry_at_s or task.give_up_at_s) for task in self._in_stage(CLEARING)]
        ahead = [at_s - view.now_at_s for at_s in times if at_s > view.now_at_s]
        return min([self._idle_s, *([MAX_REQUEUE_CLEARING_S] if self.is_clearing else []), *ahead])

    def _in_stage(self, stage: str) -> list[RescueTask]:
        return [task for task in self.tasks.values() if task.stage == stage]


def _is_outdated(view: ReconcileView) -> bool:
    """Return whether the view is too old for a further plan. A newer view may have a new pod, or a node to release."""
    return bool(view.plans) and time.monotonic() - view.now_at_s > PLAN_SLICE_S


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
