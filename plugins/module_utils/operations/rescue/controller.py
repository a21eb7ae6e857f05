# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""All rescues of one program, from the observation of the cluster to the end of the program. ``states.py`` has the way of one rescue.

``reconcile`` never waits by itself. It does the work that is possible now and returns the time of the next call. The module and the daemon
both call it. If the program is killed, its holds remain on the nodes. The next program takes them over or releases them.
"""

from __future__ import annotations

import math
import time
import typing as t

from ...kube.cache.informer import REQUIRED_RESOURCES
from ...kube.client.errors import KubeError, UnreachableError
from ...model.api.pod import Pod
from ...model.gc_pause import gc_paused
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...rescue.critical import effective_priority, is_critical, is_unschedulable
from ...rescue.equivalence import depends_on_others
from ...rescue.held_nodes import HeldNode
from ...rescue.plan import IMPOSSIBLE, PLANNED, WAITING
from ...rescue.plan_reasons import UNEXPLAINED
from ...rescue.planner import RescuePlanner
from ...rescue.settle_time import changed_nodes, has_opened, was_preemption_useless
from ...rescue.terminating_pods import longest_wait_s
from ..common.config_map_store import ConfigMapStore
from ..common.leader_lease import LeaseLostError
from .attempts import AttemptRecorder
from .decisions import Decisions, end_of, is_outdated
from .effects import Effects
from .environment import ReconcileView, RescueEnvironment
from .holds import Holds
from .nomination_alone import Nominator
from .states import apply
from .task import FAILED, NOT_LEADER, QUEUED, REPLAN_S, WATCHED, Event, RescueTask

MAX_REQUEUE_S = 10.0
"""The default maximum of seconds between two calls. Deadlines and ends of grace periods cause no change that a watch shows."""
SEEN_LIVE_S = 2.0
"""A condition of at most this age counts as new. Its time has only whole seconds, so that a new one seems up to a second old."""
CLOCKS_DIFFER_S = 60.0
"""The maximum expected difference between the clocks of the scheduler and of the API servers."""
MAX_REQUEUE_CLEARING_S = 1.0
"""The same as MAX_REQUEUE_S while a node is being cleared or must be released."""
PENDING_EVICTIONS_POLL_S = 0.05
"""Interval of the check for pending evictions at the end of the program."""
STALE_RETRY_S = 1.0
"""Seconds until the next call if the watches are broken."""
MAX_STEPS = 50
"""Limit of steps in one call of ``reconcile``. Without it, a loop of steps that does not end would never return to the caller."""
STEPS_PAUSE_S = 0.1
"""Seconds until the next call after so many steps."""
EXPLAINED_EVERY_S = 2.0
"""Minimum seconds between two explanations while pods are always due for planning. One pod is explained each time."""
POSTPONED_EVENTS = {"attempts_used_up": "RescueAttemptsUsedUp", "backoff": "RescueBackoff"}
"""The Events of postponed rescues, by the reason's code."""


class RescueController:
    """The rescue tasks of one program.

    ``selected`` selects the critical pods that this program handles. With ``once``, a finished task stays finished; otherwise its pod is
    planned again later. ``idle_s`` is the maximum of seconds between two calls. ``accepts_new``: new nodes may be cleared. ``problem`` is
    the reason why the last ``reconcile`` could not work; empty if it could.
    """

    def __init__(
        self,
        environment: RescueEnvironment,
        store: ConfigMapStore,
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
        self.nominations = Nominator(api, cache, self._lease)
        self.holds = Holds(environment)
        self.attempts = AttemptRecorder(environment, store)
        self.effects = Effects(environment, holds=self.holds, nominator=self.nominations, attempts=self.attempts)
        self._decisions = Decisions(environment, self.tasks, once=once)
        self.view: t.Optional[ReconcileView] = None  # as last observed
        self._is_cut_off = False
        self._explained_at_s = 0.0
        self._kept: set[str] = set()

    def reconcile(self) -> float:
        """Do the work that is possible now. Return the seconds after which the next call is due even if the cluster does not change."""
        self.problem = "; ".join(self.stale_resources)
        if self.problem:
            self._observer.on_error(self.problem)
            return STALE_RETRY_S
        with gc_paused():
            view = self.observe()
            self.attempts.reconcile(view, self.tasks)
            self._decisions.is_interrupted = False
            try:
                for _step in range(MAX_STEPS):
                    if not self._step_next(view) and not self._explain_next(view):
                        break
                    view = self.observe()
                else:
                    return STEPS_PAUSE_S  # more steps may be possible now
            except LeaseLostError as error:
                self._observer.on_error(str(error))
                self.abandon()
        return 0.0 if self._decisions.is_interrupted else self._requeue_after_s(view)

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

    def holds_seen(self) -> list[HeldNode]:
        """Return every node with a hold of any program, as last observed."""
        return self.holds.active(self.view.snapshot, self.tasks) if self.view is not None else []

    def abandon(self) -> None:
        """Stop the work on held nodes, because another program may be active.

        The holds remain, and the holder of the Lease takes them over.
        """
        self.nominations.drop_all()
        if self.view is not None:
            for task in self.clearing:
                apply(self.effects, task, Event("lease_lost"), self.view)
        for task in self.tasks.values():
            task.loaded = False  # the next leader may evict pods for it

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
        in_use = {held.node.name: held.uid for held in self.holds.active(snapshot, self.tasks)}
        in_use.update((task.clearing.node, task.uid) for task in self.clearing)
        evicted = {uid: at_s - now_at_s for task in self.tasks.values() for uid, at_s in task.grace_ends_at_s.items()}
        rescued = self.attempts.rescued_pods(now_s).union(task.uid for task in self.tasks.values() if task.pod.spec.node_name)
        earlier = before.planner if before is not None else None
        planner = RescuePlanner(snapshot, self._options, now_s=now_s, in_use=in_use, evicted=evicted, rescued=rescued, earlier=earlier)
        may_write = self._lease.held and self.accepts_new and not self._dry_run
        view = ReconcileView(snapshot, planner, now_s, now_at_s, {}, time.monotonic() - now_at_s, may_write)
        for task in self.tasks.values():
            if task.is_plan and task.last_plan is not None and not planner.reserve(task.last_plan):
                apply(self.effects, task, Event("expired"), view)  # the capacity of the plan is no longer there
        for task in self.tasks.values():
            if task.last_plan is not None and task.is_expected(now_at_s):
                planner.expect(task.last_plan)
        self.view = view
        for found in self.holds.reconcile(view, self.tasks):
            if not self.tasks[found.uid].is_clearing:  # a pod keeps one node, and the next check releases the others
                apply(self.effects, self.tasks[found.uid], Event("hold_found", found), view)
        return view

    def _update_tasks(self, snapshot: ClusterSnapshot, now_s: float, now_at_s: float) -> None:
        """Use the pods as they are now, and add tasks for new critical pods that the scheduler has reported as Unschedulable."""
        found = {pod.metadata.uid: pod for pod in snapshot.pending_pods if pod.metadata.uid in self.tasks or self._is_ours(pod)}
        others = {uid: self._cache.pod(uid) for uid in self.tasks.keys() - found.keys()}  # bound or gone
        found.update((uid, pod) for uid, pod in others.items() if pod is not None)
        for uid, pod in found.items():
            if uid not in self.tasks:
                self.tasks[uid] = self._new_task(pod, snapshot, now_s, now_at_s)
        changes = changed_nodes(self.view.snapshot.nodes, snapshot.nodes) if self.view is not None else []
        for task in self.tasks.values():
            pod = found.get(task.uid, task.pod)
            # A nomination for another node: the scheduler preempts, and its victims may not be visible yet.
            is_preempting = pod.status.nominated_node_name not in ("", task.clearing.node, task.pod.status.nominated_node_name)
            task.pod, task.pod_gone = pod, task.uid not in found
            if is_preempting or (changes and not task.is_finished and has_opened(pod, changes, snapshot.profile_of(pod))):
                self._decisions.restart_settling(task, snapshot, now_at_s)

    def _is_ours(self, pod: Pod) -> bool:
        if pod.metadata.namespace not in self._options.namespaces or not is_unschedulable(pod):
            return False
        return is_critical(pod, self._options) and self._selected(pod)

    def _new_task(self, pod: Pod, snapshot: ClusterSnapshot, now_s: float, now_at_s: float) -> RescueTask:
        since_s = self._cache.unschedulable_since(pod.metadata.uid) or now_s
        seconds = now_s - since_s
        if seconds <= SEEN_LIVE_S:
            seconds = 0.0
        task = RescueTask(pod, since_s, now_at_s, longest_wait_s(self._options.grace_period_s), now_at_s - seconds)
        if self.view is not None and was_preemption_useless(pod):
            # The report is new, because the view before did not have it. If a node opens, the scheduler gets time for another attempt.
            task.was_possible = True
        # The condition's time and the present time are from different clocks, so a short wait is measured here.
        elif seconds <= self._options.settle_time_s + CLOCKS_DIFFER_S:
            self._decisions.restart_settling(task, snapshot, now_at_s)
        return task

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
        self._is_cut_off = False
        for task in self._in_order():
            changed = self._step(task, view)
            if changed or self._is_cut_off:
                return changed
        return False

    def _step(self, task: RescueTask, view: ReconcileView, *, explain: bool = False) -> bool:
        """Carry out the transition of the event that has ended the wait of the task. A failed request is another event.

        ``explain``: only plan the pod, and find the reasons why no eviction helps. Return whether the cluster must be observed again.
        """
        if task.is_finished:
            return self._step_finished(task, view)
        leading, was_watched = self._lease.held, task.stage == WATCHED
        try:
            event = self._decisions.planned(task, view, explain=True) if explain else self._decisions.event_of(task, view)
            changed = event is not None and apply(self.effects, task, event, view)
            if event is not None and was_watched:
                self._report(task)
            return changed
        except KubeError as error:
            changed = apply(self.effects, task, Event("error", error), view)
            if leading:
                self._lease.ensure_held()
            # No other task can act either, and the caller must learn of it soon.
            self._is_cut_off = not leading and isinstance(error, UnreachableError)
            return changed

    def _step_finished(self, task: RescueTask, view: ReconcileView) -> bool:
        """Repeat failed writes of a finished task. In a daemon, also remove it, and add a new one if its rescue failed.

        The limit of attempts still applies. Return whether the cluster must be observed again.
        """
        if self._dry_run and task.is_plan and end_of(task, leading=False) is None:
            if self._once or view.now_at_s < task.plan_at_s + REPLAN_S[IMPOSSIBLE]:
                return False
            return apply(self.effects, task, Event("expired"), view)
        if not self._dry_run and self._lease.held and (task.clearing.hold is not None or task.needs_recording):
            apply(self.effects, task, Event("unwritten"), view)
        if not self._once and not self.attempts.must_record(task):
            apply(self.effects, task, Event("done"), view)
            del self.tasks[task.uid]
            if task.status == FAILED and not task.pod_gone:
                self.tasks[task.uid] = task.started_again(view.now_at_s + REPLAN_S[IMPOSSIBLE])
        return False

    def _requeue_after_s(self, view: ReconcileView) -> float:
        times = [task.settles_at_s if task.settles_at_s > view.now_at_s else task.plan_at_s for task in self._watched()]
        times += [min(task.clearing.give_up_at_s, task.retry_at_s or task.clearing.give_up_at_s) for task in self.clearing]
        ahead = [at_s - view.now_at_s for at_s in times if at_s > view.now_at_s]
        is_soon = self.clearing or (view.may_write and self.holds.expired)
        return min([self._idle_s, *([MAX_REQUEUE_CLEARING_S] if is_soon else []), *ahead])

    # --- the reasons ---

    def _explain_next(self, view: ReconcileView) -> bool:
        """Find the reasons why no eviction helps, for pods that still lack them. Return whether the cluster must be observed again.

        This takes longer than a plan. All pods that are due are planned before, so that a possible rescue does not wait. If some pods are
        always due, one pod is explained every EXPLAINED_EVERY_S seconds. No pod is explained before all were planned once.
        """
        all_planned = all(task.planned_at_s > -math.inf for task in self._watched())
        overdue = all_planned and time.monotonic() > self._explained_at_s + EXPLAINED_EVERY_S
        if self._decisions.is_interrupted and not overdue:
            return False
        # Reasons that are only renewed are last.
        for task in sorted(self._in_order(), key=lambda task: task.reason is not UNEXPLAINED):
            if not task.needs_explanation or task.stage != WATCHED:
                continue
            if not overdue and is_outdated(view):
                self._decisions.is_interrupted = True
                break
            if self._step(task, view, explain=True):
                return True
            self._explained_at_s, overdue = time.monotonic(), False
        return False

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
            self.environment.events.on_pod(task.pod, event, reason.text, warning=task.status == IMPOSSIBLE)

    # --- the end of the program ---

    def release_all_holds(self) -> None:
        """Release every held node, whichever program holds it. Raise LeaseLostError and KubeError."""
        self._lease.ensure_held()
        for held in self.holds.active(self._cache.snapshot(), self.tasks):
            self.holds.release(held)

    def release_own_holds(self) -> None:
        """Release the nodes that this program holds, as last observed. The tasks keep their state. Raise LeaseLostError."""
        view = self.view
        if view is None:
            return
        for task in self.tasks.values():
            if task.uid not in self._kept:
                self.effects.release_node(task, view.snapshot.nodes)
        for held in self.still_held:
            self._lease.ensure_held()
            self.holds.release(held)

    @property
    def pending_write(self) -> str:
        """The eviction that may still be carried out. The next leader does not know of it, so it must not begin too early."""
        return "an eviction is not answered yet" if self.effects.evictions.has_pending else ""

    def hand_over(self) -> str:
        """Release the holds that this program has not finished. Return an error text about what is left. Raise LeaseLostError."""
        self.release_own_holds()
        left = ", ".join(sorted(held.node.name for held in self.still_held))
        return f"these nodes were not released; the next leader releases them: {left}" if left else ""

    def keep_holds(self) -> None:
        """Keep the holds of the rescues that have begun. The next program continues these rescues, or releases their nodes.

        The program ends then. Its holds and attempts are complete, as after the end of a killed program.
        """
        for task in self.clearing:
            self._kept.add(task.uid)
            number = len(task.evicted)
            pods = "1 pod was" if number == 1 else f"{number or 'no'} pods were"
            until = f", which is held for it until {task.clearing.hold.deadline} at most" if task.clearing.hold is not None else ""
            text = f"{pods} evicted from node {task.clearing.node}{until}: run the module again, or run the rescuer, to complete the rescue"
            task.status, task.reason = WAITING, Reason("rescue_begun", f"{text} and to release the node")

    @property
    def still_held(self) -> list[HeldNode]:
        """The holds that this program has placed or taken over and must release."""
        own = (held for held in self.holds_seen() if self.holds.own.get(held.node.name) == held.hold)
        return [held for held in own if held.uid not in self._kept]

    @property
    def unrecorded(self) -> list[RescueTask]:
        """The finished tasks whose result this program must still record."""
        return [task for task in self.tasks.values() if self.attempts.must_record(task)]

    def finish_evictions(self, timeout_s: float, *, hurried: t.Callable[[], bool] = lambda: False) -> bool:
        """Wait until no eviction can be carried out any more, and record the evicted pods.

        Return False if that takes longer than ``timeout_s`` seconds or ``hurried`` returns True. The program ends then, so no further node
        is cleared.
        """
        self.accepts_new = False
        end_at_s = time.monotonic() + timeout_s
        while self.pending_write:
            if hurried() or time.monotonic() > end_at_s:
                return False
            time.sleep(PENDING_EVICTIONS_POLL_S)
        try:
            unclear = [task for task in self.tasks.values() if task.uncertain_evictions]
            if unclear:
                view = self.observe()
                for task in unclear:
                    apply(self.effects, task, Event("unanswered"), view)
        except (KubeError, LeaseLostError) as error:
            self._observer.on_error(f"it is not known which pods were evicted at the end: {error}")
        return True

    def record_open_attempts(self) -> None:
        """Record the results of the attempts whose pods are still unschedulable.

        The program ends then, and no node is being cleared for these pods. Attempts with evicted pods have failed.
        """
        tasks = (task for task in self.tasks.values() if task.stage == WATCHED)
        open_tasks = [task for task in tasks if task.attempt_started and not task.outcome_recorded]
        if not open_tasks or self._dry_run or not self._lease.held:
            return
        try:
            view = self.observe()
            for task in open_tasks:
                self._lease.ensure_held()
                self.attempts.record_outcome(task, view)
                task.outcome_recorded = True
        except (KubeError, LeaseLostError) as error:
            self._observer.on_error(f"the results of attempts could not be written at the end of the run: {error}")
