# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The effects of the transitions in ``states.py``: all requests of a rescue, and the data that they change.

An effect that is not possible raises NotPossibleError. Each raises LeaseLostError before a write if another program may be active.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping
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
from ...model.api.meta import ObjectMeta
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.undecodable import UNDECODABLE
from ...rescue.held_nodes import HeldNode
from ...rescue.hold_policy import hold_duration_s, hold_policy
from ...rescue.plan import BY_NOMINATION, BY_TAINT, IMPOSSIBLE, PLANNED, WAITING, RescuePlan, Victim
from ...rescue.terminating_pods import is_preempted
from ...state.hold import Hold, hash_of
from ...state.rescue_attempts import attempt_violation
from .attempts import AttemptRecorder
from .environment import ReconcileView, RescueEnvironment
from .holds import Holds
from .nomination_alone import Nominator
from .requests import (
    EvictionPendingError,
    EvictionRequests,
    is_evicted,
    lost_hold_violation,
    nominate,
    pod_changed_violation,
    read_node,
    read_pod,
    withdraw,
)
from .task import FAILED, NO_OTHER_NODE, QUEUED, REPLAN_S, SETTLING, Clearing, Ending, Event, NotPossibleError, RescueTask, limit_of

EXCLUDE_AFTER_REFUSAL_S = 5.0
"""Seconds for which a pod is excluded after a budget refused its eviction in a dry run."""
POSTPONED_FOR_S = 5.0
"""Seconds until the next plan for a pod whose rescue is not possible now: back-off or used-up attempts."""
EXCLUDE_AFTER_DENIAL_S = 60.0
"""Seconds for which a pod is excluded after another denial, for example by a webhook."""
NO_NOMINATION_FOR_S = 600.0
"""Seconds without further nominations in addition to a taint, after a permission error. The role for nominations is missing then."""
LEFT_ALONE_FOR_S = 60.0
"""Seconds for which a node is excluded that could not be cleared and on which nothing was evicted."""
RETRY_S = 0.5
ERROR_RETRY_S = 2.0


class Effects:
    """The effects, one method each. The last parameter has the facts of the event."""

    def __init__(self, environment: RescueEnvironment, *, holds: Holds, nominator: Nominator, attempts: AttemptRecorder) -> None:
        self._api, self._cache, self._options = environment.api, environment.cache, environment.options
        self._lease, self._observer, self._dry_run = environment.lease, environment.observer, environment.dry_run
        self._holds, self._events, self._attempts = holds, environment.events, attempts
        self._nominator, self._no_nomination_until_s = nominator, 0.0
        self.evictions = EvictionRequests(self._api)

    # --- without a node ---

    def nothing(self, _task: RescueTask, _view: ReconcileView, _facts: None) -> None:
        """Do nothing."""

    def hold_back(self, task: RescueTask, view: ReconcileView, plan: RescuePlan) -> None:
        """Keep the node of the plan for the pod."""
        task.set_plan(plan, view.now_at_s)
        task.plan_at_s = task.settles_at_s if plan.reason.code == SETTLING else view.now_at_s + REPLAN_S[WAITING]
        if task.is_expected(view.now_at_s):
            view.planner.expect(plan)

    def start(self, task: RescueTask, view: ReconcileView, plan: RescuePlan) -> None:
        """Request all evictions as dry runs, then hold the node."""
        choice = plan.choice
        if choice is None:
            raise AssertionError("a plan that is possible has a node")
        attempt = self._attempts.load_with_results(task, view)
        # Another program may have evicted pods for it, or rescued a pod that the planner did not spare.
        if task.uncertain_evictions or not view.planner.rescued.issuperset(self._attempts.rescued_pods(view.now_s)):
            raise NotPossibleError(outdates=True)
        # If no node is cleared or held for the pod, the last node was given up, and it counts as failed. It does not count if a foreign
        # taint reserves it, because such a node has no hold.
        task.exclude_failed_nodes(task.last_node if plan.hold_method is None or view.planner.has_node_for(task.uid) else "")
        if choice.node in task.excluded_nodes:
            raise NotPossibleError(outdates=True)
        if task.failed_nodes >= self._options.max_attempts:
            raise _without_effect(task, "")
        refusal = attempt_violation(attempt, now_s=view.now_s, max_attempts=self._options.max_attempts, pod_uid=task.uid)
        if refusal is not None:
            _postpone(task, view, refusal, IMPOSSIBLE if refusal.code == "attempts_used_up" else WAITING)
            raise NotPossibleError
        for victim in choice.victims:
            self._request_eviction(task, victim, view, dry_run=True)
        if plan.hold_method == BY_NOMINATION:
            self._check_nomination(task, choice.node, view)
        task.reset_backoff()
        if not self._dry_run:
            self._lease.ensure_held()
        clearing = self._clearing_of(task, choice.node, plan.hold_method, view)
        self._place_hold(task, clearing, view)
        if self._dry_run:
            view.planner.reserve(plan)
            if clearing.hold is not None:
                task.planned_hold = HeldNode(view.snapshot.nodes[choice.node], clearing.hold, task.pod)
            raise NotPossibleError(Event("planned", Ending(PLANNED, plan.reason)))
        task.begin(clearing)
        task.plan_limit = limit_of(choice, view.pods_on(choice.node))
        self._events.on_pod(task.pod, "RescueStarted", f"{plan.reason.text}, because no node has free capacity for it")

    def resume(self, task: RescueTask, view: ReconcileView, _facts: None) -> None:
        """Hold the node again.

        The other program released the node at its end. Without the hold, the replacement of such a pod could use the capacity before the
        scheduler tries the critical pod again.
        """
        attempt = self._attempts.load(task)
        if attempt is None or task.uid not in attempt.under_way:
            raise NotPossibleError
        self._read_uncertain(task, view)
        ending = {pod.metadata.uid: pod for pod in view.snapshot.pods if pod.terminating}
        # A recorded victim has only parts of its pod.
        victims = [replace(victim, pod=ending[victim.pod.metadata.uid]) for victim in task.evicted if victim.pod.metadata.uid in ending]
        node = view.snapshot.nodes.get(victims[-1].pod.spec.node_name) if victims else None
        hold_method = hold_policy(task.pod, node, victims, self._options).hold_method if node is not None else None
        if node is None or hold_method is None or node.name in task.excluded_nodes:
            raise NotPossibleError
        self._lease.ensure_held()
        clearing = self._clearing_of(task, node.name, hold_method, view)
        if clearing.hold is not None:
            held = HeldNode(node, clearing.hold, task.pod)
            self._holds.place(held, now_s=view.now_s)
            self._observer.on_hold(held)
        task.begin(clearing)
        task.attempt_started = True

    def take_over(self, task: RescueTask, view: ReconcileView, held: HeldNode) -> None:
        """Continue on the node, but not for longer than a hold of this program lasts."""
        self._holds.own[held.node.name] = held.hold
        ends_at_s = view.now_at_s + min(held.hold.deadline_s - view.now_s, hold_duration_s(self._options))
        task.begin(Clearing(held.node.name, held.hold, give_up_at_s=ends_at_s, ends_at_s=ends_at_s))
        task.attempt_started = True

    # --- on the node that is being cleared ---

    def nominate(self, task: RescueTask, view: ReconcileView, plan: RescuePlan) -> None:
        """Nominate the pod for the node."""
        task.set_plan(plan, view.now_at_s)
        task.plan_at_s = view.now_at_s + REPLAN_S[WAITING]
        self._nominate(task, view)

    def evict(self, task: RescueTask, view: ReconcileView, victim: Victim) -> None:
        """Nominate the pod, record the victim, read pod, victim and node from the API server, and request the eviction."""
        self._lease.ensure_held()
        if not self._nominate(task, view):
            refused = Reason("not_nominated", "the pod could not be nominated for it")
            raise NotPossibleError(Event("given_up", refused) if view.now_at_s > task.clearing.give_up_at_s else None)
        if view.now_at_s < task.settles_at_s:
            raise NotPossibleError  # a node has opened: the scheduler may place the pod there
        if not task.attempt_started or victim.pod.metadata.uid not in task.recorded_victims:
            self._attempts.record_start(task, victim, view)
        self._check_unchanged(task, victim, view)
        self._lease.ensure_held()
        self._request_eviction(task, victim, view, dry_run=False)

    def keep_node(self, task: RescueTask, view: ReconcileView, plan: RescuePlan) -> None:
        """Keep the node, and evict nothing that makes the scheduler try the other pod."""
        task.set_plan(plan, view.now_at_s)

    def release_for_now(self, task: RescueTask, view: ReconcileView, plan: RescuePlan) -> None:
        """Release the node, which may be cleared for the pod again."""
        self._release(task, view)
        plan = replace(plan, status=WAITING, next_node=task.clearing.node)
        task.leave_node(view.now_at_s + REPLAN_S[WAITING])
        task.set_plan(plan, view.now_at_s)

    def plan_again(self, task: RescueTask, view: ReconcileView, why: Reason) -> None:
        """Release the node, and plan on all nodes again."""
        self._observer.on_error(f"node {task.clearing.node} is planned again for pod {task.name}: {why.text}")
        self._release(task, view)
        task.planned_again.add(task.clearing.node)
        task.leave_node()

    def give_up(self, task: RescueTask, view: ReconcileView, why: Reason) -> None:
        """Release the node and exclude it."""
        self._observer.on_error(f"node {task.clearing.node} is no longer cleared for pod {task.name}: {why.text}")
        self._release(task, view, otherwise=Event("failed", why) if view.now_at_s > task.clearing.give_up_at_s else None)
        task.exclude_node(task.clearing.node, math.inf if task.has_evicted_here else view.now_at_s + LEFT_ALONE_FOR_S, why)
        task.leave_node()
        if task.failed_nodes >= self._options.max_attempts:
            raise _without_effect(task, f"; the last: {why.text}")

    def abandon(self, task: RescueTask, _view: ReconcileView, _facts: None) -> None:
        """Leave the hold to the next leader."""
        task.clearing = Clearing()

    # --- answers of the API server ---

    def resolve(self, task: RescueTask, view: ReconcileView, _facts: None) -> None:
        """Read the pods whose eviction has no known result."""
        if task.is_clearing and not task.loaded:
            self._attempts.load(task)
        self._read_uncertain(task, view)
        if task.uncertain_evictions:
            raise NotPossibleError

    def handle_error(self, task: RescueTask, view: ReconcileView, error: KubeError) -> None:
        """Try again after two seconds. Other pods need not wait for this one.

        The same request would be forbidden again. A node does not stay held after a permanent error, nor if a transient error lasts beyond
        the time limit of the task.
        """
        self._observer.on_error(f"{task.name}: {error}")
        task.retry_at_s = task.plan_at_s = view.now_at_s + ERROR_RETRY_S
        task.waits.pop(QUEUED, None)
        has_no_effect = task.is_clearing and (not is_transient(error) or view.now_at_s > task.clearing.give_up_at_s)
        if is_permission_error(error) or has_no_effect:
            raise NotPossibleError(_failed_by(error))

    # --- the end ---

    def fail(self, task: RescueTask, view: ReconcileView, why: Reason) -> None:
        """Release the node and record the result."""
        self.finish(task, view, Ending(FAILED, why))

    def finish(self, task: RescueTask, view: ReconcileView, ending: Ending) -> None:
        """Release the node and record the result."""
        task.status, task.reason = ending
        if not self._dry_run:
            if self._lease.held:
                self.complete(task, view)
            self._observer.on_finished(task)

    def complete(self, task: RescueTask, view: ReconcileView, _facts: None = None) -> None:
        """Repeat the writes that have failed.

        ``Holds.reconcile`` releases the nodes in ``Holds.expired``.
        """
        if task.clearing.node not in self._holds.expired:
            self.release_node(task, view.snapshot.nodes)
        self._attempts.try_to_record_outcome(task, view)

    def discard_plan(self, task: RescueTask, _view: ReconcileView, _facts: None) -> None:
        """Plan again, so that the old plan reserves no capacity."""
        task.status, task.plan_at_s = "", 0.0

    def release_node(self, task: RescueTask, nodes: Mapping[str, Node]) -> bool:
        """Release the task's node if it is held. Return False if that could not be written yet."""
        self._nominator.drop(task.uid)
        if task.clearing.hold is None:
            return self._withdraw(task)
        self._lease.ensure_held()
        # A node that is gone or undecodable has only its name here, because writes read it from the API server.
        node = nodes.get(task.clearing.node) or Node(metadata=ObjectMeta(name=task.clearing.node))
        if not self._holds.release(HeldNode(node, task.clearing.hold, task.pod), waits=not task.pod_gone):
            return False
        task.clearing.hold, task.clearing.nominated_version = None, ""
        return True

    # --- parts of the effects ---

    def _clearing_of(self, task: RescueTask, node_name: str, hold_method: t.Optional[str], view: ReconcileView) -> Clearing:
        """Return the clearing of a node from now on. A node without a hold gets the same time."""
        duration_s, hold = hold_duration_s(self._options), None
        if hold_method == BY_TAINT:
            hold = Hold(self._options.hold_taint_key, hash_of(task.pod), int(view.now_s + duration_s))
        times = view.now_at_s + self._options.wait_timeout_s, view.now_at_s + duration_s
        return Clearing(node_name, hold, *times, nominates=hold_method == BY_NOMINATION)

    def _place_hold(self, task: RescueTask, clearing: Clearing, view: ReconcileView) -> None:
        """Place the hold if there is one."""
        if clearing.hold is None:
            return
        node = view.snapshot.nodes[clearing.node]
        held = HeldNode(node, clearing.hold, task.pod)
        try:
            self._holds.place(held, now_s=view.now_s, dry_run=self._dry_run)
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            # The node has another hold, or the refusal is about this node: another node may be possible.
            self._observer.on_error(f"{task.name}: {error}")
            task.exclude_node(node.name, view.now_at_s + LEFT_ALONE_FOR_S, Reason("error", str(error)))
            task.plan_at_s = view.now_at_s + RETRY_S
            raise NotPossibleError(outdates=True) from error
        if not self._dry_run:
            self._events.on_node(node, "RescueHold", f"held for critical pod {task.name}")
            self._observer.on_hold(held)

    def _check_nomination(self, task: RescueTask, node_name: str, view: ReconcileView) -> None:
        """Check by a dry run that the pod can be nominated, before any write.

        A nomination for another node reserves nothing here. It is withdrawn, unless the scheduler has preempted pods there.
        """
        nominated = task.pod.status.nominated_node_name
        try:
            if nominated not in ("", node_name) and not self._dry_run and not any(map(is_preempted, view.pods_on(nominated))):
                self._lease.ensure_held()
                withdraw(self._api, task.pod.metadata, nominated)
            elif nominated or nominate(self._api, task.pod, node_name, dry_run=True):
                return
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            if not isinstance(error, ConflictError):
                raise NotPossibleError(_failed_by(error)) from error
        task.plan_at_s = view.now_at_s + RETRY_S  # another client writes to the pod; the watch shows the result
        raise NotPossibleError(outdates=True)

    def _nominate(self, task: RescueTask, view: ReconcileView) -> bool:
        """Nominate the pod for the held node, and again after the scheduler has cleared the nomination.

        Return False if no taint reserves the node and the pod could not be nominated yet. The scheduler may have nominated the pod for
        another node, where its victims are terminating. That nomination is kept, because the scheduler would otherwise preempt again.
        """
        pod, tainted = task.pod, not task.clearing.nominates
        if pod.status.nominated_node_name:
            return True
        if tainted and view.now_at_s < self._no_nomination_until_s:
            return True
        version = pod.metadata.resource_version
        if version == task.clearing.nominated_version:
            return True  # the watch does not show it yet
        self._lease.ensure_held()
        try:
            if self._nominator.nominate(pod, task.clearing.node):
                task.clearing.nominated_version = version
                return True
        except KubeError as error:
            if tainted and is_permission_error(error):
                self._continue_without_nomination(error, view)
                return True
            self._observer.on_error(f"{task.name}: it is not nominated for node {task.clearing.node}: {error}")
        if tainted:
            return True  # the taint reserves the node; the next step tries again
        task.retry_at_s = view.now_at_s + RETRY_S
        return False

    def _continue_without_nomination(self, error: KubeError, view: ReconcileView) -> None:
        """Report once that the role for nominations is missing, and try again later. The taint reserves the node without a nomination."""
        if not self._no_nomination_until_s:
            text = "pods are not nominated in addition to the taint. Pods that tolerate it can take the capacity that becomes free in parts"
            self._observer.on_error(f"{text}: {error}")
        self._no_nomination_until_s = view.now_at_s + NO_NOMINATION_FOR_S

    def _withdraw(self, task: RescueTask) -> bool:
        """Withdraw the nomination for a node without a hold. Return False if that could not be written yet and is needed."""
        clearing = task.clearing
        if (clearing.nominates or clearing.nominated_version) and not (task.pod_gone or task.pod.spec.node_name):
            self._lease.ensure_held()
            try:
                withdraw(self._api, task.pod.metadata, clearing.node)
            except KubeError as error:
                # The scheduler clears the nomination after its next try. Until then the pod cannot be nominated for another node.
                self._observer.on_error(f"pod {task.name} is still nominated for node {clearing.node}: {error}")
                return not (clearing.nominates and is_transient(error))
        clearing.nominates, clearing.nominated_version = False, ""
        return True

    def _check_unchanged(self, task: RescueTask, victim: Victim, view: ReconcileView) -> None:
        """Check that the pod still waits, the victim may be evicted, and the node is held, by a read of all three."""
        try:
            waits, there, node = read_pod(self._api, task.pod), read_pod(self._api, victim.pod), read_node(self._api, task.clearing.node)
        except ResponseDecodeError as error:
            raise NotPossibleError(Event("given_up", Reason(UNDECODABLE, str(error)))) from error
        changed = pod_changed_violation(waits, task.pod, task.clearing.node)
        if changed is not None:
            self._observer.on_error(f"{task.name}: {changed.text}; the watch is behind")
            task.retry_at_s = view.now_at_s + RETRY_S
            raise NotPossibleError(outdates=True)
        if there is None or there.terminating:
            self._assume_terminating(victim, there)
            raise NotPossibleError(outdates=True)
        if node is None:
            raise NotPossibleError(Event("given_up", Reason("node_gone", f"node {task.clearing.node} is gone")))
        immune, closed = view.planner.current_violations(waits or task.pod, there, node, task.context(view.now_at_s))
        closed = closed or lost_hold_violation(node, task.clearing.hold)
        if closed is not None:
            raise NotPossibleError(Event("given_up", closed))
        if immune is not None or there.spec.node_name != task.clearing.node:
            self._exclude(task, victim, view.now_at_s + EXCLUDE_AFTER_REFUSAL_S)
            raise NotPossibleError(outdates=True)

    def _read_uncertain(self, task: RescueTask, view: ReconcileView) -> None:
        """Read the pods whose eviction has no known result, except those whose request has not ended."""
        found = False
        for uid, victim in list(task.uncertain_evictions.items()):
            if self.evictions.is_pending(uid):
                task.retry_at_s = view.now_at_s + RETRY_S
                continue
            found = True
            now = read_pod(self._api, victim.pod)
            if is_evicted(now):
                self._note_eviction(task, victim, view, now, own=uid in task.recorded_victims)
            del task.uncertain_evictions[uid]
        if found and not task.uncertain_evictions:
            task.exclude_failed_nodes(task.last_node)

    def _request_eviction(self, task: RescueTask, victim: Victim, view: ReconcileView, *, dry_run: bool) -> None:
        """Request the eviction, or check it by a dry run."""
        try:
            self.evictions.request(victim, dry_run=dry_run)
        except KubeError as error:
            if not dry_run and may_have_succeeded(error):
                task.uncertain_evictions[victim.pod.metadata.uid] = victim
            self._handle_refusal(task, victim, error, view)
        if not dry_run:
            self._note_eviction(task, victim, view)

    def _note_eviction(
        self, task: RescueTask, victim: Victim, view: ReconcileView, now: t.Optional[Pod] = None, *, own: bool = True
    ) -> None:
        """Record that the pod was evicted for the task. An eviction by another program is not reported again."""
        self._assume_terminating(victim, now)
        task.evicted.append(victim)
        task.grace_ends_at_s[victim.pod.metadata.uid] = view.now_at_s + victim.grace_period_s
        task.reset_backoff()
        if not own:
            return
        self._observer.on_evicted(task, victim)
        node = victim.pod.spec.node_name  # the task may have another node by now
        self._events.on_pod(victim.pod, "EvictedForCriticalPod", f"evicted from node {node} to free capacity for critical pod {task.name}")
        self._events.on_pod(task.pod, "RescueEviction", f"evicted pod {victim.pod.metadata.full_name} from node {node} for it")

    def _handle_refusal(self, task: RescueTask, victim: Victim, error: KubeError, view: ReconcileView) -> t.NoReturn:
        """Exclude the victim of a refused eviction, or request its eviction again later."""
        if is_permission_error(error):
            raise NotPossibleError(_failed_by(error))
        denied = is_admission_denial(error)
        if isinstance(error, MultipleBudgetsError):
            self._exclude(task, victim, math.inf)
        elif isinstance(error, (NotFoundError, ConflictError)) and not denied:
            # The pod is gone or terminating and releases its capacity, or its budget was being written or deleted.
            now = read_pod(self._api, victim.pod)
            if now is not None and not now.terminating:
                self._retry_eviction(task, victim, error, view)
            self._assume_terminating(victim, now)
        elif isinstance(error, BudgetError) and not denied and not task.is_clearing:
            self._exclude(task, victim, view.now_at_s + EXCLUDE_AFTER_REFUSAL_S)
        elif is_transient(error) and not denied:
            self._retry_eviction(task, victim, error, view)
        else:
            self._observer.on_error(f"{task.name}: {error}")
            self._exclude(task, victim, view.now_at_s + EXCLUDE_AFTER_DENIAL_S)
        raise NotPossibleError(outdates=True)

    def _retry_eviction(self, task: RescueTask, victim: Victim, error: KubeError, view: ReconcileView) -> t.NoReturn:
        if isinstance(error, EvictionPendingError):  # not a refusal: the answer is pending
            task.retry_at_s = task.plan_at_s = view.now_at_s + RETRY_S
            raise NotPossibleError(outdates=True)
        # The eviction may have been carried out, which is checked first.
        refused_for_s = 0.0 if task.first_refused_at_s is None else view.now_at_s - task.first_refused_at_s
        is_first = task.first_refused_at_s is None and victim.pod.metadata.uid in task.uncertain_evictions
        if is_first or refused_for_s < self._options.evict_timeout_s:
            task.back_off(view.now_at_s, error.retry_after_s if isinstance(error, ApiError) else None)
            task.plan_at_s = task.retry_at_s
            raise NotPossibleError(outdates=True)
        self._observer.on_error(f"{task.name}: {error}")
        if task.is_clearing:
            raise NotPossibleError(Event("given_up", Reason("evict_timeout", f"refused for {self._options.evict_timeout_s} s: {error}")))
        self._exclude(task, victim, view.now_at_s + EXCLUDE_AFTER_DENIAL_S)
        task.reset_backoff()
        raise NotPossibleError(outdates=True)

    def _release(self, task: RescueTask, view: ReconcileView, *, otherwise: t.Optional[Event] = None) -> None:
        """Release the task's node. If that cannot be written yet, the event ``otherwise`` follows, or the next step tries again."""
        if not self.release_node(task, view.snapshot.nodes):
            task.back_off(view.now_at_s)
            raise NotPossibleError(otherwise)

    def _assume_terminating(self, victim: Victim, now: t.Optional[Pod]) -> None:
        """Let the cached state show the end of the victim. ``now``: as just read; None if it is gone, or was not read."""
        deletion_timestamp = now.metadata.deletion_timestamp if now is not None else None
        self._cache.assume_terminating(victim.pod.metadata.uid, deletion_timestamp or "")

    def _exclude(self, task: RescueTask, victim: Victim, until_s: float) -> None:
        task.excluded_victims[victim.pod.metadata.uid] = until_s


def _postpone(task: RescueTask, view: ReconcileView, why: Reason, status: str) -> None:
    """Plan again after five seconds."""
    task.set_plan(RescuePlan(task.pod, status, why), view.now_at_s)
    task.plan_at_s = view.now_at_s + POSTPONED_FOR_S


def _failed_by(error: KubeError) -> Event:
    return Event("failed", Reason("error", str(error)))


def _without_effect(task: RescueTask, last: str) -> NotPossibleError:
    why = Reason(NO_OTHER_NODE, f"pods were evicted without effect on {task.failed_nodes} nodes{last}")
    return NotPossibleError(Event("failed", why))
