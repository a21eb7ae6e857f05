# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One critical pod without a node, from its first observation until it is bound, given up or gone."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Hashable
from dataclasses import dataclass, field

from ...model.api.pod import Pod
from ...model.backoff import Backoff
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...rescue.plan import IMPOSSIBLE, PLANNED, WAITING, RescueContext, RescuePlan, Victim
from ...rescue.planner import CAPACITY_BECOMING_FREE, NO_NODE, OTHERS_TERMINATING, UNEXPLAINED, RescuePlanner
from ...state.hold import Hold
from ...state.rescue_attempts import attempt_key

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
MOST_SETTLES = 10
SETTLES_WITHIN_S = 600.0
MOST_SETTLING_S = 300.0
"""In SETTLES_WITHIN_S seconds the scheduler gets at most MOST_SETTLES settle times, and at most MOST_SETTLING_S seconds in all."""
REPLAN_S: t.Mapping[str, float] = {WAITING: 1.0, IMPOSSIBLE: 5.0}
"""Seconds until the next plan of a pod, by the status of the last plan."""
TURN_ENDS_WITHIN_S = 15.0
"""Seconds after the grace period of a victim for its end and the scheduler's next attempt at the pod."""
LEFT_ALONE_FOR_S = 60.0
"""Seconds for which a node is excluded that could not be cleared and on which nothing was evicted."""


@dataclass
class RescueTask:
    """The rescue of one pod.

    Times ending in ``_at_s`` are of the monotonic clock.
    ``unschedulable_since_s``: when the scheduler marked the pod as unschedulable, by the API server's clock.
    ``stage``: WATCHED (to be planned), CLEARING (evictions on ``node``) or ENDED. ``status`` and ``reason``: the present values for a
    result.
    ``plan_at_s``: the next plan. ``retry_at_s``: the next request after a refused one; ``first_refused_at_s``: the first refusal in a row.
    ``give_up_at_s``: the end of the wait for the scheduler to bind the pod to ``node``. ``evicted``: the pods that were evicted for it.
    ``last_plan``: the last plan, made in the round ``planned_in_round``. ``needs_explanation``: the reasons why no eviction helps are still
    to be found. ``reported_reason``: the reason that was last reported. ``was_possible``: evictions were possible in the last plan.
    ``node``: the node that is being cleared. ``hold``: the hold on it. ``nominated_version``: the version of the pod that was last
    nominated for it. ``initial_pods``: the uids of the pods on it at the start. ``planned_victims``: the uids of the pods that may be
    evicted there. ``planned_node``: the node of both sets.
    ``key``: the key of the entry that counts its attempts. It does not change with the owner reference of the pod. ``attempt_started``: an
    attempt has begun. ``outcome_recorded``: its result is in the ConfigMap. ``acted``: this program has held a
    node or evicted a pod for it.
    ``grace_ends_at_s``: the end of the grace period of each evicted pod, by uid. ``max_wait_s``: the maximum wait for other terminating
    pods. ``waits_since_s``: the start of the wait for their capacity. ``awaits_others_since_s``: the start of the wait for their end,
    because it makes the scheduler try the pod. ``queued_since_s``: the start of the wait of its plan for other rescues.
    ``uncertain_evictions``: pods, by uid, whose eviction has an unknown result. ``loaded``: the evictions of another program for the pod
    are known. ``recorded_victims``: the uids of the victims in the ConfigMap.
    ``excluded_nodes``: nodes that are not tried, and ``excluded_victims``: pods whose eviction was refused, both with the end of the
    exclusion. ``failed_nodes``: the number of nodes on which pods were evicted without effect.
    ``pod_gone``: the pod does not exist any more.
    """

    pod: Pod
    unschedulable_since_s: float
    settles_at_s: float
    stage: str = WATCHED
    status: str = ""
    reason: t.Optional[Reason] = None
    last_plan: t.Optional[RescuePlan] = None
    plan_at_s: float = 0.0
    planned_in_round: int = -1
    needs_explanation: bool = False
    reported_reason: t.Optional[Reason] = None
    node: str = ""
    hold: t.Optional[Hold] = None
    nominated_version: str = ""
    initial_pods: t.Optional[frozenset[str]] = None
    planned_victims: frozenset[str] = frozenset()
    planned_node: str = ""
    key: str = ""
    give_up_at_s: float = 0.0
    evicted: list[Victim] = field(default_factory=list)
    grace_ends_at_s: dict[str, float] = field(default_factory=dict)
    was_possible: bool = False
    uncertain_evictions: dict[str, Victim] = field(default_factory=dict)
    loaded: bool = False
    recorded_victims: frozenset[str] = frozenset()
    max_wait_s: float = math.inf
    waits_since_s: float = math.inf
    awaits_others_since_s: float = math.inf
    queued_since_s: float = math.inf
    excluded_nodes: dict[str, float] = field(default_factory=dict)
    excluded_victims: dict[str, float] = field(default_factory=dict)
    failed_nodes: int = 0
    retry_at_s: float = 0.0
    first_refused_at_s: t.Optional[float] = None
    attempt_started: bool = False
    acted: bool = False
    outcome_recorded: bool = False
    pod_gone: bool = False
    _refusals: int = 0
    _settling_restarted_at_s: float = -math.inf

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
    def needs_recording(self) -> bool:
        """True if the task has ended and the ConfigMap still has its attempt as in progress."""
        return self.is_finished and self.attempt_started and not self.outcome_recorded

    def context(self, now_at_s: float, scheduler: t.Optional[Reason] = None) -> RescueContext:
        """Return the input of the planner for this task, without expired exclusions."""
        self.excluded_nodes = {name: until_s for name, until_s in self.excluded_nodes.items() if until_s > now_at_s}
        self.excluded_victims = {uid: until_s for uid, until_s in self.excluded_victims.items() if until_s > now_at_s}
        return RescueContext(
            scheduler_down=scheduler,
            excluded_nodes=frozenset(self.excluded_nodes),
            excluded_victims=frozenset(self.excluded_victims),
            evicted_count=len(self.evicted),
            nominated_by_rescue=self.stage == CLEARING,
            awaits_terminating=now_at_s <= self.waits_since_s + self.max_wait_s,
            awaits_others=now_at_s <= self.awaits_others_since_s + self.max_wait_s,
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
        left = self.planned_victims.difference(victim.pod.metadata.uid for victim in self.evicted)
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
    def may_change_soon(self) -> bool:
        """True if an exclusion is temporary, so that a refused eviction or node may be possible later."""
        return any(until_s < math.inf for until_s in (*self.excluded_victims.values(), *self.excluded_nodes.values()))

    @property
    def explained_plan(self) -> t.Optional[RescuePlan]:
        """The last plan if it has the reasons why no eviction helps and is the present result. None otherwise."""
        known = self.last_plan
        if known is None or self.reason is not known.reason or known.status != IMPOSSIBLE:
            return None
        return known if known.reason.code == NO_NODE and known.reason is not UNEXPLAINED else None

    def set_plan(self, plan: RescuePlan) -> None:
        """Use the plan as the present result."""
        self.last_plan, self.status, self.reason = plan, plan.status, plan.reason

    def restart_settling(self, now_at_s: float, settle_time_s: float) -> None:
        """Restart the settle time of the scheduler, because capacity for the pod may have appeared."""
        if now_at_s > self._settling_restarted_at_s + SETTLES_WITHIN_S:
            self._settling_restarted_at_s = now_at_s
        latest_s = self._settling_restarted_at_s + min(MOST_SETTLES * settle_time_s, MOST_SETTLING_S)
        self.settles_at_s = max(self.settles_at_s, min(now_at_s + settle_time_s, latest_s))

    def note_wait(self, now_at_s: float) -> None:
        """Record the start of a wait for terminating pods if the plan requires one.

        The first wait counts: pods that terminate later may be an intended delay.
        """
        code = self.reason.code if self.reason is not None else ""
        if not self._is_queued:
            self.queued_since_s = math.inf
        if code == CAPACITY_BECOMING_FREE:
            self.waits_since_s = min(self.waits_since_s, now_at_s)
        elif code == OTHERS_TERMINATING:
            self.awaits_others_since_s = min(self.awaits_others_since_s, now_at_s)

    def queue(self, now_at_s: float, first: Reason) -> None:
        """Let the plan wait for another rescue."""
        self.status, self.reason = WAITING, first
        self.queued_since_s = min(self.queued_since_s, now_at_s)

    def is_next(self, now_at_s: float) -> bool:
        """Return whether the task has waited for other rescues for its maximum time.

        No other rescue with the same or lower priority begins before it then.
        """
        return self.stage == WATCHED and self._is_queued and now_at_s > self.queued_since_s + self.max_wait_s

    @property
    def _is_queued(self) -> bool:
        """True if only other rescues, their terminating pods, or the settle time of the scheduler delay its start."""
        code = self.reason.code if self.reason is not None else ""
        return self.status == PLANNED or code in (QUEUED, OTHERS_TERMINATING, SETTLING)

    def start(self, node_name: str, hold: t.Optional[Hold], *, give_up_at_s: float) -> None:
        """Begin to clear the node."""
        self.stage, self.node, self.hold, self.give_up_at_s = CLEARING, node_name, hold, give_up_at_s
        self.nominated_version, self.queued_since_s = "", math.inf
        if node_name != self.planned_node:  # the limit of a plan remains valid after a takeover
            self.planned_node, self.initial_pods, self.planned_victims = node_name, None, frozenset()
        self.reset_backoff()

    def give_up_node(self, now_at_s: float) -> None:
        """Give up the node that was cleared without effect, so that another one is planned."""
        had_no_effect = any(victim.pod.spec.node_name == self.node for victim in self.evicted)
        self.failed_nodes += had_no_effect
        self.excluded_nodes[self.node] = math.inf if had_no_effect else now_at_s + LEFT_ALONE_FOR_S
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
        self.excluded_nodes.update(dict.fromkeys(failed, math.inf))

    def finish(self, status: str, reason: Reason) -> None:
        """End the task with this status and reason."""
        self.stage, self.status, self.reason = ENDED, status, reason

    def keep_hold(self) -> None:
        """Describe the begun rescue for the result of a run that does not wait for it."""
        number = len(self.evicted)
        pods = "1 pod was" if number == 1 else f"{number or 'no'} pods were"
        until = f", which is held for it until {self.hold.deadline} at most" if self.hold is not None else ""
        self.status = WAITING
        self.reason = Reason(
            RESCUE_BEGUN,
            f"{pods} evicted from node {self.node}{until}: run the module again, or run the rescuer, to complete the rescue and to release "
            "the node",
        )

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


class ReconcileView(t.NamedTuple):
    """The state of one step.

    ``now_s`` is the API server's clock in seconds since the epoch; ``now_at_s`` is this machine's monotonic clock. ``plans`` has the plans
    on it, by equivalence key (``rescue/equivalence.py``) or by the pod's UID.
    """

    snapshot: ClusterSnapshot
    planner: RescuePlanner
    now_s: float
    now_at_s: float
    plans: dict[Hashable, RescuePlan]
