# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The decision on the next eviction of one workload. Every eviction is decided on a new snapshot."""

from __future__ import annotations

import typing as t
from collections.abc import Collection
from dataclasses import dataclass, replace

from ...model.api.workload import Workload
from ...model.codec import replace as replace_fields
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.values.timestamps import parse_time
from ...scheduler.cluster_state import ClusterState
from ...state.restart_outcome import PENDING, RestartOutcome, make_outcome
from ..history import interrupted_eviction, remembered_constraints
from ..least_time import least_replacement_s
from ..preconditions.admission.quota import quota_violation
from ..preconditions.autoscaling import autoscaling_violation
from ..preconditions.eviction_downtime import eviction_downtime_violation
from ..preconditions.namespace_terminating import namespace_terminating_violation
from ..preconditions.outside_window import outside_window_violation
from ..preconditions.restart import move_violation
from ..preconditions.too_few_replicas import too_few_replicas_violation
from ..preconditions.too_slow import too_slow_violation
from ..preconditions.unavailable_replicas import only_unready_pod, unavailable_replicas_violation
from ..preconditions.undecodable_budget import undecodable_budget_violation
from ..preconditions.undecodable_pods import undecodable_pods_violation
from ..preconditions.unreadable import unreadable_violation
from ..preconditions.update_strategy.pending_revision import pending_revision_violation
from ..preconditions.workload_terminating import workload_terminating_violation
from ..prediction.old_pods import after_ends, terminating_pods_reason
from ..replicas import missing_replicas_text, unavailable_replicas_text, unfinished_pods
from ..restart.actions import EVICT, REFUSED, SKIPPED, WAIT
from ..restart.options import EVICT_SURPLUS, RestartOptions
from ..restart.permission import restart_permission
from ..restart.possible_states import PossibleState
from ..restart.run_limits import LIMIT_REACHED, RunLimits, WorkloadLimits
from ..restart.targets import Target
from ..rollout import is_rolling
from ..spread_report import WorkloadReport
from ..topology.topology import Topology
from ..verdict import COLLAPSED, SKEWED, SPREAD, worst_verdict
from .planner import EvictionPlanner, Move

TAKE_OVER_AFTER_S = 5
"""Minimum age of another run's outcome.

A younger outcome may belong to an eviction that is about to be sent. The pods show the evictions of older ones, or the run was killed.
"""


@dataclass(frozen=True)
class EvictionDecision:
    """The decision on the next eviction: ``action`` is evict, wait (for an eviction in progress), skipped or refused.

    ``begun``: evictions were made for the recorded outcome. That outcome must be finalized if no other eviction follows. ``outcome`` must
    be recorded before the eviction.
    """

    action: str
    reason: Reason
    begun: bool = False
    move: t.Optional[Move] = None
    outcome: t.Optional[RestartOutcome] = None

    @property
    def even(self) -> bool:
        """True if nothing is done because no replica has a better domain."""
        return self.move is None and self.reason.code == SPREAD


def decide_eviction(
    report: WorkloadReport,
    snapshot: ClusterSnapshot,
    cluster_state: ClusterState,
    options: RestartOptions,
    *,
    now_s: float,
    limits: t.Optional[WorkloadLimits] = None,
    ours: t.Optional[RestartOutcome] = None,
    denied: bool = False,
    unanswered: Collection[str] = (),
) -> EvictionDecision:
    """Decide on the next eviction of one workload; ``now_s`` is in seconds since the epoch.

    ``ours`` is the outcome that this run recorded before its last eviction. ``denied``: the API server denied that eviction.
    ``unanswered``: uids of pods whose eviction the API server has not answered. One of them is requested again, if possible.
    A limit is a reason only if nothing else prevents the eviction. If there is an eviction only before or only after the end of the pods
    that are terminating, the decision is to wait for their end.
    """
    workload = report.workload
    outcome = interrupted_eviction(workload, snapshot)
    if ours is not None and outcome != ours:
        text = f"{workload} was changed by another client between two evictions"
        return EvictionDecision(REFUSED, Reason("changed_meanwhile", text))
    begun = outcome is not None
    # The age matters only for the outcome of another run.
    age_s = now_s - parse_time(outcome.time) if outcome is not None and ours is None else None
    decision = (
        _refusal_or_wait(workload, snapshot, outcome, age_s=age_s, none_away=denied, awaited_s=options.awaited_s)
        or _decision_without_benefit(report, snapshot, options)
        or _next_eviction(
            report, snapshot, cluster_state, options, now_s=now_s, limits=limits, ours=ours, begun=begun, unanswered=unanswered
        )
    )
    ended = after_ends(cluster_state)
    if ended is not None:
        later = decide_eviction(
            report, snapshot, ended, options, now_s=now_s, limits=limits, ours=ours, denied=denied, unanswered=unanswered
        )
        if (later.move is None) is not (decision.move is None):
            decision = EvictionDecision(SKIPPED, terminating_pods_reason(cluster_state))
    return replace(decision, begun=begun)


def _refusal_or_wait(
    workload: Workload,
    snapshot: ClusterSnapshot,
    outcome: t.Optional[RestartOutcome],
    *,
    age_s: t.Optional[float],
    none_away: bool,
    awaited_s: t.Optional[int],
) -> t.Optional[EvictionDecision]:
    """Return the refusal of every eviction, or the wait for the previous eviction. None if there is neither.

    A workload that gets no new pods, or about which too little is known, is refused without the wait.
    """
    forbidden = (
        namespace_terminating_violation(workload, snapshot)
        or workload_terminating_violation(workload)
        or unreadable_violation(workload, snapshot, budgets=False)
    )
    if forbidden is not None:
        return EvictionDecision(REFUSED, forbidden)
    if outcome is not None:
        under_way = _pending_replacement_violation(workload, snapshot, outcome, age_s=age_s, none_away=none_away)
        if under_way is not None:
            return EvictionDecision(WAIT, under_way)
    forbidden = _eviction_violation(workload, snapshot, awaited_s)
    return EvictionDecision(REFUSED, forbidden) if forbidden is not None else None


def _decision_without_benefit(report: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions) -> t.Optional[EvictionDecision]:
    """Return the decision against an eviction without benefit. None if it has a benefit, or if ``only_if_helps`` is off."""
    if not options.only_if_helps:
        return None
    too_few = too_few_replicas_violation(report.workload)
    if too_few is not None:
        return EvictionDecision(REFUSED, too_few)
    no_benefit = _benefit_violation(report, snapshot, options)
    return EvictionDecision(SKIPPED, no_benefit) if no_benefit is not None else None


def _next_eviction(
    report: WorkloadReport,
    snapshot: ClusterSnapshot,
    cluster_state: ClusterState,
    options: RestartOptions,
    *,
    now_s: float,
    limits: t.Optional[WorkloadLimits],
    ours: t.Optional[RestartOutcome],
    begun: bool,
    unanswered: Collection[str],
) -> EvictionDecision:
    """Decide on the next pod: an unanswered one first, and one of another node if a limit forbids the first choice."""
    moves = _SafeMoves(report, snapshot, cluster_state, options)
    move = moves.next(among=unanswered) if unanswered else None
    if not isinstance(move, Move):
        move = moves.next()
    if isinstance(move, EvictionDecision):
        return move
    outside = outside_window_violation(report.workload, snapshot, now_s=now_s)
    if outside is not None:
        return EvictionDecision(REFUSED, outside)
    outcome = ours if ours is not None else _new_outcome(report, snapshot, options, now_s=now_s, begun=begun)
    if isinstance(outcome, Reason):
        return EvictionDecision(REFUSED, outcome)
    if limits is not None and limits.violation(move.pod) is not None:
        move = moves.next(limits)
        if isinstance(move, EvictionDecision):
            return move
    is_first_of_run = ours is None and report.verdict.verdict in (COLLAPSED, SKEWED)
    return EvictionDecision(EVICT, report.verdict.reason if is_first_of_run else move.reason, move=move, outcome=outcome)


def _new_outcome(
    report: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions, *, now_s: float, begun: bool
) -> t.Union[RestartOutcome, Reason]:
    """Return the outcome to record before the first eviction of this run, or the reason why no new attempt may begin yet.

    No cooldown applies to a run that continues the evictions of another run (``begun``).
    """
    workload = report.workload
    permission = restart_permission(
        workload,
        snapshot,
        report.eligible_hash,
        report.distributions,
        now_s=now_s,
        cooldown_s=0 if begun else options.cooldown_s,
        max_attempts=options.max_attempts,
    )
    if permission.violation is not None:
        return permission.violation
    return make_outcome(
        now_s=now_s,
        attempts=permission.attempts,
        outcome=PENDING,
        revision=snapshot.revision(workload),
        eligible=report.eligible_hash,
        number=snapshot.revision_number(workload),
        lowest=permission.lowest,
        constraints=remembered_constraints(workload),
    )


def _eviction_violation(workload: Workload, snapshot: ClusterSnapshot, timeout_s: t.Optional[int]) -> t.Optional[Reason]:
    """Return the reason why no pod of the workload may be evicted now. None if one may be evicted."""
    return (
        undecodable_pods_violation(unfinished_pods(workload, snapshot))
        or undecodable_budget_violation(workload, snapshot)
        or pending_revision_violation(workload, snapshot)
        or move_violation(workload, snapshot)
        or quota_violation(workload, snapshot)
        or too_slow_violation(workload, f"the replacement of a pod of {workload}", least_replacement_s(workload), timeout_s)
    )


def _benefit_violation(report: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions) -> t.Optional[Reason]:
    """Return the reason why the workload needs no evictions, or why no eviction can be decided. None otherwise."""
    workload, verdict = report.workload, report.verdict
    # For evict_surplus without max_skew, any surplus counts.
    surplus_counts = options.strategy == EVICT_SURPLUS and options.max_skew is None and verdict.reason.code == SPREAD
    if verdict.verdict not in (COLLAPSED, SKEWED) and not surplus_counts:
        return verdict.reason
    unlabelled = snapshot.once(Topology.of).missing_label_violation(options.topology_keys, report.eligible)
    return autoscaling_violation(workload, snapshot) or unlabelled


def _pending_replacement_violation(
    workload: Workload, snapshot: ClusterSnapshot, outcome: RestartOutcome, *, age_s: t.Optional[float], none_away: bool
) -> t.Optional[Reason]:
    """Return the reason why the next eviction must wait for the previous one.

    None if the previous one is complete. ``age_s`` is the age of another run's outcome in seconds; None for an outcome of this run.
    ``none_away``: the previous eviction was denied, so missing pods are not its result.
    """
    begun = f"the eviction of a pod of {workload} began at {outcome.time} and is not complete"
    if is_rolling(workload, snapshot):
        return Reason("replacement_under_way", f"{begun}; its controller has not observed all replicas yet")
    away = "" if none_away else missing_replicas_text(workload, unfinished_pods(workload, snapshot)) or unavailable_replicas_text(workload)
    if away:
        return Reason("replacement_under_way", f"{begun}; {away}")
    if age_s is not None and abs(age_s) < TAKE_OVER_AFTER_S:  # the clocks of API servers may differ a little
        return Reason("replacement_under_way", begun)
    return None


MAX_PLANNED = 100
"""Limit of evictions in a plan, because people read it."""


class PlannedMoves(t.NamedTuple):
    """The evictions of one workload in one possible state, one after the other, and the state after them.

    ``nodes``: those of all replicas. ``last``: the reason why there is no other move, or None if the workload is even.
    """

    moves: t.Sequence[Move]
    nodes: t.Sequence[str]
    cluster_state: ClusterState
    limits: RunLimits
    last: t.Optional[Reason] = None


def planned_moves(
    report: WorkloadReport, snapshot: ClusterSnapshot, state: PossibleState, options: RestartOptions, first: Move, number: int
) -> PlannedMoves:
    """Return ``first`` and all moves that follow if every replacement runs on the node of the simulation with this number.

    A run observes the cluster before the next move, and one that does not wait makes no other. Both have ``first`` alone.
    """
    cluster_state = state.cluster_state.fork()
    # A run has one count of its evictions for all states.
    limits = state.limits.fork() if options.dry_run else state.limits
    of_workload = limits.of(Target.of(report.workload))
    planner = EvictionPlanner(report, snapshot, cluster_state, options.topology_keys, by_scores=options.only_if_helps)
    topology = snapshot.once(Topology.of)
    moves: list[Move] = []
    nodes: list[str] = []
    move: t.Union[Move, Reason] = first
    while not isinstance(move, Reason):
        moves.append(move.by_draw(number))
        of_workload.add(move.pod)
        nodes = planner.assume(moves[-1])
        if len(moves) == MAX_PLANNED or not (options.dry_run and options.wait):
            return PlannedMoves(moves, nodes, cluster_state, limits)
        verdict = worst_verdict(topology.distribute_over(options.topology_keys, nodes, report.eligible), max_skew=options.max_skew)
        no_benefit = _benefit_violation(replace_fields(report, verdict=verdict), snapshot, options) if options.only_if_helps else None
        move = no_benefit or planner.next_allowed_move(of_workload)
    return PlannedMoves(moves, nodes, cluster_state, limits, None if move.code == SPREAD else move)


class _SafeMoves:
    """The moves of the pods of one workload that leave enough of its pods available."""

    def __init__(self, report: WorkloadReport, snapshot: ClusterSnapshot, cluster_state: ClusterState, options: RestartOptions) -> None:
        self._workload, self._snapshot, self._allow_downtime = report.workload, snapshot, options.allow_downtime
        self._planner = EvictionPlanner(report, snapshot, cluster_state, options.topology_keys, by_scores=options.only_if_helps)

    def next(
        self, limits: t.Optional[WorkloadLimits] = None, *, among: t.Optional[Collection[str]] = None
    ) -> t.Union[Move, EvictionDecision]:
        """Return the next move that leaves at most one pod unavailable and, without allow_downtime, another one available.

        Return a decision with the reason if there is none. With ``limits``, only pods that they allow are candidates. With ``among``, only
        pods with these uids are.
        """
        workload = self._workload
        move = self._planned(limits, among)
        if isinstance(move, Reason):
            return EvictionDecision(SKIPPED, move)
        pods = unfinished_pods(workload, self._snapshot)
        unavailable = unavailable_replicas_violation(workload, pods)
        if unavailable is not None:
            unready = only_unready_pod(workload, pods)
            if unready is None or (among is not None and unready.metadata.uid not in among):
                return EvictionDecision(REFUSED, unavailable)
            move = self._planned(limits, (unready.metadata.uid,))
            if isinstance(move, Reason):
                return EvictionDecision(SKIPPED, move) if move.code == LIMIT_REACHED else EvictionDecision(REFUSED, unavailable)
        downtime = eviction_downtime_violation(workload, move.pod, allow_downtime=self._allow_downtime)
        return move if downtime is None else EvictionDecision(REFUSED, downtime)

    def _planned(self, limits: t.Optional[WorkloadLimits], among: t.Optional[Collection[str]]) -> t.Union[Move, Reason]:
        return self._planner.next_move(among) if limits is None else self._planner.next_allowed_move(limits, among)
