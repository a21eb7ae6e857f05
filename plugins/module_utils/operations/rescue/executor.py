# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The steps that clear a node for one pod: dry run, hold, evict one pod after the other. Each step is decided on the newest state."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...kube.client.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    KubeError,
    MultipleBudgetsError,
    NotFoundError,
    ResponseDecodeError,
    is_admission_denial,
    is_permission_error,
    is_transient,
    may_have_succeeded,
)
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.undecodable import UNDECODABLE
from ...rescue.hold_policy import hold_duration_s, hold_policy
from ...rescue.plan import BY_NOMINATION, BY_TAINT, IMPOSSIBLE, WAITING, Choice, RescuePlan, Victim
from ...state.hold import Hold, make_hold
from ...state.rescue_attempts import attempt_violation
from ..common.event_recorder import EventRecorder
from .environment import RescueEnvironment
from .eviction_requests import EvictionPendingError, EvictionRequests
from .holds import Holds, node_or_stub
from .live_checks import HOLD_LOST, is_evicted, lost_hold_violation, pod_changed_violation, read_node, read_pod
from .nomination import Nominator, TaskNominations
from .plan_limit import limit_of
from .reconcile_view import ReconcileView
from .records.attempt_recorder import AttemptRecorder
from .records.hold_store import HoldNotRecordedError, TooManyHoldsError
from .task import CLEARING, FAILED, LEFT_ALONE_FOR_S, NO_OTHER_NODE, REPLAN_S, RescueTask

EXCLUDE_AFTER_REFUSAL_S = 5.0
"""Seconds for which a pod is excluded after a budget refused its eviction in a dry run."""
POSTPONED_FOR_S = 5.0
"""Seconds until the next plan for a pod whose rescue is not possible now: back-off, used-up attempts, or a full ConfigMap."""
EXCLUDE_AFTER_DENIAL_S = 60.0
"""Seconds for which a pod is excluded after another denial, for example by a webhook."""
RETRY_S = 0.5


class RescueExecutor:
    """The steps that clear the node of a task.

    ``start``, ``advance``, ``resume`` and ``resolve_uncertain`` return whether the task must be planned again on a new view.
    ``release_node`` returns whether nothing is left to release. All raise LeaseLostError before a write if another program may be active.
    """

    def __init__(
        self, environment: RescueEnvironment, *, holds: Holds, nominator: Nominator, events: EventRecorder, attempts: AttemptRecorder
    ) -> None:
        self._api, self._cache, self._options = environment.api, environment.cache, environment.options
        self._lease, self._writer = environment.lease, environment.writer
        self._observer, self._dry_run = environment.observer, environment.dry_run
        self._holds, self._events, self._attempts = holds, events, attempts
        self._nominations = TaskNominations(environment, nominator)
        self._evictions = EvictionRequests(self._api)

    def start(self, task: RescueTask, plan: RescuePlan, choice: Choice, view: ReconcileView) -> bool:
        """Check all evictions by dry runs. Then place the hold and record the attempt."""
        attempt = self._attempts.with_results(task, self._attempts.load(task), view)
        if self._attempts.load_victims(task, attempt) or self._has_rescued_victim(choice, view):
            return True
        # If no node is cleared or held for the pod, the last node was given up, and it counts as failed. It does not count if a foreign
        # taint reserves it, because such a node has no hold.
        task.count_failed_nodes(task.last_node if plan.hold_method is None or view.planner.has_node_for(task.uid) else "")
        if choice.node in task.exclusions.nodes:
            return True
        if task.failed_nodes >= self._options.max_attempts:
            return self._fail_without_effect(task, "")
        refusal = attempt_violation(attempt, now_s=view.now_s, max_attempts=self._options.max_attempts, pod_uid=task.uid)
        if refusal is not None:
            self._postpone(task, refusal, view)
            return False
        for victim in choice.victims:
            if not self._request_eviction(task, victim, view, dry_run=True):
                return True
        if plan.hold_method == BY_NOMINATION and not self._nominations.may_nominate(task, choice.node, view):
            return True
        task.reset_backoff()
        if not self._dry_run:
            self._lease.ensure_held()
        hold = self._hold_for(task, plan.hold_method, view) if plan.hold_method is not None else None
        if hold is not None and not self._place_hold(task, choice, hold, view):
            return True
        if self._dry_run:
            view.planner.reserve(plan)
            task.finish_plan(plan.reason, (view.snapshot.nodes[choice.node], hold) if hold is not None else None)
            return False
        self._start(task, choice.node, hold, view)
        task.limit_to(limit_of(choice, _pods_on(task.node, view)))
        # From here on, the end of the task releases the hold. This is also so if the next write fails.
        self._attempts.record_start(task, choice.victims[0], view)
        self._events.on_pod(task.pod, "RescueStarted", f"{plan.reason.text}, because no node has free capacity for it")
        return True

    def advance(self, task: RescueTask, view: ReconcileView, scheduler: t.Optional[Reason], goes_first: t.Optional[Reason] = None) -> bool:
        """Do the next step on the node that is being cleared: evict, wait, or give up the node.

        ``goes_first`` is the reason if another rescue has precedence.
        """
        if not task.may_request(view.now_at_s):
            return False
        context = task.context(view.now_at_s, scheduler)
        plan = view.planner.replan_on_node(task.pod, task.node, context, task.plan_limit.victims)
        if plan.status == WAITING:
            return self._await_binding(task, plan, view)
        if view.now_at_s > task.hold_ends_at_s:
            return self._not_cleared(task)
        if plan.status == IMPOSSIBLE or plan.choice is None:
            return self._give_up_node(task, plan.reason, view)
        task.set_plan(plan)
        pods = _pods_on(task.node, view)
        if task.plan_limit.initial_pods is None:
            task.limit_to(limit_of(plan.choice, pods))
        more = task.plan_limit.violation(plan.choice, pods, task.uid)
        if more is not None:
            return self._plan_again(task, more, view) if task.may_plan_node_again else self._give_up_node(task, more, view)
        task.limit_to(task.plan_limit.with_replaced(plan.choice, pods))
        if goes_first is not None and task.hold is not None and task.hold.nominates:
            return self._release_for_now(task, plan, goes_first, view)
        if plan.hold_method == BY_TAINT and (task.hold is None or task.hold.nominates):
            return self._give_up_node(task, HOLD_LOST, view)
        if goes_first is not None:
            task.set_plan(replace(plan, reason=goes_first))
            return False  # the node stays held, and nothing may make the scheduler try the other pod meanwhile
        return self._evict_next(task, plan.choice.victims[0], view)

    def resume(self, task: RescueTask, view: ReconcileView) -> bool:
        """Hold a node again if another program has evicted pods there for the task and these pods are still terminating.

        That program released the node at its end. Without the hold, the replacement of such a pod could use the capacity before the
        scheduler tries the critical pod again.
        """
        attempt = self._attempts.load(task)
        self._attempts.load_victims(task, attempt)
        if attempt is None or task.uid not in attempt.under_way:
            return False
        self.resolve_uncertain(task, view)
        ending = {pod.metadata.uid for pod in view.snapshot.pods if pod.terminating}
        victims = [victim for victim in task.evicted if victim.pod.metadata.uid in ending]
        node = view.snapshot.nodes.get(victims[-1].pod.spec.node_name) if victims else None
        hold_method = hold_policy(task.pod, node, victims, self._options).hold_method if node is not None else None
        if node is None or hold_method is None or node.name in task.exclusions.nodes:
            return False
        self._lease.ensure_held()
        hold = self._hold_for(task, hold_method, view)
        self._holds.place(node, hold)
        self._start(task, node.name, hold, view)
        task.note_attempt()
        task.note_action()
        self._observer.on_hold(node, hold)
        return True

    def resolve_uncertain(self, task: RescueTask, view: ReconcileView) -> bool:
        """Find the results of evictions whose result is unknown. Return whether the task changed."""
        if task.stage == CLEARING and not task.loaded:
            self._attempts.load_victims(task, self._attempts.load(task))
        found = False
        for uid, victim in list(task.uncertain_evictions.items()):
            if self._evictions.is_pending(uid):
                task.retry_at(view.now_at_s + RETRY_S)
                continue
            found = True
            now = read_pod(self._api, victim.pod)
            if is_evicted(now):
                deletion_timestamp = now.metadata.deletion_timestamp if now is not None else None
                self._note_eviction(task, victim, view, deletion_timestamp=deletion_timestamp, own=uid in task.recorded_victims)
                task.reset_backoff()
            task.note_known_eviction(victim)
        if found and not task.uncertain_evictions:
            task.count_failed_nodes(task.last_node)
        return found

    @property
    def has_pending_evictions(self) -> bool:
        """True if the API server may still carry out an eviction."""
        return self._evictions.has_pending

    def release_node(self, task: RescueTask, nodes: Mapping[str, Node]) -> bool:
        """Release the task's node if it is held. Return False if that could not be written yet."""
        if task.hold is None:
            self._nominations.withdraw(task)
            return True
        self._lease.ensure_held()
        node = node_or_stub(task.node, nodes)
        if not self._holds.release(node, task.hold, waits=not (task.pod_gone or task.pod.spec.node_name)):
            return False
        task.note_released()
        return True

    # --- steps ---

    def _await_binding(self, task: RescueTask, plan: RescuePlan, view: ReconcileView) -> bool:
        """Wait until the scheduler binds the pod, which fits without a further eviction. Fail the task if this takes too long."""
        task.set_plan(plan)
        task.note_wait(view.now_at_s)
        if view.now_at_s > task.give_up_at_s:
            return self._fail_unbound(task)
        self._nominations.nominate(task, view)
        return False

    def _evict_next(self, task: RescueTask, victim: Victim, view: ReconcileView) -> bool:
        """Nominate the pod, record the victim, read its newest state, and request its eviction.

        Return whether the task must be planned again on a new view.
        """
        self._lease.ensure_held()
        if not self._nominations.nominate(task, view):
            refused = Reason("not_nominated", "the pod could not be nominated for it")
            return self._give_up_node(task, refused, view) if view.now_at_s > task.give_up_at_s else False
        if view.now_at_s < task.settling.ends_at_s:
            return False  # a node has opened: the scheduler may place the pod there
        if not task.attempt_started or victim.pod.metadata.uid not in task.recorded_victims:
            self._attempts.record_start(task, victim, view)
        if self._is_confirmed(task, victim, view):
            self._lease.ensure_held()
            self._request_eviction(task, victim, view, dry_run=False)
        return True

    def _has_rescued_victim(self, choice: Choice, view: ReconcileView) -> bool:
        """Return whether another program has rescued a victim a short time ago, and the planner did not know this."""
        unknown = self._attempts.rescued_pods(view.now_s) - view.planner.rescued
        return any(victim.pod.metadata.uid in unknown for victim in choice.victims)

    def _start(self, task: RescueTask, node_name: str, hold: t.Optional[Hold], view: ReconcileView) -> None:
        """Begin to clear the node now. A node without a hold gets the same time."""
        wait_timeout_s, duration_s = self._options.wait_timeout_s, hold_duration_s(self._options)
        task.start(node_name, hold, give_up_at_s=view.now_at_s + wait_timeout_s, hold_ends_at_s=view.now_at_s + duration_s)

    def _hold_for(self, task: RescueTask, hold_method: str, view: ReconcileView) -> Hold:
        deadline_s = view.now_s + hold_duration_s(self._options)
        key = self._options.hold_taint_key if hold_method == BY_TAINT else ""
        return make_hold(task.pod, key=key, deadline_s=deadline_s, writer=self._writer, since_s=view.now_s)

    def _is_confirmed(self, task: RescueTask, victim: Victim, view: ReconcileView) -> bool:
        """Return whether the API server confirms that the pod still waits, the victim may be evicted and the node is feasible and held.

        Otherwise update the task.
        """
        uid = victim.pod.metadata.uid
        try:
            waits, there, node = read_pod(self._api, task.pod), read_pod(self._api, victim.pod), read_node(self._api, task.node)
        except ResponseDecodeError as error:
            self._give_up_node(task, Reason(UNDECODABLE, str(error)), view)
            return False
        changed = pod_changed_violation(waits, task.pod, task.node)
        if changed is not None:
            self._observer.on_error(f"{task.name}: {changed.text}; the watch is behind")
            task.retry_at(view.now_at_s + RETRY_S)
            return False
        if there is None or there.terminating:
            self._cache.assume_terminating(uid, there.metadata.deletion_timestamp or "" if there is not None else "")
            return False
        if node is None:
            self._give_up_node(task, Reason("node_gone", f"node {task.node} is gone"), view)
            return False
        immune, closed = view.planner.current_violations(waits or task.pod, there, node, task.context(view.now_at_s))
        closed = closed or lost_hold_violation(node, task.hold)
        if closed is not None:
            self._give_up_node(task, closed, view)
        elif immune is not None or there.spec.node_name != task.node:
            task.exclude_victim(victim, view.now_at_s + EXCLUDE_AFTER_REFUSAL_S)
        return closed is None and immune is None and there.spec.node_name == task.node

    def _place_hold(self, task: RescueTask, choice: Choice, hold: Hold, view: ReconcileView) -> bool:
        """Return whether the hold was placed. If not, the task is postponed, failed, or planned again without this node."""
        node = view.snapshot.nodes[choice.node]
        try:
            self._holds.place(node, hold, dry_run=self._dry_run)
        except TooManyHoldsError as error:
            self._postpone(task, Reason("too_many_holds", str(error)), view)
            return False
        except HoldNotRecordedError as error:
            task.finish(FAILED, Reason("error", str(error)))
            return False
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            # The node has another hold, or the refusal is about this node: another node may be possible.
            self._observer.on_error(f"{task.name}: {error}")
            task.exclude_node(choice.node, view.now_at_s + LEFT_ALONE_FOR_S, Reason("error", str(error)))
            task.replan_at(view.now_at_s + RETRY_S)
            return False
        if self._dry_run:
            return True
        self._events.on_node(node, "RescueHold", f"held for critical pod {task.name}")
        task.note_action()
        self._observer.on_hold(node, hold)
        return True

    def _postpone(self, task: RescueTask, refusal: Reason, view: ReconcileView) -> None:
        task.set_plan(RescuePlan(task.pod, IMPOSSIBLE if refusal.code == "attempts_used_up" else WAITING, refusal))
        task.replan_at(view.now_at_s + POSTPONED_FOR_S)

    def _fail_unbound(self, task: RescueTask) -> bool:
        waited = f"the scheduler has not bound it to node {task.node} within {self._options.wait_timeout_s} s"
        task.finish(FAILED, Reason("not_bound", f"{waited}, although the node has enough free capacity"))
        return True

    def _not_cleared(self, task: RescueTask) -> bool:
        """Fail the task, because the deadline of the hold is over."""
        duration_s, hold = hold_duration_s(self._options), task.hold
        within = f"within {duration_s} s" if hold is None else f"before the deadline of its hold, {hold.deadline}"
        task.finish(FAILED, Reason("not_cleared", f"node {task.node} could not be cleared {within}"))
        return True

    def _give_up_node(self, task: RescueTask, why: Reason, view: ReconcileView) -> bool:
        self._observer.on_error(f"node {task.node} is no longer cleared for pod {task.name}: {why.text}")
        if not self.release_node(task, view.snapshot.nodes):
            task.back_off(view.now_at_s)
            if view.now_at_s > task.give_up_at_s:
                task.finish(FAILED, why)
            return task.is_finished
        task.give_up_node(view.now_at_s, why)
        task.reset_backoff()
        if task.failed_nodes >= self._options.max_attempts:
            self._fail_without_effect(task, f"; the last: {why.text}")
        return True

    def _plan_again(self, task: RescueTask, why: Reason, view: ReconcileView) -> bool:
        """Release the node and plan on all nodes again, because the plan was made before the newest pods of the node were visible."""
        self._observer.on_error(f"node {task.node} is planned again for pod {task.name}: {why.text}")
        if not self.release_node(task, view.snapshot.nodes):
            task.back_off(view.now_at_s)
            return False
        task.plan_node_again()
        task.reset_backoff()
        return True

    def _release_for_now(self, task: RescueTask, plan: RescuePlan, goes_first: Reason, view: ReconcileView) -> bool:
        """Release the node until another rescue has ended. It may be cleared for the pod again."""
        if not self.release_node(task, view.snapshot.nodes):
            task.back_off(view.now_at_s)
            return False
        node_name = task.node
        task.requeue(view.now_at_s + REPLAN_S[WAITING])
        task.set_plan(replace(plan, status=WAITING, reason=goes_first, next_node=node_name))
        task.note_wait(view.now_at_s)
        task.reset_backoff()
        return True

    def _fail_without_effect(self, task: RescueTask, last: str) -> bool:
        task.finish(FAILED, Reason(NO_OTHER_NODE, f"pods were evicted without effect on {task.failed_nodes} nodes{last}"))
        return True

    # --- answers of the server ---

    def _request_eviction(self, task: RescueTask, victim: Victim, view: ReconcileView, *, dry_run: bool) -> bool:
        """Request the eviction, or check it by a dry run. Return False if it was not granted."""
        try:
            self._evictions.request(victim, dry_run=dry_run)
        except KubeError as error:
            if not dry_run and may_have_succeeded(error):
                task.note_uncertain_eviction(victim)
            self._on_refusal(task, victim, error, view, dry_run=dry_run)
            return False
        if not dry_run:
            self._note_eviction(task, victim, view)
            task.reset_backoff()
        return True

    def _note_eviction(
        self, task: RescueTask, victim: Victim, view: ReconcileView, *, deletion_timestamp: t.Optional[str] = None, own: bool = True
    ) -> None:
        """Record that the pod was evicted for the task. An eviction by another program is not reported again."""
        self._cache.assume_terminating(victim.pod.metadata.uid, deletion_timestamp or "")
        task.note_evicted(victim, view.now_at_s + victim.grace_period_s)
        if not own:
            return
        task.note_action()
        self._observer.on_evicted(task, victim)
        metadata, node = victim.pod.metadata, victim.pod.spec.node_name  # the task may have another node by now
        self._events.on_pod(victim.pod, "EvictedForCriticalPod", f"evicted from node {node} to free capacity for critical pod {task.name}")
        self._events.on_pod(task.pod, "RescueEviction", f"evicted pod {metadata.namespace}/{metadata.name} from node {node} for it")

    def _on_refusal(self, task: RescueTask, victim: Victim, error: KubeError, view: ReconcileView, *, dry_run: bool) -> None:
        if is_permission_error(error):
            task.finish(FAILED, Reason("error", str(error)))
        elif isinstance(error, MultipleBudgetsError):
            task.exclude_victim(victim, math.inf)
        elif is_admission_denial(error):
            self._on_denial(task, victim, error, view)
        elif isinstance(error, (NotFoundError, ConflictError)):
            self._on_missing(task, victim, error, view)
        elif isinstance(error, BudgetError) and dry_run:
            task.exclude_victim(victim, view.now_at_s + EXCLUDE_AFTER_REFUSAL_S)
        elif is_transient(error):
            self._retry_later(task, victim, error, view)
        else:
            self._on_denial(task, victim, error, view)

    def _on_denial(self, task: RescueTask, victim: Victim, error: KubeError, view: ReconcileView) -> None:
        self._observer.on_error(f"{task.name}: {error}")
        task.exclude_victim(victim, view.now_at_s + EXCLUDE_AFTER_DENIAL_S)

    def _on_missing(self, task: RescueTask, victim: Victim, error: KubeError, view: ReconcileView) -> None:
        """Handle 404 or 409: the pod is gone or terminating and releases its capacity, or its budget was being written or deleted."""
        now = read_pod(self._api, victim.pod)
        if now is None or now.terminating:
            deletion_timestamp = now.metadata.deletion_timestamp if now is not None else None
            self._cache.assume_terminating(victim.pod.metadata.uid, deletion_timestamp or "")
        else:
            self._retry_later(task, victim, error, view)

    def _retry_later(self, task: RescueTask, victim: Victim, error: KubeError, view: ReconcileView) -> None:
        if isinstance(error, EvictionPendingError):  # not a refusal: the answer is pending
            task.retry_at(view.now_at_s + RETRY_S)
            task.replan_at(task.retry_at_s)
            return
        # The eviction may have been carried out, which is checked first.
        is_first = task.first_refused_at_s is None and victim.pod.metadata.uid in task.uncertain_evictions
        if is_first or task.refused_for_s(view.now_at_s) < self._options.evict_timeout_s:
            task.back_off(view.now_at_s, error.retry_after_s if isinstance(error, ApiError) else None)
            task.replan_at(task.retry_at_s)
            return
        self._observer.on_error(f"{task.name}: {error}")
        if task.node:
            self._give_up_node(task, Reason("evict_timeout", f"refused for {self._options.evict_timeout_s} s: {error}"), view)
        else:
            task.exclude_victim(victim, view.now_at_s + EXCLUDE_AFTER_DENIAL_S)
            task.reset_backoff()


def _pods_on(node_name: str, view: ReconcileView) -> Sequence[Pod]:
    return view.snapshot.pods_by_node.get(node_name, ())
