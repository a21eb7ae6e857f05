# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Whether a pod of a workload is evicted next, and which; or what is waited for, or why nothing is done. Pure: nothing is done here.

Every single eviction is decided anew on a fresh snapshot.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..model.api.pod import Pod
from ..model.api.workload import Workload
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from ..model.undecodable import undecodable_of
from ..model.values.timestamps import parse_time
from ..scheduler.cluster_state import ClusterState
from ..state.restart_outcome import IMPROVED, PENDING, UNCHANGED, WORSE, Outcome, make_outcome
from .admission import not_admitted
from .autoscaling import autoscaling
from .bounds import partition, update_strategy_type
from .check import WorkloadReport, too_few_replicas
from .distribution import COLLAPSED, SKEWED, SPREAD, Distribution, Topology
from .guard import ending, shared_volume, undecodable_budget, unreadable
from .local_data import local_data
from .next_pod import next_pod
from .preference import outweighed_preference
from .quota import overdrawn
from .remembered import interrupted_eviction, interrupted_restart, remembered_permission
from .restart_plan import AUTO, EVICT_SURPLUS, REFUSED, ROLLOUT, SKIPPED, RestartOptions
from .rolling import rolling
from .rollout_status import DONE, WAITING, Progress, is_rolling
from .surplus import Move, SurplusPlanner, excess, pods_of
from .unhealthy import unhealthy

EVICT = "evict"
WAIT = "wait"

TAKE_OVER_AFTER_S = 5
"""Another run that has just written that it evicts a pod may be about to do so; older ones can be seen in the pods, or were killed."""

MOST_PLANNED = 100
"""Evictions that a plan shows; a plan is for people."""


@dataclass(frozen=True)
class EvictionDecision:
    """``action`` is evict, wait (for an eviction that is under way), skipped or refused.

    ``begun``: evictions have been made for the remembered outcome, which is to be settled where none follows.
    For an eviction ``outcome`` is to be remembered before it.
    """

    action: str
    reason: Reason
    begun: bool = False
    move: t.Optional[Move] = None
    outcome: t.Optional[Outcome] = None

    @property
    def even(self) -> bool:
        """Nothing is done because no replica has a better place."""
        return self.move is None and self.reason.code == SPREAD


def strategy_for(line: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions) -> str:
    """rollout or evict_surplus; for ``auto`` by what was begun, else rollout for collapsed workloads only.

    A rollout moves all replicas in one go, but with old pods counting it often ends uneven, and would be repeated for ever. What was begun
    in the other way is only finished where nothing is uneven any more, because that moves no further pod.
    """
    settles = options.only_if_helps and line.verdict.verdict not in (COLLAPSED, SKEWED)
    if options.strategy == AUTO or settles:
        if interrupted_eviction(line.workload, snapshot) is not None:
            return EVICT_SURPLUS
        if interrupted_restart(line.workload, snapshot) is not None:
            return ROLLOUT
    if options.strategy != AUTO:
        return options.strategy
    return ROLLOUT if line.verdict.verdict == COLLAPSED else EVICT_SURPLUS


def decide_eviction(
    line: WorkloadReport,
    snapshot: ClusterSnapshot,
    placement: ClusterState,
    options: RestartOptions,
    *,
    now_s: float,
    ours: t.Optional[Outcome] = None,
    turned_down: bool = False,
) -> EvictionDecision:
    """Decide on one workload; ``now_s`` in seconds since the epoch.

    ``ours``: what this run has remembered before its last eviction; ``turned_down``: the server did not grant that one.
    """
    workload = line.workload
    outcome = interrupted_eviction(workload, snapshot)
    begun = outcome is not None
    if ours is not None and outcome != ours:
        text = f"{workload} was changed by someone else between two evictions"
        return EvictionDecision(REFUSED, Reason("changed_meanwhile", text))
    forbidden = ending(workload, snapshot) or unreadable(workload, snapshot, budgets=False)
    if forbidden is None and outcome is not None:
        under_way = _under_way(workload, snapshot, outcome, age_s=None if ours else now_s - parse_time(outcome.time), none_away=turned_down)
        if under_way is not None:
            return EvictionDecision(WAIT, under_way, begun)
    forbidden = forbidden or _harm(workload, snapshot)
    if forbidden is not None:
        return EvictionDecision(REFUSED, forbidden, begun)
    useless = _useless(line, snapshot, options) if options.only_if_helps else None
    if useless is not None:
        return EvictionDecision(*useless, begun)
    move = _harmless_move(line, snapshot, placement, options)
    if isinstance(move, EvictionDecision):
        return replace(move, begun=begun)
    if ours is not None:
        return EvictionDecision(EVICT, move.reason, begun, move, ours)
    permission = remembered_permission(
        workload,
        snapshot,
        line.eligible_hash,
        now_s=now_s,
        cooldown_s=0 if begun else options.cooldown_s,
        max_attempts=options.max_attempts,
    )
    if permission.violation is not None:
        return EvictionDecision(REFUSED, permission.violation, begun)
    reason = line.verdict.reason if line.verdict.verdict in (COLLAPSED, SKEWED) else move.reason
    new = make_outcome(
        now_s=now_s,
        attempts=permission.attempts,
        verdict=PENDING,
        revision=snapshot.revision(workload),
        eligible=line.eligible_hash,
        number=snapshot.revision_number(workload),
    )
    return EvictionDecision(EVICT, reason, begun, move, new)


def planned_moves(
    line: WorkloadReport, snapshot: ClusterSnapshot, placement: ClusterState, options: RestartOptions, first: Move
) -> list[Move]:
    """``first`` and all that would follow if every replacement came to its best node."""
    planner = SurplusPlanner(line, snapshot, placement, options.topology_keys)
    moves = [first]
    planner.assume(first)
    while len(moves) < MOST_PLANNED:
        move = planner.next_move()
        if isinstance(move, Reason):
            break
        moves.append(move)
        planner.assume(move)
    return moves


def eviction_outcome(before: t.Optional[t.Sequence[Distribution]], after: t.Sequence[Distribution], *, even: bool) -> str:
    """improved, unchanged or worse, by how far from even the replicas lie; both looks must be over the same eligible nodes.

    Without ``before`` (the process that saw it was killed) only what is ``even`` counts as improved.
    """
    if before is None:
        return IMPROVED if even else UNCHANGED
    now, then = excess(after), excess(before)
    # Another number of replicas lies better or worse for that reason alone, and fewer than two show nothing.
    sizes = [[one.replicas + one.without_domain for one in look] for look in (before, after)]
    if now == then or sizes[0] != sizes[1] or min(sizes[1], default=0) < 2:
        return UNCHANGED
    return IMPROVED if now < then else WORSE


def waiting_for(workload: Workload, pods: Iterable[Pod], gone: str = "") -> str:
    """What of the workload is still away, in words; empty where all replicas are there and ready, and the pod with uid ``gone`` is not.

    ``pods`` are the workload's unfinished ones.
    """
    found = list(pods)
    ending_pods = [pod for pod in found if pod.terminating or pod.metadata.uid == gone]
    if ending_pods:
        return f"pod {ending_pods[0].metadata.name} is still ending"
    if len(found) < workload.spec.replicas:
        return f"{len(found)} of {workload.spec.replicas} replicas exist"
    ready = sum(pod.ready for pod in found)
    return f"{ready} of {len(found)} replicas are ready" if ready < len(found) else ""


def all_available(workload: Workload) -> Progress:
    """Whether the status has all replicas of the current revision available; a StatefulSet that does not roll is asked as well."""
    spec, status = workload.spec, workload.status
    if workload.metadata.generation > status.observed_generation:
        return Progress(WAITING, "the controller has not seen the newest spec yet")
    if status.updated_replicas < spec.replicas - partition(workload):
        return Progress(WAITING, f"{status.updated_replicas} of {spec.replicas} replicas exist")
    if status.available_replicas < spec.replicas:
        return Progress(WAITING, f"{status.available_replicas} of {spec.replicas} replicas are available")
    return Progress(DONE, "all replicas are available")


def _harm(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Why no pod of the workload may be evicted now; None where one may."""
    for pod in pods_of(workload, snapshot):
        undecodable = undecodable_of(pod)
        if undecodable is not None:
            return undecodable.reason
    budget = undecodable_budget(workload, snapshot)
    if budget is not None:
        return budget
    if _revision_pends(workload, snapshot):
        text = f"{workload} has a new revision that its update strategy holds back: an evicted pod would come back at another one"
        return Reason("pending_revision", text)
    return (
        rolling(workload, snapshot)
        or unhealthy(workload, snapshot)
        or shared_volume(workload, snapshot)
        or local_data(workload, snapshot)
        or not_admitted(workload, snapshot)
        or overdrawn(workload, snapshot)
    )


def _revision_pends(workload: Workload, snapshot: ClusterSnapshot) -> bool:
    if workload.kind != "StatefulSet":
        return False
    if update_strategy_type(workload) == "OnDelete":
        return bool(snapshot.outdated_pods(workload))
    return partition(workload) > 0 and workload.status.current_revision != workload.status.update_revision


def _useless(line: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions) -> t.Optional[tuple[str, Reason]]:
    """Why the workload does not need evictions, or they would not last."""
    workload, verdict = line.workload, line.verdict
    if workload.spec.replicas < 2:
        return REFUSED, too_few_replicas(workload)
    # Without max_skew any surplus counts, where evictions were asked for by name.
    surplus_counts = options.strategy == EVICT_SURPLUS and options.max_skew is None and verdict.reason.code == SPREAD
    if verdict.verdict not in (COLLAPSED, SKEWED) and not surplus_counts:
        return SKIPPED, verdict.reason
    homes = [pod.spec.node_name for pod in snapshot.placed_pods(workload)]
    obstacle = (
        autoscaling(workload, snapshot)
        or snapshot.once(Topology.of).lacking(options.topology_keys, line.eligible)
        or outweighed_preference(next_pod(workload, snapshot).pod, homes, line.eligible, snapshot.nodes)
    )
    return (SKIPPED, obstacle) if obstacle is not None else None


def _not_available(workload: Workload) -> str:
    """Pods may be ready and yet not count, for as long as minReadySeconds says."""
    available, wanted = workload.status.available_replicas, workload.spec.replicas
    return f"{available} of {wanted} replicas are available" if available < wanted else ""


def _under_way(
    workload: Workload, snapshot: ClusterSnapshot, outcome: Outcome, *, age_s: t.Optional[float], none_away: bool
) -> t.Optional[Reason]:
    """Why the next eviction has to wait for the one before; None where that one has ended.

    ``age_s``: of another run's outcome. ``none_away``: a pod that is away was so before.
    """
    begun = f"a pod of {workload} is being evicted since {outcome.time}"
    if is_rolling(workload, snapshot):
        return Reason("replacement_under_way", f"{begun}; its controller has yet to see all replicas")
    away = "" if none_away else waiting_for(workload, pods_of(workload, snapshot)) or _not_available(workload)
    if away:
        return Reason("replacement_under_way", f"{begun}; {away}")
    if age_s is not None and abs(age_s) < TAKE_OVER_AFTER_S:  # API servers' clocks may differ a little
        return Reason("replacement_under_way", begun)
    return None


def _harmless_move(
    line: WorkloadReport, snapshot: ClusterSnapshot, placement: ClusterState, options: RestartOptions
) -> t.Union[Move, EvictionDecision]:
    """The next move, with which at most one pod is away and another is available; or why there is none."""
    workload = line.workload
    planner = SurplusPlanner(line, snapshot, placement, options.topology_keys)
    move = planner.next_move()
    if isinstance(move, Reason):
        return EvictionDecision(SKIPPED, move)
    pods = pods_of(workload, snapshot)
    away = waiting_for(workload, pods) or _not_available(workload)
    if away:
        # A single pod that is not ready may itself go: it is away already.
        unready = [pod.metadata.uid for pod in pods if not pod.ready and not pod.terminating]
        only_it = len(unready) == 1 and len(pods) == workload.spec.replicas and not any(pod.terminating for pod in pods)
        sick = planner.next_move(unready) if only_it else None
        if not isinstance(sick, Move):
            text = f"{away}; at most one pod of {workload} is away at a time"
            return EvictionDecision(REFUSED, Reason("not_ready", text))
        move = sick
    left = workload.status.available_replicas - (1 if move.pod.ready else 0)
    if left < 1 and not options.allow_downtime:
        text = f"the eviction of a pod of {workload} may leave no available pod; set allow_downtime"
        return EvictionDecision(REFUSED, Reason("downtime", text))
    return move
