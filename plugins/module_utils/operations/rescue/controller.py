# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The control loop of rescues: observe the cluster, decide which event has occurred for each rescue, and carry out its transition.

``reconcile`` never waits by itself. It does the work that is possible now and returns the time of the next call. The module and the daemon
both call it. If the program is killed, its holds remain on the nodes. The next program takes them over or releases them.
"""

from __future__ import annotations

import math
import time
import typing as t
from dataclasses import replace

from ...kube.cache.informer import REQUIRED_RESOURCES
from ...kube.client.errors import KubeError, UnreachableError, is_transient
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.gc_pause import gc_paused
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_of
from ...rescue.critical import NOT_CRITICAL, effective_priority, is_critical, is_unschedulable, not_critical_message
from ...rescue.equivalence import depends_on_others, equivalence_key
from ...rescue.hold_policy import NO_TOLERATION
from ...rescue.plan import BY_NOMINATION, BY_TAINT, IMPOSSIBLE, PLANNED, WAITING, RescueContext, RescuePlan
from ...rescue.plan_reasons import CAPACITY_BECOMING_FREE, NO_NODE, UNEXPLAINED
from ...rescue.planner import RescuePlanner
from ...rescue.settle_time import changed_nodes, has_opened, may_be_preempted_for, was_preemption_useless
from ...rescue.terminating_pods import longest_wait_s
from ...state.hold import Hold
from ..common.event_recorder import EventRecorder
from ..common.leader_lease import LeaseLostError
from .attempts import AttemptRecorder, AttemptStore
from .effects import Effects
from .environment import ReconcileView, RescueEnvironment
from .evictions import HOLD_LOST
from .holds import Holds
from .nomination_alone import Nominator, queue_violation
from .scheduler_health import SchedulerHealth
from .states import apply
from .task import (
    BINDING,
    FAILED,
    NO_OTHER_NODE,
    NOT_LEADER,
    POD_GONE,
    QUEUED,
    REPLAN_S,
    RESCUED,
    SETTLING,
    WATCHED,
    Event,
    RescueTask,
    limit_of,
)

MAX_REQUEUE_S = 10.0
"""The default maximum of seconds between two calls. Deadlines and ends of grace periods cause no change that a watch shows."""
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
STEPS_PAUSE_S = 0.1
"""Seconds until the next call after so many steps."""
PLAN_SLICE_S = 0.2
"""Seconds after which no further plan begins on the same view."""
EXPLAINED_EVERY_S = 2.0
"""Minimum seconds between two explanations while pods are always due for planning. One pod is explained each time."""
POSTPONED_EVENTS = {"attempts_used_up": "RescueAttemptsUsedUp", "backoff": "RescueBackoff"}
"""The Events of postponed rescues, by the reason's code."""
NO_OTHER_EVICTIONS = (NO_NODE, NO_TOLERATION)
"""A rescue that has evicted pods fails with these reasons. No other evictions are possible, and waiting changes nothing."""


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
        attempts: AttemptStore,
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
        self.attempts = AttemptRecorder(environment, attempts, self._events)
        self.effects = Effects(environment, holds=self.holds, nominator=self.nominations, events=self._events, attempts=self.attempts)
        self._scheduler_health = SchedulerHealth(api, cache)
        self.view: t.Optional[ReconcileView] = None  # as last observed
        self._is_interrupted = False
        self._explained_at_s = 0.0

    def reconcile(self) -> float:
        """Do the work that is possible now. Return the seconds after which the next call is due even if the cluster does not change."""
        stale = self.stale_resources
        self.problem = "; ".join(stale)
        for text in stale:
            self._observer.on_error(text)
        if stale:
            return STALE_RETRY_S
        try:
            self.holds.refresh(self._cache.snapshot(), leading=self._lease.held)
        except KubeError as error:
            if not is_transient(error):
                raise
            self.problem = str(error)
            self._observer.on_error(self.problem)
            return STALE_RETRY_S
        with gc_paused():
            view = self.observe()
            self.attempts.reconcile(view, self.tasks)
            self._is_interrupted = False
            try:
                for _step in range(MAX_STEPS):
                    if not self._step_next(view) and not self._explain_next(view):
                        break
                    view = self.observe()
                else:
                    return STEPS_PAUSE_S  # more steps may be possible now
            except LeaseLostError as error:
                self._observer.on_error(str(error))
                self.abandon_holds()
        return 0.0 if self._is_interrupted else self._requeue_after_s(view)

    def plan_again_if_older(self, since_s: float) -> bool:
        """Let the next ``reconcile`` renew each impossible plan that is older than ``since_s``. Return whether there is one.

        After a failed request the plan is not renewed, because its pause is not over.
        """
        now_at_s = time.monotonic()
        known = (task for task in self._watched() if task.status == IMPOSSIBLE and task.may_request(now_at_s))
        older = [task for task in known if task.planned_at_s < since_s or task.needs_explanation]
        for task in older:
            if task.planned_at_s < since_s:
                task.plan_at_s = now_at_s
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

    def holds_seen(self) -> list[tuple[Node, Hold]]:
        """Return every node with a hold of any program, as last observed."""
        return self.holds.active(self.view.snapshot) if self.view is not None else []

    def abandon_holds(self) -> None:
        """Stop the work on held nodes, because another program may be active.

        The holds remain, and the holder of the Lease takes them over.
        """
        self.nominations.drop_all()
        for task in self.clearing:
            assert self.view is not None
            apply(self.effects, task, Event("lease_lost"), self.view)

    @property
    def has_pending_evictions(self) -> bool:
        """True if the API server may still carry out an eviction that this program requested."""
        return self.effects.evictions.has_pending

    @property
    def clearing(self) -> list[RescueTask]:
        """The tasks for which a node is being cleared."""
        return [task for task in self.tasks.values() if task.is_clearing]

    def _watched(self) -> list[RescueTask]:
        return [task for task in self.tasks.values() if task.stage == WATCHED]

    # --- observe ---

    def observe(self) -> ReconcileView:
        """Return the cluster as it is now, with the tasks and the holds brought up to date."""
        now_s, now_at_s = self._api.now_s(), time.monotonic()
        snapshot, before = self._cache.snapshot(), self.view
        self._update_tasks(snapshot, now_s, now_at_s)
        in_use = {task.node: task.uid for task in self.clearing}
        held = {node.name: hold for node, hold in self.holds.active(snapshot)}
        evicted = {uid: at_s - now_at_s for task in self.tasks.values() for uid, at_s in task.grace_ends_at_s.items()}
        rescued = self.attempts.rescued_pods(now_s).union(task.uid for task in self.tasks.values() if task.pod.spec.node_name)
        earlier = before.planner if before is not None else None
        planner = RescuePlanner(
            snapshot, self._options, now_s=now_s, in_use=in_use, held=held, evicted=evicted, rescued=rescued, earlier=earlier
        )
        view = ReconcileView(snapshot, planner, now_s, now_at_s, {}, time.monotonic() - now_at_s)
        for task in self.tasks.values():
            if task.is_plan and task.last_plan is not None and not planner.reserve(task.last_plan):
                apply(self.effects, task, Event("expired"), view)  # the capacity of the plan is no longer there
        for task in self.tasks.values():
            if task.last_plan is not None and task.is_expected(now_at_s):
                planner.expect(task.last_plan)
        self.view = view
        for node, hold in self.holds.reconcile(snapshot, self.tasks, now_s=now_s, now_at_s=now_at_s, may_write=self._may_write):
            apply(self.effects, self.tasks[hold.uid], Event("hold_found", node=node.name, hold=hold), view)
        return view

    def _update_tasks(self, snapshot: ClusterSnapshot, now_s: float, now_at_s: float) -> None:
        """Use the pods as they are now, and add tasks for new critical pods that the scheduler has reported as Unschedulable."""
        pending = [pod for pod in snapshot.pods if not pod.spec.node_name]
        found = {pod.metadata.uid: pod for pod in pending if pod.metadata.uid in self.tasks or self._is_ours(pod)}
        others = self.tasks.keys() - found.keys()
        if others:  # bound or gone; with 20,000 pods this takes ten times as long as the list of the pending ones
            found.update((pod.metadata.uid, pod) for pod in snapshot.pods if pod.metadata.uid in others)
        for uid, pod in found.items():
            if uid not in self.tasks:
                self.tasks[uid] = self._new_task(pod, snapshot, now_s, now_at_s)
        changes = changed_nodes(self.view.snapshot.nodes, snapshot.nodes) if self.view is not None else []
        for task in self.tasks.values():
            pod = found.get(task.uid, task.pod)
            # A nomination for another node: the scheduler preempts, and its victims may not be visible yet.
            is_preempting = pod.status.nominated_node_name not in ("", task.node, task.pod.status.nominated_node_name)
            task.pod, task.pod_gone = pod, task.uid not in found
            if is_preempting or (changes and not task.is_finished and has_opened(pod, changes, snapshot.profile_of(pod))):
                self._restart_settling(task, snapshot, now_at_s)

    def _is_ours(self, pod: Pod) -> bool:
        if pod.metadata.namespace not in self._options.namespaces or not is_unschedulable(pod):
            return False
        return is_critical(pod, self._options) and self._selected(pod)

    def _new_task(self, pod: Pod, snapshot: ClusterSnapshot, now_s: float, now_at_s: float) -> RescueTask:
        since_s = self._cache.unschedulable_since(pod.metadata.uid) or now_s
        task = RescueTask(pod, since_s, now_at_s, longest_wait_s(self._options.grace_period_s))
        if self.view is not None and was_preemption_useless(pod):
            # The report is new, because the view before did not have it. If a node opens, the scheduler gets time for another attempt.
            task.was_possible = True
        # The condition's time and the present time are from different clocks, so a short wait is measured here.
        elif waited_s(since_s, now_s) <= self._options.settle_time_s + CLOCKS_DIFFER_S:
            self._restart_settling(task, snapshot, now_at_s)
        return task

    def _restart_settling(self, task: RescueTask, snapshot: ClusterSnapshot, now_at_s: float) -> None:
        if may_be_preempted_for(task.pod, snapshot):
            task.restart_settling(now_at_s, self._options.settle_time_s)

    # --- the steps ---

    def _in_order(self) -> list[RescueTask]:
        """Return the tasks in their order: tasks in progress, then the longest time since the last plan, then priority, then age.

        Tasks in progress come first, so that no other task delays them. No pod is planned twice before every other pod that is due. Among
        pods of one priority, those whose plan takes less time come first.
        """

        def rank(task: RescueTask) -> tuple[bool, float, int, bool, float, str]:
            planned_at_s = task.planned_at_s if task.stage == WATCHED else 0.0
            priority = effective_priority(task.pod, self._options)
            return not task.is_clearing, planned_at_s, -priority, depends_on_others(task.pod), task.unschedulable_since_s, task.name

        return sorted(self.tasks.values(), key=rank)

    def _step_next(self, view: ReconcileView) -> bool:
        """Do a step of the first task, in their order, that has one now. Return whether the cluster must be observed again."""
        for task in self._in_order():
            leading = self._lease.held
            try:
                changed = self._step(task, view)
            except KubeError as error:
                changed = self._on_error(task, error, view, leading=leading)
                if not leading and isinstance(error, UnreachableError):
                    return False  # no other task can act either, and the caller must learn of it soon
            if changed:
                return True
        return False

    def _step(self, task: RescueTask, view: ReconcileView) -> bool:
        """Decide which event has ended the wait of the task, and carry out its transition."""
        if task.is_finished:
            return self._step_finished(task, view)
        may_request = task.may_request(view.now_at_s)
        if task.uncertain_evictions or (task.is_clearing and not task.loaded):
            return may_request and apply(self.effects, task, Event("unanswered"), view)
        end = _end_of(task, leading=self._lease.held) or self._no_longer_critical(task)
        if end is not None:
            return apply(self.effects, task, end, view)
        if task.is_clearing:
            if not may_request or (task.stage == BINDING and not self._has_changed(task, view)):
                return False
            return apply(self.effects, task, self._event_on_node(task, view), view)
        return view.now_at_s >= task.plan_at_s and self._plan(task, view)

    def _has_changed(self, task: RescueTask, view: ReconcileView) -> bool:
        """Return whether the plan on the node must be made again, although the pod fits there.

        On 5,000 nodes this plan takes 10 ms. Without this check, it was made for each such pod in each step of another rescue.
        """
        objects = (task.pod, view.snapshot.nodes.get(task.node), *view.pods_on(task.node))
        known, task.planned_objects = task.planned_objects, objects
        unchanged = len(known) == len(objects) and all(now is before for now, before in zip(objects, known))
        return not unchanged or view.now_at_s >= task.plan_at_s

    def _no_longer_critical(self, task: RescueTask) -> t.Optional[Event]:
        """Return the end of the task if the pod is no longer critical, for example because its annotation was removed.

        None if the pod is critical. None also for an undecodable pod, because its annotations are not known.
        """
        if undecodable_of(task.pod) is not None or is_critical(task.pod, self._options):
            return None
        return Event("over", Reason(NOT_CRITICAL, not_critical_message(task.pod, self._options)), IMPOSSIBLE)

    def _event_on_node(self, task: RescueTask, view: ReconcileView) -> Event:
        """Plan again on the node that is being cleared. Return the event that follows from the plan."""
        plan = view.planner.replan_on_node(task.pod, task.node, self._context(task, view), task.plan_limit.victims)
        if plan.status == WAITING:
            if view.now_at_s <= task.give_up_at_s:
                return Event("fits", plan=plan)
            waited = f"the scheduler has not bound it to node {task.node} within {self._options.wait_timeout_s} s"
            return Event("failed", Reason("not_bound", f"{waited}, although the node has enough free capacity"))
        if view.now_at_s > task.hold_ends_at_s:
            duration_s = self._options.wait_timeout_s + self._options.evict_timeout_s
            within = f"within {duration_s} s" if task.hold is None else f"before the deadline of its hold, {task.hold.deadline}"
            return Event("failed", Reason("not_cleared", f"node {task.node} could not be cleared {within}"))
        if plan.status == IMPOSSIBLE or plan.choice is None:
            return Event("given_up", plan.reason)
        task.set_plan(plan)
        pods = view.pods_on(task.node)
        if task.plan_limit.initial_pods is None:
            task.plan_limit = limit_of(plan.choice, pods)
        more = task.plan_limit.violation(plan.choice, pods, task.uid)
        if more is not None:
            return Event("outdated" if task.may_plan_node_again else "given_up", more)
        task.plan_limit = task.plan_limit.with_replaced(plan.choice, pods)
        alone = task.hold is not None and task.hold.nominates
        first = queue_violation(task, BY_NOMINATION if alone else None, self.tasks.values(), self._options, view)
        if first is not None and alone:
            return Event("another_first", first, plan=plan)
        if plan.hold_method == BY_TAINT and (task.hold is None or alone):
            return Event("given_up", HOLD_LOST)
        if first is not None:
            return Event("queued", first, plan=plan)
        return Event("evict", victim=plan.choice.victims[0])

    def _step_finished(self, task: RescueTask, view: ReconcileView) -> bool:
        """Repeat failed writes of a finished task. In a daemon, also remove it, and add a new one if its rescue failed.

        The limit of attempts still applies. Return whether the cluster must be observed again.
        """
        if self._dry_run and task.is_plan and _end_of(task, leading=False) is None:
            if self._once or view.now_at_s < task.plan_at_s + REPLAN_S[IMPOSSIBLE]:
                return False
            return apply(self.effects, task, Event("expired"), view)
        if not self._dry_run and self._lease.held and (task.hold is not None or task.needs_recording):
            apply(self.effects, task, Event("unwritten"), view)
        if not self._once and not self.attempts.must_record(task):
            apply(self.effects, task, Event("done"), view)
            del self.tasks[task.uid]
            if task.status == FAILED and not task.pod_gone:
                again_at_s = view.now_at_s + REPLAN_S[IMPOSSIBLE]
                self.tasks[task.uid] = RescueTask(task.pod, task.unschedulable_since_s, again_at_s, task.max_wait_s)
        return False

    def _on_error(self, task: RescueTask, error: KubeError, view: ReconcileView, *, leading: bool) -> bool:
        """Handle a failed request of the task. Return whether the cluster must be observed again.

        Raise LeaseLostError if this program has lost the Lease. ``leading``: it had the Lease before the request.
        """
        changed = apply(self.effects, task, Event("error", error=error), view)
        if leading:
            self._lease.ensure_held()
        return changed

    @property
    def _may_write(self) -> bool:
        """True if a node may be held now."""
        return self._lease.held and self.accepts_new and not self._dry_run

    def _requeue_after_s(self, view: ReconcileView) -> float:
        times = [task.settles_at_s if task.settles_at_s > view.now_at_s else task.plan_at_s for task in self._watched()]
        times += [min(task.give_up_at_s, task.retry_at_s or task.give_up_at_s) for task in self.clearing]
        ahead = [at_s - view.now_at_s for at_s in times if at_s > view.now_at_s]
        return min([self._idle_s, *([MAX_REQUEUE_CLEARING_S] if self.clearing else []), *ahead])

    # --- the plans ---

    def _explain_next(self, view: ReconcileView) -> bool:
        """Find the reasons why no eviction helps, for pods that still lack them. Return whether the cluster must be observed again.

        This takes longer than a plan. All pods that are due are planned before, so that a possible rescue does not wait. If some pods are
        always due, one pod is explained every EXPLAINED_EVERY_S seconds. No pod is explained before all were planned once.
        """
        all_planned = all(task.planned_at_s > -math.inf for task in self._watched())
        overdue = all_planned and time.monotonic() > self._explained_at_s + EXPLAINED_EVERY_S
        if self._is_interrupted and not overdue:
            return False
        # Reasons that are only renewed are last.
        for task in sorted(self._in_order(), key=lambda task: task.reason is not UNEXPLAINED):
            if not task.needs_explanation or task.stage != WATCHED:
                continue
            if not overdue and _is_outdated(view):
                self._is_interrupted = True
                break
            leading = self._lease.held
            try:
                changed = self._plan(task, view, explain=True)
            except KubeError as error:
                changed = self._on_error(task, error, view, leading=leading)
            if changed:
                return True
            self._explained_at_s, overdue = time.monotonic(), False
        return False

    def _plan(self, task: RescueTask, view: ReconcileView, *, explain: bool = False) -> bool:
        """Plan the pod, and carry out the transition that follows. Return whether the cluster must be observed again."""
        began_at_s, context = time.monotonic(), self._context(task, view)
        # A pod for which pods were evicted may fail with this plan. Its result then needs current reasons.
        plan = self._shared_plan(task, view, context, explain=explain or bool(task.evicted))
        if plan is None:
            self._is_interrupted = True
            return False
        explained, unexplained = task.explained_plan, plan.reason is UNEXPLAINED
        if unexplained and explained is not None:
            plan = replace(explained, pod=task.pod)
        self._observer.on_planned(task, view.observed_in_s + time.monotonic() - began_at_s)
        task.planned_at_s = view.now_at_s
        event = self._settling(task, plan, view)
        if event is None:
            # The result of a run that ends has current reasons.
            task.needs_explanation = unexplained and plan.status == IMPOSSIBLE and (self._once or explained is None)
            task.set_plan(plan)
            task.note_wait(view.now_at_s)
            task.plan_at_s = max(view.now_at_s + REPLAN_S.get(plan.status, 0.0), task.settles_at_s)
            if task.is_expected(view.now_at_s):
                view.planner.expect(plan)
            event = self._event_of(task, plan, view)
        changed = apply(self.effects, task, event, view)
        self._report(task)
        return changed

    def _settling(self, task: RescueTask, plan: RescuePlan, view: ReconcileView) -> t.Optional[Event]:
        """Return the event while the scheduler has its settle time. The time restarts when a plan becomes possible."""
        possible = plan.status == PLANNED
        if possible and not task.was_possible and not self._dry_run:
            self._restart_settling(task, view.snapshot, view.now_at_s)
        task.was_possible = possible
        if view.now_at_s >= task.settles_at_s or plan.status == WAITING:
            return None
        task.needs_explanation = False
        reason = Reason(SETTLING, f"the scheduler has {self._options.settle_time_s} s to bind it by itself")
        return Event("held_back", reason, plan=plan)

    def _event_of(self, task: RescueTask, plan: RescuePlan, view: ReconcileView) -> Event:
        """Return the event that follows from the plan for a pod for which no node is being cleared."""
        if plan.status == PLANNED and not self._dry_run:
            if not self._may_write:
                holder = self._lease.holder or "another program"
                return Event("held_back", Reason(NOT_LEADER, f"{holder} has the Lease and does the rescues"), plan=plan)
            first = queue_violation(task, plan.hold_method, self.tasks.values(), self._options, view)
            if first is not None:
                return Event("held_back", first, plan=plan)
        if plan.status == PLANNED:
            return Event("possible", plan=plan)
        if plan.reason.code == CAPACITY_BECOMING_FREE and not task.loaded and self._may_write:
            return Event("resumable")
        if plan.status == WAITING:
            return Event("waits")
        excluded = (*task.excluded_nodes.values(), *task.excluded_victims.values())
        if task.evicted and plan.reason.code in NO_OTHER_EVICTIONS and all(until_s == math.inf for until_s in excluded):
            return Event("failed", Reason(NO_OTHER_NODE, f"{len(task.evicted)} pods were evicted, and then: {plan.reason.text}"))
        return Event("impossible")

    def _context(self, task: RescueTask, view: ReconcileView) -> RescueContext:
        scheduler = self._scheduler_health.violation(task.pod, task.unschedulable_since_s, view.snapshot)
        return task.context(view.now_at_s, scheduler)

    def _shared_plan(self, task: RescueTask, view: ReconcileView, context: RescueContext, *, explain: bool) -> t.Optional[RescuePlan]:
        """Return the plan for the pod on this view. None if the view is too old, so that the next plan needs a newer one.

        Equivalent pods share a plan. On a large cluster plans take long, and new pods, releases and signals must be handled between two of
        them.
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
        if reason is None or reason is UNEXPLAINED or reason.code in (NOT_LEADER, QUEUED) or (task.is_finished and not task.is_plan):
            return
        if reported is not None and reported.code == reason.code and (task.status != PLANNED or reported == reason):
            return
        task.reported_reason = reason
        self._observer.on_plan_changed(task)
        # Of several replicas of a daemon, the leader writes the Events.
        if self._dry_run or not (self._once or self._lease.held):
            return
        if task.status == IMPOSSIBLE or reason.code in POSTPONED_EVENTS:
            event = POSTPONED_EVENTS.get(reason.code, "RescueImpossible")
            self._events.on_pod(task.pod, event, reason.text, warning=task.status == IMPOSSIBLE)


def _is_outdated(view: ReconcileView) -> bool:
    """Return whether the view is too old for a further plan. A newer view may have a new pod, or a node to release."""
    return bool(view.plans) and time.monotonic() - view.now_at_s > PLAN_SLICE_S


def _end_of(task: RescueTask, *, leading: bool) -> t.Optional[Event]:
    """Return the end of the task if the pod is bound, or does not exist any more. None otherwise.

    Only the leader knows that no rescue was involved.
    """
    if task.pod_gone or task.pod.terminating or task.pod.terminal:
        text = f"the pod was deleted before it was bound; pods evicted for it: {len(task.evicted)}"
        return Event("over", Reason("pod_gone", text), POD_GONE)
    if not task.pod.spec.node_name:
        return None
    node = task.pod.spec.node_name
    by_itself = leading and not task.attempt_started
    text = f"the scheduler has bound it to node {node} by itself" if by_itself else f"it is bound to node {node}"
    return Event("over", Reason("bound", text), RESCUED)
