# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One critical pod without a node, from when it is first seen until it is bound, given up or gone."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Hashable
from dataclasses import dataclass, field

from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...rescue.plan import IMPOSSIBLE, PLANNED, WAITING, RescueContext, RescuePlan, Victim
from ...rescue.planner import NO_NODE, OTHERS_ENDING, ROOM_BECOMING_FREE, UNEXPLAINED, RescuePlanner
from ...state.hold import Hold
from ...state.rescue_attempts import attempt_key

OTHER_RESCUE = "other_rescue"
SETTLING = "settling"

# How far the case has come.
WATCHED = "watched"
CLEARING = "clearing"
ENDED = "ended"

# What came of it.
RESCUED = "rescued"
FAILED = "failed"
POD_GONE = "pod_gone"
NO_OTHER_NODE = "no_other_node"

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
MOST_SETTLES = 10
SETTLES_WITHIN_S = 600.0
"""In so many seconds the settle time begins again for as long as it takes ten times at most, whatever happens in the cluster."""
TURN_ENDS_WITHIN_S = 15.0
"""How long after the grace period of a victim its end, and the scheduler's next attempt at the pod, are waited for."""
LEFT_ALONE_FOR_S = 60.0
"""How long a node is not tried again that could not be cleared, and on which nothing was evicted."""


@dataclass
class RescueTask:
    """Times ending in ``_at_s`` are of the monotonic clock.

    ``unschedulable_since_s``: when the scheduler gave the pod up, by the API server's clock.
    ``node`` is the one that is being cleared, ``hold`` what keeps it, ``nominated_version`` which version of the pod was last nominated for
    it, ``initial_pods`` the uids of the pods that were on it when that began, ``planned_victims`` those that may be evicted there,
    ``planned_node`` the node that both are about.
    ``key``: of the entry in which its attempts count. It does not change with the owner reference of the pod.
    ``grace_ends_at_s``: when the grace period of each evicted pod is over, by uid. ``max_wait_s``: how long other terminating pods are
    awaited, ``waits_since_s``: since when they are, for their capacity. ``awaits_others_since_s``: the same, because their ends make the
    scheduler try the pod. ``queued_since_s``: since when its plan waits for other rescues.
    ``was_possible``: at the last judgement evictions would have given it a node.
    ``uncertain_evictions``: pods, by uid, of whose eviction it is not known whether it was carried out. ``loaded``: what another program
    has evicted for the pod is known, ``recorded_victims``: uids of the pods that others would know of.
    ``excluded_nodes``: nodes not to be tried, and ``excluded_victims``: pods whose eviction was refused, until when; ``failed_nodes``:
    nodes on which pods were evicted in vain. ``last_plan``: the last one, made in ``planned_in_round``. ``needs_explanation``: why no
    eviction helps is still to be worked out. ``reported_reason``: the reason that was last told. ``attempt_started``: an attempt was begun,
    and ``outcome_recorded``: its result is in the ConfigMap. ``pod_gone``: there is no such pod any more. ``status`` and ``reason`` are
    what a result would say now.
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
    outcome_recorded: bool = False
    pod_gone: bool = False
    _backoff_s: float = FIRST_PAUSE_S
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
        """Nothing more is done for it."""
        return self.stage == ENDED

    @property
    def needs_recording(self) -> bool:
        """It has ended, and the ConfigMap still has its attempt as under way."""
        return self.is_finished and self.attempt_started and not self.outcome_recorded

    def context(self, now_at_s: float, scheduler: t.Optional[Reason] = None) -> RescueContext:
        """What the planner has to know of it."""
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
        """Its node is being cleared, and its pods have yet to be evicted or end at the moment."""
        if self.stage != CLEARING:
            return False
        ends = self._grace_ends()
        return not ends or self._is_evicting or now_at_s <= max(ends) + TURN_ENDS_WITHIN_S or self._has_victims_to_evict(snapshot)

    def is_held_by_nomination(self, now_at_s: float, snapshot: ClusterSnapshot) -> bool:
        """A pod of its node ends at the moment, or its eviction is not answered yet, and only the nomination keeps the capacity."""
        if self.hold is None or not self.hold.nominates:
            return False
        return (self._is_evicting or bool(self._grace_ends())) and self.is_under_way(now_at_s, snapshot)

    def _has_victims_to_evict(self, snapshot: ClusterSnapshot) -> bool:
        """A planned pod is still to be evicted. Where the pod fits without that, it is not."""
        if self.status == WAITING:
            return False
        left = self.planned_victims.difference(victim.pod.metadata.uid for victim in self.evicted)
        there = snapshot.pods_by_node.get(self.node, ()) if left else ()
        return any(pod.metadata.uid in left and not (pod.terminating or pod.terminal) for pod in there)

    @property
    def _is_evicting(self) -> bool:
        """It is not known of some pod of its node whether its eviction was carried out."""
        return any(victim.pod.spec.node_name == self.node for victim in self.uncertain_evictions.values())

    def _grace_ends(self) -> list[float]:
        """When the grace periods of the pods are over that were evicted from the node."""
        return [self.grace_ends_at_s[victim.pod.metadata.uid] for victim in self.evicted if victim.pod.spec.node_name == self.node]

    @property
    def may_change_soon(self) -> bool:
        """What was refused for a while, and not for good, may be granted later."""
        return any(until_s < math.inf for until_s in (*self.excluded_victims.values(), *self.excluded_nodes.values()))

    @property
    def explained_plan(self) -> t.Optional[RescuePlan]:
        """The judgement that says why no eviction helps, if that is what a result would say now."""
        known = self.last_plan
        if known is None or self.reason is not known.reason or known.status != IMPOSSIBLE:
            return None
        return known if known.reason.code == NO_NODE and known.reason is not UNEXPLAINED else None

    def set_plan(self, plan: RescuePlan) -> None:
        """The judgement is what a result would say now."""
        self.last_plan, self.status, self.reason = plan, plan.status, plan.reason

    def restart_settling(self, now_at_s: float, settle_time_s: float) -> None:
        """Capacity for the pod may have appeared: the scheduler gets its time once more."""
        if now_at_s > self._settling_restarted_at_s + SETTLES_WITHIN_S:
            self._settling_restarted_at_s = now_at_s
        latest_s = self._settling_restarted_at_s + min(MOST_SETTLES * settle_time_s, SETTLES_WITHIN_S / 2)
        self.settles_at_s = max(self.settles_at_s, min(now_at_s + settle_time_s, latest_s))

    def note_wait(self, now_at_s: float) -> None:
        """Terminating pods are waited for, if the judgement says so. The first wait counts: what ends later may be somebody's delay."""
        code = self.reason.code if self.reason is not None else ""
        if not self._is_queued:
            self.queued_since_s = math.inf
        if code == ROOM_BECOMING_FREE:
            self.waits_since_s = min(self.waits_since_s, now_at_s)
        elif code == OTHERS_ENDING:
            self.awaits_others_since_s = min(self.awaits_others_since_s, now_at_s)

    def queue(self, now_at_s: float, first: Reason) -> None:
        """Its plan waits for another rescue."""
        self.status, self.reason = WAITING, first
        self.queued_since_s = min(self.queued_since_s, now_at_s)

    def is_next(self, now_at_s: float) -> bool:
        """It has waited for other rescues for so long that no other one which is not more important begins before it."""
        return self.stage == WATCHED and self._is_queued and now_at_s > self.queued_since_s + self.max_wait_s

    @property
    def _is_queued(self) -> bool:
        """Nothing but other rescues, what they leave behind, and the time of the scheduler keeps it from beginning."""
        code = self.reason.code if self.reason is not None else ""
        return self.status == PLANNED or code in (OTHER_RESCUE, OTHERS_ENDING, SETTLING)

    def start(self, node_name: str, hold: t.Optional[Hold], *, give_up_at_s: float) -> None:
        """The node is being cleared for it."""
        self.stage, self.node, self.hold, self.give_up_at_s = CLEARING, node_name, hold, give_up_at_s
        self.nominated_version, self.queued_since_s = "", math.inf
        if node_name != self.planned_node:  # the limit of a plan goes on after a takeover
            self.planned_node, self.initial_pods, self.planned_victims = node_name, None, frozenset()
        self.reset_backoff()

    def give_up_node(self, now_at_s: float) -> None:
        """The node was cleared in vain: another one is looked for."""
        in_vain = any(victim.pod.spec.node_name == self.node for victim in self.evicted)
        self.failed_nodes += in_vain
        self.excluded_nodes[self.node] = math.inf if in_vain else now_at_s + LEFT_ALONE_FOR_S
        self.requeue(0.0)

    def requeue(self, judge_at_s: float) -> None:
        """No node is being cleared for it any more. It is judged again from this time on."""
        self.stage, self.node, self.hold, self.plan_at_s = WATCHED, "", None, judge_at_s

    @property
    def last_node(self) -> str:
        """The node that is cleared now, or was last."""
        return self.node or (self.evicted[-1].pod.spec.node_name if self.evicted else "")

    def count_failed_nodes(self, current: str) -> None:
        """Count the nodes that were cleared for the pod without effect, also by another program: all but ``current``."""
        nodes = dict.fromkeys(victim.pod.spec.node_name for victim in self.evicted)
        vain = [name for name in nodes if name != current]
        self.failed_nodes = max(self.failed_nodes, len(vain))
        self.excluded_nodes.update(dict.fromkeys(vain, math.inf))

    def finish(self, status: str, reason: Reason) -> None:
        """Nothing more is done for it."""
        self.stage, self.status, self.reason = ENDED, status, reason

    def reset_backoff(self) -> None:
        """The server has done what it was asked for: the next refusal is the first in a row."""
        self.first_refused_at_s, self.retry_at_s, self._backoff_s = None, 0.0, FIRST_PAUSE_S

    def back_off(self, now_at_s: float, asked_s: t.Optional[float] = None) -> None:
        """Ask again later: after what the server says, or twice as long as last time."""
        if self.first_refused_at_s is None:
            self.first_refused_at_s = now_at_s
        self.retry_at_s = now_at_s + (asked_s if asked_s is not None else self._backoff_s)
        self._backoff_s = min(self._backoff_s * 2, LONGEST_PAUSE_S)

    def refused_for_s(self, now_at_s: float) -> float:
        """Seconds since the first refusal in a row."""
        return 0.0 if self.first_refused_at_s is None else now_at_s - self.first_refused_at_s


class ReconcileView(t.NamedTuple):
    """``now_s``: the API server's clock, seconds since the epoch; ``now_at_s``: this machine's monotonic clock.

    ``plans``: the judgements on it, by what makes pods alike (``rescue/equivalence.py``) or by the pod's UID.
    """

    snapshot: ClusterSnapshot
    planner: RescuePlanner
    now_s: float
    now_at_s: float
    plans: dict[Hashable, RescuePlan]
