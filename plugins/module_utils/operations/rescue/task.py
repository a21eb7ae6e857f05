# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One critical pod without a node, from its first observation until it is bound, given up or gone."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.backoff import Backoff
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...rescue.plan import IMPOSSIBLE, PLANNED, WAITING, RescueContext, RescuePlan, Victim
from ...rescue.plan_reasons import NO_NODE, OTHERS_TERMINATING, UNEXPLAINED
from ...state.hold import Hold
from ...state.rescue_attempts import AttemptRecord, attempt_key, existing_key
from .exclusions import Exclusions
from .plan_limit import NO_LIMIT, PlanLimit
from .waits import Settling, Waits

QUEUED = "queued"
SETTLING = "settling"
NOT_LEADER = "not_leader"
RESCUE_BEGUN = "rescue_begun"

# Stages of a task.
WATCHED = "watched"
CLEARING = "clearing"
ENDED = "ended"

# Results of a task.
RESCUED = "rescued"
FAILED = "failed"
POD_GONE = "pod_gone"
NO_OTHER_NODE = "no_other_node"

BACKOFF = Backoff(0.5, 10.0)
REPLAN_S: t.Mapping[str, float] = {WAITING: 1.0, IMPOSSIBLE: 5.0}
"""Seconds until the next plan of a pod, by the status of the last plan."""
TURN_ENDS_WITHIN_S = 15.0
"""Seconds after the grace period of a victim for its end and the scheduler's next attempt at the pod."""
LEFT_ALONE_FOR_S = 60.0
"""Seconds for which a node is excluded that could not be cleared and on which nothing was evicted."""


@dataclass
class RescueTask:
    """The rescue of one pod. Only the methods of this class write its fields.

    Times ending in ``_at_s`` are of the monotonic clock. ``waits`` and ``exclusions`` are replaced by new values and never changed.
    """

    pod: Pod
    unschedulable_since_s: float
    """The time at which the scheduler marked the pod as unschedulable, by the API server's clock."""
    settling: Settling
    waits: Waits = field(default_factory=Waits)
    exclusions: Exclusions = field(default_factory=Exclusions)
    stage: str = WATCHED
    """WATCHED (to be planned), CLEARING (evictions on ``node``) or ENDED."""
    status: str = ""
    """The present status for a result."""
    reason: t.Optional[Reason] = None
    """The present reason for a result."""
    pod_gone: bool = False
    """The pod does not exist any more."""

    # The plan.
    last_plan: t.Optional[RescuePlan] = None
    planned_in_round: int = -1
    """The round of the last plan."""
    planned_at_s: float = -math.inf
    """The time of the view of the last plan."""
    plan_at_s: float = 0.0
    """The time of the next plan."""
    needs_explanation: bool = False
    """The reasons why no eviction helps are still to be found."""
    reported_reason: t.Optional[Reason] = None
    """The reason that was last reported."""
    was_possible: bool = False
    """Evictions were possible in the last plan."""
    planned_hold: t.Optional[tuple[Node, Hold]] = None
    """The hold of the plan of a dry run, with the node as it was then."""

    # The node that is being cleared.
    node: str = ""
    hold: t.Optional[Hold] = None
    """The hold on the node. None if another party's taint reserves the node."""
    plan_limit: PlanLimit = NO_LIMIT
    """The evictions that are allowed on the node."""
    nominated_version: str = ""
    """The version of the pod that was last nominated for the node."""
    give_up_at_s: float = 0.0
    """The end of the wait for the scheduler to bind the pod to the node."""
    hold_ends_at_s: float = 0.0
    """The deadline of the hold. The node is released then at the latest."""

    # The evictions and the attempt.
    evicted: list[Victim] = field(default_factory=list)
    """The pods that were evicted for the pod."""
    grace_ends_at_s: dict[str, float] = field(default_factory=dict)
    """The end of the grace period of each evicted pod, by uid."""
    uncertain_evictions: dict[str, Victim] = field(default_factory=dict)
    """The pods, by uid, whose eviction has an unknown result."""
    failed_nodes: int = 0
    """The number of nodes on which pods were evicted without effect."""
    key: str = ""
    """The key of the entry that counts the attempts. It does not change with the owner reference of the pod."""
    loaded: bool = False
    """The evictions of another program for the pod are known."""
    recorded_victims: frozenset[str] = frozenset()
    """The uids of the victims in the ConfigMap."""
    attempt_started: bool = False
    """An attempt has begun."""
    outcome_recorded: bool = False
    """The result of the attempt is in the ConfigMap."""
    acted: bool = False
    """This program has held a node or evicted a pod for the pod."""

    # The requests to the API server.
    retry_at_s: float = 0.0
    """The time of the next request after a refused one."""
    first_refused_at_s: t.Optional[float] = None
    """The time of the first refusal in a row."""

    _refusals: int = 0
    _planned_again: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.key = self.key or attempt_key(self.pod)

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def name(self) -> str:
        """Namespace and name of the pod."""
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def is_finished(self) -> bool:
        """True if the task has ended."""
        return self.stage == ENDED

    @property
    def is_plan(self) -> bool:
        """True if the task has ended with a plan that is not carried out."""
        return self.status == PLANNED and self.is_finished

    @property
    def needs_recording(self) -> bool:
        """True if the task has ended and the ConfigMap still has its attempt as in progress."""
        return self.is_finished and self.attempt_started and not self.outcome_recorded

    def context(self, now_at_s: float, scheduler: t.Optional[Reason] = None) -> RescueContext:
        """Return the input of the planner for this task, without expired exclusions."""
        self.exclusions, waits = self.exclusions.at(now_at_s), self.waits
        return RescueContext(
            scheduler_down=scheduler,
            excluded_nodes=frozenset(self.exclusions.nodes),
            excluded_victims=frozenset(self.exclusions.victims),
            evicted_count=len(self.evicted),
            nominated_by_rescue=self.stage == CLEARING,
            awaits_terminating=not waits.has_ended(waits.capacity_since_s, now_at_s),
            awaits_others=not waits.has_ended(waits.others_since_s, now_at_s),
            awaits_expected=not waits.has_ended(waits.expected_pods_since_s, now_at_s),
        )

    def is_under_way(self, now_at_s: float, snapshot: ClusterSnapshot) -> bool:
        """Return whether its node is being cleared and victims must still be evicted or have not ended yet."""
        if self.stage != CLEARING:
            return False
        ends = self._grace_ends()
        return not ends or self._is_evicting or now_at_s <= max(ends) + TURN_ENDS_WITHIN_S or self._has_victims_to_evict(snapshot)

    def is_held_by_nomination(self, now_at_s: float, snapshot: ClusterSnapshot) -> bool:
        """Return whether only the nomination reserves the capacity while a victim on its node ends or its eviction is unanswered."""
        if self.hold is None or not self.hold.nominates:
            return False
        return (self._is_evicting or bool(self._grace_ends())) and self.is_under_way(now_at_s, snapshot)

    def _has_victims_to_evict(self, snapshot: ClusterSnapshot) -> bool:
        """Return whether a planned victim must still be evicted. False if the pod fits without that."""
        if self.status == WAITING:
            return False
        left = self.plan_limit.victims.difference(victim.pod.metadata.uid for victim in self.evicted)
        there = snapshot.pods_by_node.get(self.node, ()) if left else ()
        return any(pod.metadata.uid in left and not (pod.terminating or pod.terminal) for pod in there)

    @property
    def _is_evicting(self) -> bool:
        """True if the eviction of a pod on its node has an unknown result."""
        return any(victim.pod.spec.node_name == self.node for victim in self.uncertain_evictions.values())

    def _grace_ends(self) -> list[float]:
        """Return the ends of the grace periods of the pods that were evicted from the node."""
        return [self.grace_ends_at_s[victim.pod.metadata.uid] for victim in self.evicted if victim.pod.spec.node_name == self.node]

    @property
    def explained_plan(self) -> t.Optional[RescuePlan]:
        """The last plan if it has the reasons why no eviction helps and is the present result. None otherwise."""
        known = self.last_plan
        if known is None or self.reason is not known.reason or known.status != IMPOSSIBLE:
            return None
        return known if known.reason.code == NO_NODE and known.reason is not UNEXPLAINED else None

    # --- the pod and its plan ---

    def observe(self, pod: t.Optional[Pod], now_at_s: float, settle_time_s: float) -> None:
        """Use the pod as it is now. None: it does not exist any more.

        The settle time restarts if the scheduler has nominated the pod for another node: it preempts, and its victims may not be visible
        yet.
        """
        self.pod_gone = pod is None
        if pod is None:
            return
        if pod.status.nominated_node_name not in ("", self.node, self.pod.status.nominated_node_name):
            self.restart_settling(now_at_s, settle_time_s)
        self.pod = pod

    def set_plan(self, plan: RescuePlan) -> None:
        """Use the plan as the present result."""
        self.last_plan, self.status, self.reason = plan, plan.status, plan.reason

    def accept_plan(self, plan: RescuePlan, now_at_s: float, *, in_round: int, needs_explanation: bool) -> None:
        """Use the plan that was made in this round as the present result, and set the time of the next plan."""
        self.planned_in_round, self.planned_at_s, self.needs_explanation = in_round, now_at_s, needs_explanation
        self.set_plan(plan)
        self.note_wait(now_at_s)
        self.plan_at_s = now_at_s + REPLAN_S.get(plan.status, 0.0)
        if now_at_s < self.settling.ends_at_s:
            self.plan_at_s = self.settling.ends_at_s

    def discard_plan(self) -> None:
        """Discard the plan of a dry run, and plan again now."""
        self.stage, self.status, self.plan_at_s = WATCHED, "", 0.0

    def replan_at(self, plan_at_s: float) -> None:
        """Set the time of the next plan."""
        self.plan_at_s = plan_at_s

    def plan_again_if_older(self, since_s: float, now_at_s: float) -> bool:
        """Plan again now if no eviction helped in the last plan, and this plan or its reasons are older than ``since_s``.

        Return whether that is so. After a failed request it is not, because its pause is not over.
        """
        if self.stage != WATCHED or self.status != IMPOSSIBLE or not self.may_request(now_at_s):
            return False
        if self.planned_at_s < since_s:
            self.plan_at_s = now_at_s
            return True
        return self.needs_explanation

    def note_possible(self, possible: bool) -> bool:
        """Record whether evictions are possible now. Return whether they have become possible since the last plan."""
        has_become_possible = possible and not self.was_possible
        self.was_possible = possible
        return has_become_possible

    def note_reported(self) -> None:
        """Record that the present reason was reported."""
        self.reported_reason = self.reason

    def restart_settling(self, now_at_s: float, settle_time_s: float) -> None:
        """Restart the settle time of the scheduler, because capacity for the pod may have appeared."""
        self.settling = self.settling.restarted(now_at_s, settle_time_s)

    def note_wait(self, now_at_s: float) -> None:
        """Record the start of a wait if the plan requires one."""
        waits = self.waits if self._is_queued else self.waits.end_queue()
        waits = waits.begin(self.reason.code if self.reason is not None else "", now_at_s)
        self.waits = waits.expect_node(now_at_s) if self._expects_node else waits

    def wait_for_leader(self, now_at_s: float, holder: str) -> None:
        """Let the plan wait for the end of another program, which has the Lease."""
        self.status, self.reason = WAITING, Reason(NOT_LEADER, f"{holder or 'another program'} has the Lease and does the rescues")
        self.plan_at_s = now_at_s + REPLAN_S[WAITING]

    def queue(self, now_at_s: float, plan: RescuePlan, first: Reason) -> None:
        """Let the plan wait for another rescue. Its evictions begin later."""
        self.last_plan = replace(plan, next_node=plan.choice.node if plan.choice is not None else "")
        self.status, self.reason = WAITING, first
        self.note_wait(now_at_s)
        self.waits = self.waits.begin_queue(now_at_s)
        self.plan_at_s = now_at_s + REPLAN_S[WAITING]

    def is_next(self, now_at_s: float) -> bool:
        """Return whether the task has waited for other rescues for its maximum time.

        No other rescue with the same or lower priority begins before it then.
        """
        return self.stage == WATCHED and self._is_queued and self.waits.has_ended(self.waits.queued_since_s, now_at_s)

    def is_expected(self, now_at_s: float) -> bool:
        """Return whether the pod is expected to get the expected node or the next node of its plan.

        This ends after a time, so that a pod that is never bound does not delay the rescues of others without end.
        """
        if self.stage != WATCHED or self.pod.spec.node_name or self.pod_gone or not self._expects_node:
            return False
        return not self.waits.has_ended(self.waits.node_since_s, now_at_s)

    @property
    def _expects_node(self) -> bool:
        """True if the last plan has a node that the pod is expected to get, now or after other rescues."""
        return self.last_plan is not None and bool(self.last_plan.expected_node or self.last_plan.next_node)

    @property
    def _is_queued(self) -> bool:
        """True if only other rescues, their terminating pods, or the settle time of the scheduler delay its start."""
        code = self.reason.code if self.reason is not None else ""
        return self.status == PLANNED or code in (QUEUED, OTHERS_TERMINATING, SETTLING)

    # --- the node that is being cleared ---

    def start(self, node_name: str, hold: t.Optional[Hold], *, give_up_at_s: float, hold_ends_at_s: float) -> None:
        """Begin to clear the node."""
        self.stage, self.node, self.hold = CLEARING, node_name, hold
        self.give_up_at_s, self.hold_ends_at_s = give_up_at_s, hold_ends_at_s
        self.nominated_version, self.waits = "", self.waits.end_queue()
        if node_name != self.plan_limit.node:  # the limit of a plan remains valid after a takeover
            self.plan_limit = PlanLimit(node_name)
        self.reset_backoff()

    def limit_to(self, limit: PlanLimit) -> None:
        """Allow only these evictions on the node."""
        self.plan_limit = limit

    def note_nominated(self, version: str) -> None:
        """Record the version of the pod that was nominated for the node."""
        self.nominated_version = version

    def end_nomination(self) -> bool:
        """Return whether this task has nominated the pod for the node, and forget the nomination."""
        nominated, self.nominated_version = self.nominated_version, ""
        return bool(nominated)

    def note_released(self) -> None:
        """Record that the node is not held any more."""
        self.hold, self.nominated_version = None, ""

    def abandon(self) -> None:
        """Stop the work on the node and keep its hold, because another program may be active, which may evict further pods."""
        self.stage, self.node, self.hold, self.loaded = WATCHED, "", None, False

    def exclude_node(self, node_name: str, until_s: float, why: Reason) -> None:
        """Exclude the node from the next plans until this time."""
        self.exclusions = self.exclusions.with_node(node_name, until_s, why)

    def give_up_node(self, now_at_s: float, why: Reason) -> None:
        """Give up the node that was cleared without effect, so that another one is planned."""
        had_no_effect = any(victim.pod.spec.node_name == self.node for victim in self.evicted)
        self.failed_nodes += had_no_effect
        self.exclude_node(self.node, math.inf if had_no_effect else now_at_s + LEFT_ALONE_FOR_S, why)
        self.requeue(0.0)

    @property
    def may_plan_node_again(self) -> bool:
        """True if the plan for the node is outdated before the first eviction there. This counts once for each node.

        Pods can be bound to the node before it is held. If they come again and again, the node is given up.
        """
        has_evicted = any(victim.pod.spec.node_name == self.node for victim in self.evicted)
        return not (has_evicted or self.plan_limit.is_confirmed or self._is_evicting or self.node in self._planned_again)

    def plan_node_again(self) -> None:
        """Stop the clearing of the node, and plan again on all nodes, including this one."""
        self._planned_again.add(self.node)
        self.requeue(0.0)

    def requeue(self, plan_at_s: float) -> None:
        """Stop the clearing of a node, and plan again from this time on."""
        self.stage, self.node, self.hold, self.plan_at_s = WATCHED, "", None, plan_at_s

    @property
    def last_node(self) -> str:
        """The node that is being cleared, or the last one."""
        return self.node or (self.evicted[-1].pod.spec.node_name if self.evicted else "")

    def count_failed_nodes(self, current: str) -> None:
        """Count the nodes that were cleared for the pod without effect, also by another program, except ``current``."""
        nodes = dict.fromkeys(victim.pod.spec.node_name for victim in self.evicted)
        failed = [name for name in nodes if name != current]
        self.failed_nodes = max(self.failed_nodes, len(failed))
        self.exclusions = self.exclusions.with_failed_nodes(failed)

    # --- evictions and the attempt ---

    def exclude_victim(self, victim: Victim, until_s: float) -> None:
        """Exclude the pod as a victim until this time, because its eviction was refused."""
        self.exclusions = self.exclusions.with_victim(victim.pod.metadata.uid, until_s)

    def note_evicted(self, victim: Victim, grace_ends_at_s: float) -> None:
        """Record that the pod was evicted for the task, and the end of its grace period."""
        self.evicted.append(victim)
        self.grace_ends_at_s[victim.pod.metadata.uid] = grace_ends_at_s

    def note_uncertain_eviction(self, victim: Victim) -> None:
        """Record that the result of the pod's eviction is unknown."""
        self.uncertain_evictions[victim.pod.metadata.uid] = victim

    def note_known_eviction(self, victim: Victim) -> None:
        """Record that the result of the pod's eviction is known now."""
        del self.uncertain_evictions[victim.pod.metadata.uid]

    def note_action(self) -> None:
        """Record that this program has held a node or evicted a pod for the task."""
        self.acted = True

    def find_attempt(self, entries: Mapping[str, AttemptRecord]) -> t.Optional[AttemptRecord]:
        """Return the entry that counts the attempts for the pod, and keep its key. ``entries``: the entries by key."""
        self.key = existing_key(entries, self.uid, self.key)
        return entries.get(self.key)

    def load_victims(self, victims: Iterable[Victim]) -> bool:
        """Add the pods that another program may have evicted for the task. Return whether there are any."""
        self.loaded = True
        known = {victim.pod.metadata.uid for victim in self.evicted}
        for victim in victims:
            if victim.pod.metadata.uid not in known:
                self.note_uncertain_eviction(victim)
        return bool(self.uncertain_evictions)

    def note_attempt(self) -> None:
        """Record that the attempt is in progress. Its result must be recorded at its end."""
        self.attempt_started = True

    def note_recorded_victims(self, victims: Iterable[Victim]) -> None:
        """Record that the attempt is in progress in the ConfigMap, with these victims."""
        self.note_attempt()
        self.recorded_victims = frozenset(victim.pod.metadata.uid for victim in victims)

    def note_recorded_outcome(self) -> None:
        """Record that the result of the attempt is in the ConfigMap, or cannot be written there."""
        self.outcome_recorded = True

    # --- the end and the times of the next requests ---

    def finish(self, status: str, reason: Reason) -> None:
        """End the task with this status and reason."""
        self.stage, self.status, self.reason = ENDED, status, reason

    def finish_plan(self, reason: Reason, hold: t.Optional[tuple[Node, Hold]]) -> None:
        """End the task of a dry run with its plan. ``hold``: the hold that a run would place, with the node as it is now."""
        self.finish(PLANNED, reason)
        self.planned_hold = hold

    def set_begun(self) -> None:
        """Set the status and the reason of a begun rescue, for the result of a run that does not wait for it."""
        number = len(self.evicted)
        pods = "1 pod was" if number == 1 else f"{number or 'no'} pods were"
        until = f", which is held for it until {self.hold.deadline} at most" if self.hold is not None else ""
        self.status = WAITING
        self.reason = Reason(
            RESCUE_BEGUN,
            f"{pods} evicted from node {self.node}{until}: run the module again, or run the rescuer, to complete the rescue and to release "
            "the node",
        )

    def retry_at(self, retry_at_s: float) -> None:
        """Set the time of the next request."""
        self.retry_at_s = retry_at_s

    def may_request(self, now_at_s: float) -> bool:
        """Return whether the pause before the next request is over. No pause is longer than the hold of the node that is cleared."""
        return now_at_s >= self.retry_at_s or (self.stage == CLEARING and now_at_s > self.hold_ends_at_s)

    def retry_after_error(self, retry_at_s: float) -> None:
        """Set the time of the next request and the next plan after an error. Other pods need not wait for a rescue that cannot begin."""
        self.retry_at_s = self.plan_at_s = retry_at_s
        self.waits = self.waits.end_queue()

    def reset_backoff(self) -> None:
        """Reset the back-off after a request that succeeded. The next refusal is the first in a row."""
        self.first_refused_at_s, self.retry_at_s, self._refusals = None, 0.0, 0

    def back_off(self, now_at_s: float, asked_s: t.Optional[float] = None) -> None:
        """Set the time of the next request: after the server's retry-after, or after twice the previous pause."""
        if self.first_refused_at_s is None:
            self.first_refused_at_s = now_at_s
        self._refusals += 1
        self.retry_at_s = now_at_s + (asked_s if asked_s is not None else BACKOFF.pause_s(self._refusals))

    def refused_for_s(self, now_at_s: float) -> float:
        """Return the seconds since the first refusal in a row."""
        return 0.0 if self.first_refused_at_s is None else now_at_s - self.first_refused_at_s
