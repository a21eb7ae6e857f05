# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The data of one rescue, and the questions about it that need no request. ``states.py`` has the transitions. Pure.

Times ending in ``_at_s`` are of the monotonic clock.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...model.api.pod import Pod
from ...model.backoff import Backoff
from ...model.reason import Reason
from ...rescue.held_nodes import HeldNode
from ...rescue.nomination_alone import OTHERS_TERMINATING
from ...rescue.plan import IMPOSSIBLE, PLANNED, WAITING, Choice, RescueContext, RescuePlan, Victim
from ...rescue.plan_reasons import ANOTHER_POD_FIRST, CAPACITY_BECOMING_FREE, NO_NODE, UNEXPLAINED, pod_names
from ...state.hold import Hold

# The states.
WATCHED = "watched"
EVICTING = "evicting"
BINDING = "binding"
ENDED = "ended"

# The results, in addition to those of a plan.
RESCUED = "rescued"
FAILED = "failed"
POD_GONE = "pod_gone"

# Codes of reasons.
QUEUED = "queued"
SETTLING = "settling"
NOT_LEADER = "not_leader"
NO_OTHER_NODE = "no_other_node"

BACKOFF = Backoff(0.5, 10.0)
REPLAN_S: t.Mapping[str, float] = {WAITING: 1.0, IMPOSSIBLE: 5.0}
"""Seconds until the next plan of a pod, by the status of the last plan."""
MAX_SETTLES = 10
SETTLES_WITHIN_S = 600.0
LONGEST_SETTLING_S = 300.0
"""In SETTLES_WITHIN_S seconds the scheduler gets at most MAX_SETTLES settle times, and at most LONGEST_SETTLING_S seconds in all."""

EXPECTED_NODE = "expected_node"
"""The wait for the node that the last plan expects the pod to get."""
WAITS = (CAPACITY_BECOMING_FREE, OTHERS_TERMINATING, ANOTHER_POD_FIRST, QUEUED)
"""The codes of reasons that begin a wait with a maximum."""


class Event(t.NamedTuple):
    """The end of the wait in a state. ``facts``: the last argument of its effect, which has the type."""

    name: str
    facts: t.Any = None


class NotPossibleError(Exception):
    """An effect is not possible, and ``event`` follows instead.

    Without an event, the rescue stays in its state, and its next step tries again. ``outdates``: the cluster must be observed before.
    """

    def __init__(self, event: t.Optional[Event] = None, *, outdates: bool = False) -> None:
        super().__init__(event, outdates)
        self.event, self.outdates = event, outdates


class Ending(t.NamedTuple):
    """The result of a rescue that ends, and its reason."""

    status: str
    reason: Reason


@dataclass(frozen=True)
class PlanLimit:
    """The evictions that the first plan for a node allows.

    ``initial_pods``: the uids of the pods on the node at the start. ``victims``: the uids of the pods that may be evicted; empty before the
    first plan. ``is_confirmed``: a plan has kept within the limit while the node was held.

    Another program that takes over the hold does not know the limit and makes its own, so each takeover can add the pods of one plan.
    """

    node: str = ""
    initial_pods: frozenset[str] = frozenset()
    victims: frozenset[str] = frozenset()
    is_confirmed: bool = False

    def after(self, choice: Choice, pods: Sequence[Pod], pod_uid: str) -> t.Union[PlanLimit, Reason]:
        """Return the limit after a further plan, or the reason to give up the node if more pods than planned would have to be evicted.

        If a planned victim may not be evicted any more, another pod may take its place, but the number of victims does not grow. If new
        pods have used the capacity, no pod is evicted instead. Otherwise evictions could continue until the node is empty. ``pods``: the
        pods on the node now. ``pod_uid``: the pod that needs the capacity.
        """
        wanted = {victim.pod.metadata.uid: victim.pod for victim in choice.victims}
        staying = {pod.metadata.uid: pod for pod in pods if not (pod.terminating or pod.terminal)}
        further = sorted(wanted.keys() - self.victims)
        spared = sorted(self.victims.intersection(staying).difference(wanted))
        came = [pod for uid, pod in staying.items() if uid not in self.initial_pods and uid != pod_uid]
        if further and came:
            return Reason("capacity_taken", f"the freed capacity of the node was taken by {pod_names(came)}")
        if len(further) > len(spared):
            names = pod_names(wanted[uid] for uid in further)
            return Reason("more_than_planned", f"{names} would have to be evicted in addition to the plan")
        victims = self.victims.difference(spared[: len(further)]).union(further)
        return replace(self, victims=victims, is_confirmed=True)


def limit_of(choice: Choice, pods: Sequence[Pod]) -> PlanLimit:
    """Return the limit that allows only the evictions of this plan. ``pods``: the pods on the node now."""
    victims = frozenset(victim.pod.metadata.uid for victim in choice.victims)
    return PlanLimit(choice.node, frozenset(pod.metadata.uid for pod in pods), victims)


@dataclass
class Clearing:
    """The clearing of one node for a pod. It is replaced as a whole when another node is cleared, or none.

    - ``hold``: the hold on the node; None if another party's taint or the nomination alone reserves the node
    - ``give_up_at_s``: the end of the wait for the scheduler to bind the pod to the node
    - ``ends_at_s``: the node is released then at the latest
    - ``nominates``: no taint reserves the node
    - ``nominated_version``: the version of the pod that was last nominated for the node
    - ``planned_objects``: the pod, its node, and the pods on it, as they were in the last step in which the pod fitted
    """

    node: str = ""
    hold: t.Optional[Hold] = None
    give_up_at_s: float = 0.0
    ends_at_s: float = 0.0
    nominates: bool = False
    nominated_version: str = ""
    planned_objects: tuple[object, ...] = ()


@dataclass
class RescueTask:
    """The rescue of one pod. Only ``states.py`` writes ``stage``.

    When another program takes over the Lease, ``clearing`` is replaced and ``loaded`` is reset. All else stays, and counts again if this
    program takes over the rescue later.
    """

    pod: Pod
    unschedulable_since_s: float
    """The time at which the scheduler marked the pod as unschedulable, by the API server's clock."""
    settles_at_s: float
    """The end of the time in which the scheduler can bind the pod by itself."""
    max_wait_s: float = math.inf
    """The maximum of each wait. Pods that terminate later do not prolong it, because a tenant could use them to delay a rescue."""
    waits_since_at_s: float = 0.0
    """The time of ``unschedulable_since_s`` by the monotonic clock."""
    stage: str = WATCHED
    status: str = ""
    """The present status for a result."""
    reason: t.Optional[Reason] = None
    """The present reason for a result."""
    pod_gone: bool = False
    """The pod does not exist any more."""

    # The plan.
    last_plan: t.Optional[RescuePlan] = None
    planned_at_s: float = -math.inf
    """The time of the view of the last plan."""
    plan_at_s: float = 0.0
    """The time of the next plan."""
    needs_explanation: bool = False
    """The reasons why no eviction helps must still be computed."""
    reported_reason: t.Optional[Reason] = None
    """The reason that was last reported."""
    was_possible: bool = False
    """Evictions were possible in the last plan."""
    planned_hold: t.Optional[HeldNode] = None
    """The hold of the plan of a dry run, with the node as it was then."""
    waits: dict[str, float] = field(default_factory=dict)
    """The start of each wait, by the code of its reason."""
    settling_since_s: float = -math.inf
    """The start of the SETTLES_WITHIN_S seconds in which the settle times are limited."""
    excluded_nodes: dict[str, float] = field(default_factory=dict)
    """The end of the exclusion of each node that could not be cleared, or was cleared without effect."""
    excluded_victims: dict[str, float] = field(default_factory=dict)
    """The end of the exclusion of each pod whose eviction was refused, by uid."""
    given_up: tuple[str, str] = ("", "")
    """The node that was excluded last, and the reason."""

    plan_limit: PlanLimit = PlanLimit()
    """The evictions that are allowed on the node that is being cleared, or that was last cleared."""
    planned_again: set[str] = field(default_factory=set)
    """The nodes whose plan was outdated before the first eviction."""

    clearing: Clearing = field(default_factory=Clearing)
    """The node that is being cleared, or that could not be released at the end."""

    # The evictions and the attempt.
    evicted: list[Victim] = field(default_factory=list)
    """The pods that were evicted for the pod."""
    grace_ends_at_s: dict[str, float] = field(default_factory=dict)
    """The end of the grace period of each evicted pod, by uid."""
    uncertain_evictions: dict[str, Victim] = field(default_factory=dict)
    """The pods, by uid, whose eviction has an unknown result."""
    loaded: bool = False
    """The evictions of another program for the pod are known."""
    recorded_victims: frozenset[str] = frozenset()
    """The uids of the victims in the ConfigMap."""
    attempt_started: bool = False
    """An attempt has begun."""
    outcome_recorded: bool = False
    """The result of the attempt is in the ConfigMap, or cannot be written there."""

    # The requests to the API server.
    retry_at_s: float = 0.0
    """The time of the next request after a refused one."""
    first_refused_at_s: t.Optional[float] = None
    """The time of the first refusal in a row."""
    refusals: int = 0

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def name(self) -> str:
        """Namespace and name of the pod."""
        return self.pod.metadata.full_name

    def started_again(self, at_s: float) -> RescueTask:
        """Return a new rescue of the pod that begins at this time. It does not take over a node that could not be released."""
        task = RescueTask(self.pod, self.unschedulable_since_s, at_s, self.max_wait_s, self.waits_since_at_s)
        if self.clearing.hold is not None and self.reason is not None:
            task.exclude_node(self.clearing.node, self.clearing.ends_at_s, self.reason)
        return task

    @property
    def is_clearing(self) -> bool:
        """True if a node is being cleared for the pod."""
        return self.stage in (EVICTING, BINDING)

    @property
    def is_finished(self) -> bool:
        """True if the task has ended."""
        return self.stage == ENDED

    @property
    def is_plan(self) -> bool:
        """True if the task has ended with a plan that is not carried out."""
        return self.status == PLANNED and self.is_finished

    @property
    def planned_victims(self) -> tuple[Victim, ...]:
        """The victims of a plan that is not carried out."""
        choice = self.last_plan.choice if self.last_plan is not None and self.is_plan else None
        return choice.victims if choice is not None else ()

    @property
    def needs_recording(self) -> bool:
        """True if the task has ended and the ConfigMap still has its attempt as in progress."""
        return self.is_finished and self.attempt_started and not self.outcome_recorded

    # --- the plan ---

    def context(self, now_at_s: float, scheduler: t.Optional[Reason] = None) -> RescueContext:
        """Return the input of the planner for this task. Exclusions whose time is over are removed."""
        self.excluded_nodes = {name: end_at_s for name, end_at_s in self.excluded_nodes.items() if end_at_s > now_at_s}
        self.excluded_victims = {uid: end_at_s for uid, end_at_s in self.excluded_victims.items() if end_at_s > now_at_s}
        node, why = self.given_up
        return RescueContext(
            scheduler_down=scheduler,
            excluded_nodes=frozenset(self.excluded_nodes),
            excluded_victims=frozenset(self.excluded_victims),
            evicted_count=len(self.evicted),
            note=f"; node {node} was given up: {why}" if node in self.excluded_nodes and self.stage == WATCHED else "",
            nominated_by_rescue=self.is_clearing,
            awaits_terminating=not self.has_waited(CAPACITY_BECOMING_FREE, now_at_s),
            awaits_others=not self.has_waited(OTHERS_TERMINATING, now_at_s),
            awaits_expected=not self.has_waited(ANOTHER_POD_FIRST, now_at_s),
        )

    def set_plan(self, plan: RescuePlan, now_at_s: float) -> None:
        """Use the plan as the present result. If it begins a wait, record its start."""
        self.last_plan, self.status, self.reason = plan, plan.status, plan.reason
        if not self.is_queued:
            self.waits.pop(QUEUED, None)
        if plan.reason.code in WAITS:
            self.waits.setdefault(plan.reason.code, now_at_s)
        if self._expects_node:
            self.waits.setdefault(EXPECTED_NODE, now_at_s)

    def has_waited(self, code: str, now_at_s: float) -> bool:
        """Return whether the wait has lasted for its maximum time. It counts from its first start."""
        return now_at_s > self.waits.get(code, math.inf) + self.max_wait_s

    def restart_settling(self, now_at_s: float, settle_time_s: float) -> None:
        """Restart the settle time of the scheduler, because capacity for the pod may have appeared.

        It never ends earlier than before, and restarts are limited.
        """
        if now_at_s > self.settling_since_s + SETTLES_WITHIN_S:
            self.settling_since_s = now_at_s
        latest_s = self.settling_since_s + min(MAX_SETTLES * settle_time_s, LONGEST_SETTLING_S)
        self.settles_at_s = max(self.settles_at_s, min(now_at_s + settle_time_s, latest_s))

    @property
    def explained_plan(self) -> t.Optional[RescuePlan]:
        """The last plan if it has the reasons why no eviction helps and is the present result. None otherwise."""
        known = self.last_plan
        if known is None or self.reason is not known.reason or known.status != IMPOSSIBLE:
            return None
        return known if known.reason.code == NO_NODE and known.reason is not UNEXPLAINED else None

    @property
    def is_queued(self) -> bool:
        """True if only other rescues, their terminating pods, or the settle time of the scheduler delay its start."""
        code = self.reason.code if self.reason is not None else ""
        return self.status == PLANNED or code in (QUEUED, OTHERS_TERMINATING, SETTLING)

    @property
    def may_be_resumed(self) -> bool:
        """True if the pods that end may have been evicted for it by a program that has ended."""
        return self.stage == WATCHED and not self.loaded and self.reason is not None and self.reason.code == CAPACITY_BECOMING_FREE

    def is_expected(self, now_at_s: float) -> bool:
        """Return whether the pod is expected to get the expected node or the next node of its plan.

        This ends after a time, so that a pod that is never bound does not delay the rescues of others without end.
        """
        if self.stage != WATCHED or self.pod.spec.node_name or self.pod_gone or not self._expects_node:
            return False
        return not self.has_waited(EXPECTED_NODE, now_at_s)

    @property
    def _expects_node(self) -> bool:
        """True if the last plan has a node that the pod is expected to get, now or after other rescues."""
        return self.last_plan is not None and bool(self.last_plan.expected_node or self.last_plan.next_node)

    # --- the node that is being cleared ---

    def begin(self, clearing: Clearing) -> None:
        """Clear this node from now on."""
        self.clearing = clearing
        self.waits.pop(QUEUED, None)
        if clearing.node != self.plan_limit.node:  # the limit of a plan remains valid after a takeover
            self.plan_limit = PlanLimit(clearing.node)
        self.reset_backoff()

    def leave_node(self, plan_at_s: float = 0.0) -> None:
        """Plan on all nodes again from this time on."""
        self.clearing, self.plan_at_s = Clearing(), plan_at_s
        self.reset_backoff()

    def exclude_node(self, node_name: str, until_s: float, why: Reason) -> None:
        """Exclude the node from the next plans until this time."""
        self.excluded_nodes[node_name], self.given_up = until_s, (node_name, why.text)

    @property
    def has_evicted_here(self) -> bool:
        """True if a pod of the node was evicted."""
        return any(victim.pod.spec.node_name == self.clearing.node for victim in self.evicted)

    @property
    def is_evicting_here(self) -> bool:
        """True if the eviction of a pod of the node has an unknown result."""
        return any(victim.pod.spec.node_name == self.clearing.node for victim in self.uncertain_evictions.values())

    @property
    def may_plan_node_again(self) -> bool:
        """True if the plan for the node is outdated before the first eviction there. This counts once for each node.

        Pods can be bound to the node before it is held. If they come again and again, the node is given up.
        """
        has_begun = self.has_evicted_here or self.is_evicting_here or self.plan_limit.is_confirmed
        return not has_begun and self.clearing.node not in self.planned_again

    @property
    def last_node(self) -> str:
        """The node that is being cleared, or the last one."""
        return self.clearing.node or (self.evicted[-1].pod.spec.node_name if self.evicted else "")

    @property
    def failed_nodes(self) -> int:
        """The number of nodes on which pods were evicted without effect. Only these are excluded without end."""
        return sum(until_s == math.inf for until_s in self.excluded_nodes.values())

    def exclude_failed_nodes(self, current: str) -> None:
        """Exclude the nodes that were cleared for the pod without effect, also by another program, except ``current``."""
        failed = {victim.pod.spec.node_name for victim in self.evicted}.difference({current})
        self.excluded_nodes.update(dict.fromkeys(failed, math.inf))

    # --- the times of the next requests ---

    def may_request(self, now_at_s: float) -> bool:
        """Return whether the pause before the next request is over. No pause is longer than the hold of the node that is cleared."""
        return now_at_s >= self.retry_at_s or (self.is_clearing and now_at_s > self.clearing.ends_at_s)

    def reset_backoff(self) -> None:
        """Reset the back-off after a request that succeeded. The next refusal is the first in a row."""
        self.first_refused_at_s, self.retry_at_s, self.refusals = None, 0.0, 0

    def back_off(self, now_at_s: float, asked_s: t.Optional[float] = None) -> None:
        """Set the time of the next request: after the server's retry-after, or after twice the previous pause."""
        if self.first_refused_at_s is None:
            self.first_refused_at_s = now_at_s
        self.refusals += 1
        self.retry_at_s = now_at_s + (asked_s if asked_s is not None else BACKOFF.pause_s(self.refusals))
