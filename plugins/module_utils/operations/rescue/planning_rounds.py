# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The order in which pods are planned, and the plan of each. In each round, every pod that is due is planned once."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping
from dataclasses import replace

from ...kube.client.errors import KubeError
from ...model.reason import Reason
from ...rescue.critical import effective_priority
from ...rescue.equivalence import depends_on_others, equivalence_key
from ...rescue.hold_policy import NO_TOLERATION
from ...rescue.options import NONE
from ...rescue.plan import BY_NOMINATION, IMPOSSIBLE, PLANNED, WAITING, RescueContext, RescuePlan
from ...rescue.plan_reasons import CAPACITY_BECOMING_FREE, NO_NODE, UNEXPLAINED
from ..common.event_recorder import EventRecorder
from .environment import RescueEnvironment
from .executor import RescueExecutor
from .reconcile_view import ReconcileView
from .scheduler_health import SchedulerHealth
from .task import CLEARING, FAILED, NO_OTHER_NODE, QUEUED, SETTLING, WATCHED, RescueTask

PLAN_SLICE_S = 0.2
"""Seconds after which no further plan begins on the same view."""
EXPLAINED_EVERY_S = 2.0
"""Minimum seconds between two explanations while pods are always due for planning. One pod is explained each time."""
POSTPONED_EVENTS = {"attempts_used_up": "RescueAttemptsUsedUp", "backoff": "RescueBackoff"}
"""The Events of postponed rescues, by the reason's code."""

OnError = t.Callable[[RescueTask, KubeError, ReconcileView], bool]

NO_OTHER_EVICTIONS = (NO_NODE, NO_TOLERATION)
"""A rescue that has evicted pods fails with these reasons. No other evictions are possible, and waiting changes nothing."""


class PlanningRounds:
    """Plans the tasks of a program. In a round, each pod that is due is planned once.

    ``once``: a finished task stays finished. ``may_write``: returns whether a node may be held now. ``is_interrupted``: pods are due that
    were not planned, because the view had become too old.
    """

    def __init__(
        self,
        environment: RescueEnvironment,
        tasks: Mapping[str, RescueTask],
        executor: RescueExecutor,
        events: EventRecorder,
        *,
        once: bool,
        may_write: t.Callable[[], bool],
    ) -> None:
        self.is_interrupted = False
        self._options, self._lease, self._observer = environment.options, environment.lease, environment.observer
        self._dry_run, self._once, self._may_write = environment.dry_run, once, may_write
        self._tasks, self._executor, self._events = tasks, executor, events
        self._scheduler_health = SchedulerHealth(environment.api, environment.cache)
        self._round = 0
        self._explained_at_s = 0.0

    def advance(self, task: RescueTask, view: ReconcileView) -> bool:
        """Do the next step on the node that is being cleared. Return whether the cluster must be observed again."""
        scheduler = self._scheduler_health.violation(task.pod, task.unschedulable_since_s, view.snapshot)
        hold_method = BY_NOMINATION if task.hold is not None and task.hold.nominates else None
        return self._executor.advance(task, view, scheduler, self._queue_violation(task, hold_method, view))

    def in_order(self) -> list[RescueTask]:
        """Return the tasks in their order: tasks in progress, then the longest time since the last plan, then priority, then age.

        Tasks in progress come first, so that no other task delays them. Among pods of one priority, those whose plan takes less time come
        first.
        """

        def rank(task: RescueTask) -> tuple[bool, int, int, bool, float, str]:
            planned_in = task.planned_in_round if task.stage == WATCHED else 0
            priority = effective_priority(task.pod, self._options)
            return task.stage != CLEARING, planned_in, -priority, depends_on_others(task.pod), task.unschedulable_since_s, task.name

        return sorted(self._tasks.values(), key=rank)

    def begin_round(self, view: ReconcileView) -> None:
        """Begin a call of ``reconcile``, and a new round if every pod that is due was planned in this one.

        No pod is planned twice before another one is planned.
        """
        self.is_interrupted = False
        due = [task for task in self._watched() if view.now_at_s >= task.plan_at_s]
        if all(task.planned_in_round >= self._round for task in due):
            self._round += 1

    def explain_next(self, view: ReconcileView, on_error: OnError) -> bool:
        """Find the reasons why no eviction helps, for pods that still lack them. Return whether the cluster must be observed again.

        This takes longer than a plan. All pods that are due are planned before, so that a possible rescue does not wait. If some pods are
        always due, one pod is explained every EXPLAINED_EVERY_S seconds. No pod is explained before all were planned once.
        """
        waiting = self._watched()
        overdue = time.monotonic() > self._explained_at_s + EXPLAINED_EVERY_S and all(task.planned_in_round >= 0 for task in waiting)
        if self.is_interrupted and not overdue:
            return False
        # Reasons that are only renewed are last.
        for task in sorted(self.in_order(), key=lambda task: task.reason is not UNEXPLAINED):
            if not task.needs_explanation or task.stage != WATCHED:
                continue
            if not overdue and _is_outdated(view):
                self.is_interrupted = True
                break
            leading = self._lease.held
            try:
                changed = self.plan(task, view, explain=True)
            except KubeError as error:
                changed = on_error(task, error, view)
                if leading:
                    self._lease.ensure_held()
            if changed:
                return True
            self._explained_at_s, overdue = time.monotonic(), False
        return False

    def plan(self, task: RescueTask, view: ReconcileView, *, explain: bool = False) -> bool:
        """Plan the pod, and begin its rescue if evictions help. Return whether the cluster must be observed again."""
        scheduler = self._scheduler_health.violation(task.pod, task.unschedulable_since_s, view.snapshot)
        began_at_s = time.monotonic()
        context = task.context(view.now_at_s, scheduler)._replace(note=task.exclusions.given_up_text)
        # A pod for which pods were evicted may fail with this plan. Its result then needs current reasons.
        plan = self._shared_plan(task, view, context, explain=explain or bool(task.evicted))
        if plan is None:
            self.is_interrupted = True
            return False
        explained, unexplained = task.explained_plan, plan.reason is UNEXPLAINED
        if unexplained and explained is not None:
            plan = replace(explained, pod=task.pod)
        self._observer.on_planned(task, view.observed_in_s + time.monotonic() - began_at_s)
        plan = self._if_settled(task, plan, view)
        # The result of a run that ends has current reasons.
        needs_explanation = unexplained and plan.status == IMPOSSIBLE and (self._once or explained is None)
        task.accept_plan(plan, view.now_at_s, in_round=self._round, needs_explanation=needs_explanation)
        if task.is_expected(view.now_at_s):
            view.planner.expect(plan)
        if plan.status == PLANNED and not self._dry_run and not self._may_write():
            task.wait_for_leader(view.now_at_s, self._lease.holder)
            return False
        first = self._queue_violation(task, plan.hold_method, view) if plan.status == PLANNED and not self._dry_run else None
        if first is not None:
            task.queue(view.now_at_s, plan, first)
            if task.is_expected(view.now_at_s) and task.last_plan is not None:
                view.planner.expect(task.last_plan)
            return False
        choice = plan.choice
        changed = choice is not None and self._executor.start(task, plan, choice, view)
        if plan.reason.code == CAPACITY_BECOMING_FREE and not task.loaded and self._may_write():
            changed = self._executor.resume(task, view)
        if plan.status == IMPOSSIBLE and task.evicted and plan.reason.code in NO_OTHER_EVICTIONS and not task.exclusions.may_change_soon:
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
        others = (other for other in self._tasks.values() if other is not task)
        first = next((other for other in others if hinders(other, view.now_at_s, view.snapshot)), None)
        if first is None:
            return self._overdue_task_violation(task, view)
        return Reason(QUEUED, f"pod {first.name} is rescued first, because only a nomination reserves the capacity for one of the two pods")

    def _overdue_task_violation(self, task: RescueTask, view: ReconcileView) -> t.Optional[Reason]:
        """Return the reason why a pod that has waited for other rescues for its maximum time begins first. None if there is none.

        Without this rule, rescues of pods with the same or lower priority could delay that pod without end.
        """
        waiting = [one for one in self._tasks.values() if one.is_next(view.now_at_s)]
        if task.stage == CLEARING or not waiting:
            return None
        priority = {one.uid: effective_priority(one.pod, self._options) for one in (task, *waiting)}
        first = min(waiting, key=lambda one: (-priority[one.uid], one.waits.queued_since_s, one.name))
        if first is task or priority[task.uid] > priority[first.uid]:
            return None
        return Reason(QUEUED, f"pod {first.name} is rescued first, because it has waited for other rescues for a long time")

    def _if_settled(self, task: RescueTask, plan: RescuePlan, view: ReconcileView) -> RescuePlan:
        """Return the plan, or a waiting plan while the scheduler has its settle time. The time restarts when a plan becomes possible."""
        possible = plan.status == PLANNED
        if task.note_possible(possible) and not self._dry_run:
            task.restart_settling(view.now_at_s, self._options.settle_time_s)
        if view.now_at_s >= task.settling.ends_at_s or plan.status == WAITING:
            return plan
        text = f"the scheduler has {self._options.settle_time_s} s to bind it by itself"
        # The pod keeps its node meanwhile, as a queued pod does.
        return RescuePlan(task.pod, WAITING, Reason(SETTLING, text), next_node=plan.choice.node if plan.choice is not None else "")

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

    def _watched(self) -> list[RescueTask]:
        return [task for task in self._tasks.values() if task.stage == WATCHED]


def _is_outdated(view: ReconcileView) -> bool:
    """Return whether the view is too old for a further plan. A newer view may have a new pod, or a node to release."""
    return bool(view.plans) and time.monotonic() - view.now_at_s > PLAN_SLICE_S
