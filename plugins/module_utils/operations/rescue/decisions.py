# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The decision which event has ended the wait of one rescue, in each of the states of ``states.py``.

A decision changes only data of its task, and sends no request but those that check the scheduler.
"""

from __future__ import annotations

import math
import time
import typing as t
from collections.abc import Mapping
from dataclasses import replace

from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_of
from ...rescue.critical import NOT_CRITICAL, is_critical, not_critical_message
from ...rescue.equivalence import equivalence_key
from ...rescue.hold_policy import NO_TOLERATION
from ...rescue.plan import BY_TAINT, IMPOSSIBLE, PLANNED, WAITING, RescueContext, RescuePlan
from ...rescue.plan_reasons import NO_NODE, UNEXPLAINED
from ...rescue.settle_time import may_be_preempted_for
from .environment import ReconcileView, RescueEnvironment
from .nomination_alone import queue_event, queue_violation
from .requests import HOLD_LOST
from .scheduler_health import SchedulerHealth
from .task import BINDING, NO_OTHER_NODE, NOT_LEADER, POD_GONE, REPLAN_S, RESCUED, SETTLING, Ending, Event, RescueTask, limit_of

PLAN_SLICE_S = 0.2
"""Seconds after which no further plan begins on the same view."""
NO_OTHER_EVICTIONS = (NO_NODE, NO_TOLERATION)
"""A rescue that has evicted pods fails with these reasons. No other evictions are possible, and waiting changes nothing."""


class Decisions:
    """The decisions of one program about its ``tasks``. ``once``: its results need the reasons why no eviction helps.

    ``is_interrupted``: a plan is due and needs a newer view.
    """

    def __init__(self, environment: RescueEnvironment, tasks: Mapping[str, RescueTask], *, once: bool) -> None:
        self.is_interrupted = False
        self._tasks, self._once = tasks, once
        self._options, self._lease = environment.options, environment.lease
        self._observer, self._dry_run = environment.observer, environment.dry_run
        self._scheduler_health = SchedulerHealth(environment.api, environment.cache)

    def event_of(self, task: RescueTask, view: ReconcileView) -> t.Optional[Event]:
        """Return the event that has ended the wait of the task. None if it still waits."""
        may_request = task.may_request(view.now_at_s)
        if task.uncertain_evictions or (task.is_clearing and not task.loaded):
            return Event("unanswered") if may_request else None
        end = end_of(task, leading=self._lease.held) or self._no_longer_critical(task)
        if end is not None:
            return end
        if task.is_clearing:
            if not may_request or (task.stage == BINDING and not self._has_changed(task, view)):
                return None
            return self._event_on_node(task, view)
        return self.planned(task, view) if view.now_at_s >= task.plan_at_s else None

    def _has_changed(self, task: RescueTask, view: ReconcileView) -> bool:
        """Return whether the plan on the node must be made again, although the pod fits there.

        On 5,000 nodes this plan takes 10 ms. Without this check, it was made for each such pod in each step of another rescue.
        """
        objects = (task.pod, view.snapshot.nodes.get(task.clearing.node), *view.pods_on(task.clearing.node))
        known, task.clearing.planned_objects = task.clearing.planned_objects, objects
        unchanged = len(known) == len(objects) and all(now is before for now, before in zip(objects, known))
        return not unchanged or view.now_at_s >= task.plan_at_s

    def _no_longer_critical(self, task: RescueTask) -> t.Optional[Event]:
        """Return the end of the task if the pod is no longer critical, for example because its annotation was removed.

        None if the pod is critical. None also for an undecodable pod, because its annotations are not known.
        """
        if undecodable_of(task.pod) is not None or is_critical(task.pod, self._options):
            return None
        return Event("over", Ending(IMPOSSIBLE, Reason(NOT_CRITICAL, not_critical_message(task.pod, self._options))))

    def _event_on_node(self, task: RescueTask, view: ReconcileView) -> Event:
        """Plan again on the node that is being cleared. Return the event that follows from the plan."""
        clearing = task.clearing
        plan = view.planner.replan_on_node(task.pod, clearing.node, self._context(task, view), task.plan_limit.victims)
        if plan.status == WAITING:
            if view.now_at_s <= clearing.give_up_at_s:
                return Event("fits", plan)
            waited = f"the scheduler has not bound it to node {clearing.node} within {self._options.wait_timeout_s} s"
            return Event("failed", Reason("not_bound", f"{waited}, although the node has enough free capacity"))
        if view.now_at_s > clearing.ends_at_s:
            duration_s = self._options.wait_timeout_s + self._options.evict_timeout_s
            within = f"within {duration_s} s" if clearing.hold is None else f"before the deadline of its hold, {clearing.hold.deadline}"
            return Event("failed", Reason("not_cleared", f"node {clearing.node} could not be cleared {within}"))
        if plan.status == IMPOSSIBLE or plan.choice is None:
            return Event("given_up", plan.reason)
        task.set_plan(plan, view.now_at_s)
        pods = view.pods_on(clearing.node)
        if not task.plan_limit.victims:
            task.plan_limit = limit_of(plan.choice, pods)
        limit = task.plan_limit.after(plan.choice, pods, task.uid)
        if isinstance(limit, Reason):
            return Event("outdated" if task.may_plan_node_again else "given_up", limit)
        task.plan_limit = limit
        if plan.hold_method == BY_TAINT and clearing.hold is None:
            return Event("given_up", HOLD_LOST)
        queued = queue_event(task, plan, self._tasks.values(), self._options, view)
        return queued or Event("evict", plan.choice.victims[0])

    def planned(self, task: RescueTask, view: ReconcileView, *, explain: bool = False) -> t.Optional[Event]:
        """Plan the pod on all nodes. Return the event that follows from the plan. None if the plan needs a newer view."""
        began_at_s, context = time.monotonic(), self._context(task, view)
        # A pod for which pods were evicted may fail with this plan. Its result then needs current reasons.
        plan = self._shared_plan(task, view, context, explain=explain or bool(task.evicted))
        if plan is None:
            self.is_interrupted = True
            return None
        explained, unexplained = task.explained_plan, plan.reason is UNEXPLAINED
        if unexplained and explained is not None:
            plan = replace(explained, pod=task.pod)
        self._observer.on_planned(task, view.observed_in_s + time.monotonic() - began_at_s)
        task.planned_at_s = view.now_at_s
        settling = self._settling(task, plan, view)
        if settling is not None:
            return settling
        # The result of a run that ends has current reasons.
        task.needs_explanation = unexplained and plan.status == IMPOSSIBLE and (self._once or explained is None)
        task.set_plan(plan, view.now_at_s)
        task.plan_at_s = max(view.now_at_s + REPLAN_S.get(plan.status, 0.0), task.settles_at_s)
        if task.is_expected(view.now_at_s):
            view.planner.expect(plan)
        return self._event_of(task, plan, view)

    def restart_settling(self, task: RescueTask, snapshot: ClusterSnapshot, now_at_s: float) -> None:
        """Restart the settle time of the scheduler if it may preempt pods for this one."""
        if may_be_preempted_for(task.pod, snapshot):
            task.restart_settling(now_at_s, self._options.settle_time_s)

    def _settling(self, task: RescueTask, plan: RescuePlan, view: ReconcileView) -> t.Optional[Event]:
        """Return the event while the scheduler has its settle time. The time restarts when a plan becomes possible.

        After a wait for capacity that another pod has taken, a plan does not become possible but is possible again.
        """
        possible = plan.status == PLANNED
        if possible and not task.was_possible and not self._dry_run:
            self.restart_settling(task, view.snapshot, view.now_at_s)
        if plan.status != WAITING:
            task.was_possible = possible
        if view.now_at_s >= task.settles_at_s or plan.status == WAITING:
            return None
        task.needs_explanation = False
        reason = Reason(SETTLING, f"the scheduler has {self._options.settle_time_s} s to bind it by itself")
        return _held_back(plan, reason)

    def _event_of(self, task: RescueTask, plan: RescuePlan, view: ReconcileView) -> Event:
        """Return the event that follows from the plan for a pod for which no node is being cleared."""
        if plan.status == PLANNED and not self._dry_run:
            if not view.may_write:
                holder = self._lease.holder or "another program"
                return _held_back(plan, Reason(NOT_LEADER, f"{holder} has the Lease and does the rescues"))
            first = queue_violation(task, plan.hold_method, self._tasks.values(), self._options, view)
            if first is not None:
                return _held_back(plan, first)
        if plan.status == PLANNED:
            return Event("possible", plan)
        if task.may_be_resumed and view.may_write:
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
        if not explain and is_outdated(view):
            return None
        plan = view.planner.plan_rescue(task.pod, context, explain=explain)
        if plan.status == PLANNED:
            view.plans.clear()  # a plan reserves capacity and budgets that other pods then lack
        view.plans[key or task.uid] = plan
        return plan


def _held_back(plan: RescuePlan, why: Reason) -> Event:
    """Return the event by which the plan waits, and its node is kept for the pod."""
    next_node = plan.choice.node if plan.choice is not None else ""
    return Event("held_back", replace(plan, status=WAITING, reason=why, next_node=next_node))


def is_outdated(view: ReconcileView) -> bool:
    """Return whether the view is too old for a further plan. A newer view may have a new pod, or a node to release."""
    return bool(view.plans) and time.monotonic() - view.now_at_s > PLAN_SLICE_S


def end_of(task: RescueTask, *, leading: bool) -> t.Optional[Event]:
    """Return the end of the task if the pod is bound, or does not exist any more. None otherwise.

    Only the leader knows that no rescue was involved.
    """
    if task.pod_gone or task.pod.terminating or task.pod.terminal:
        text = f"the pod was deleted before it was bound; pods evicted for it: {len(task.evicted)}"
        return Event("over", Ending(POD_GONE, Reason("pod_gone", text)))
    if not task.pod.spec.node_name:
        return None
    node = task.pod.spec.node_name
    by_itself = leading and not task.attempt_started
    text = f"the scheduler has bound it to node {node} by itself" if by_itself else f"it is bound to node {node}"
    return Event("over", Ending(RESCUED, Reason("bound", text)))
