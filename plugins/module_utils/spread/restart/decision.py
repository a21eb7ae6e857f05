# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The decision on the restart of one workload, from its report of the spread check."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ...model.api.pod import TopologySpreadConstraint
from ...model.api.workload import Workload
from ...model.codec import encode_json
from ...model.codec import replace as replace_fields
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...state.restart_outcome import OUTCOME_ANNOTATION, RestartOutcome, SkewMeasure
from ..history import RESTARTED_AT, interrupted_restart
from ..next_pod.next_pod import next_pod
from ..preconditions.managed import managed_violation
from ..preconditions.restart import disruption_violation, move_violation, standstill_violation, strategy_violation
from ..preconditions.too_few_replicas import too_few_replicas_violation
from ..preconditions.unreadable import unreadable_violation
from ..preconditions.workload_budgets import budgets_at_stake
from ..rollout import DONE, rollout_progress
from ..spread_constraints import Json, constraint_patch, missing_constraints
from ..spread_report import WorkloadReport
from ..verdict import COLLAPSED, SKEWED
from .actions import REFUSED, RESTART, RESUME, SKIPPED
from .no_gain import no_gain_violation
from .options import AUTO, RestartOptions
from .permission import RestartPermission, not_now_violation, restart_permission


@dataclass(frozen=True)
class RestartDecision:
    """The decision on a restart: ``action`` is restart, resume, skipped or refused.

    For a restart, ``attempts`` includes it, ``revision`` is the revision before it, ``eligible`` is the hash of the eligible nodes, and
    ``lowest`` is the lowest skew for its outcome. ``constraints``: the spread constraints that the restart adds to the pod template,
    also if it is refused because another program manages the workload. ``evicts_instead``: the reason concerns only rollouts, so ``auto``
    evicts single pods.
    """

    action: str
    reason: Reason
    attempts: int = 0
    revision: str = ""
    eligible: str = ""
    lowest: t.Optional[SkewMeasure] = None
    constraints: tuple[TopologySpreadConstraint, ...] = ()
    evicts_instead: bool = False


def decide_restart(workload_report: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions, *, now_s: float) -> RestartDecision:
    """Decide on one workload from its report on ``snapshot``; ``now_s`` is in seconds since the epoch."""
    workload = workload_report.workload
    evicts_instead = options.strategy == AUTO and options.only_if_helps and workload_report.verdict.verdict == COLLAPSED
    forbidden = standstill_violation(workload, snapshot)
    if forbidden is not None:
        return RestartDecision(REFUSED, forbidden)
    only_rollout = strategy_violation(workload)
    if only_rollout is not None:
        return RestartDecision(REFUSED, only_rollout, evicts_instead=evicts_instead)
    permission = restart_permission(
        workload,
        snapshot,
        workload_report.eligible_hash,
        workload_report.distributions,
        now_s=now_s,
        cooldown_s=options.cooldown_s,
        max_attempts=options.max_attempts,
    )
    interrupted = interrupted_restart(workload, snapshot)
    if interrupted is not None and _verification_is_due(workload_report, permission, options):
        text = f"it was restarted at {interrupted.time}, and the result has not been checked yet"
        return RestartDecision(RESUME, Reason("already_restarted", text))
    forbidden = unreadable_violation(workload, snapshot, budgets=not options.allow_downtime) or move_violation(workload, snapshot)
    if forbidden is not None:
        return RestartDecision(REFUSED, forbidden)
    only_rollout = disruption_violation(workload, snapshot, allow_downtime=options.allow_downtime, timeout_s=options.awaited_s)
    if only_rollout is not None:
        return RestartDecision(REFUSED, only_rollout, evicts_instead=evicts_instead)
    if options.only_if_helps:
        too_few = too_few_replicas_violation(workload)
        if too_few is not None:
            return RestartDecision(REFUSED, too_few)
        no_benefit = _benefit_violation(workload_report)
        if no_benefit is not None:
            return RestartDecision(SKIPPED, no_benefit, evicts_instead=evicts_instead)
    constraints = _added_constraints(workload_report, snapshot, options)
    if constraints and not options.force_managed:
        managed = managed_violation(workload, constraint_patch(workload, constraints))
        if managed is not None:
            return RestartDecision(REFUSED, managed, constraints=constraints)
    forbidden = not_now_violation(workload, snapshot, permission, now_s=now_s)
    if forbidden is not None:
        return RestartDecision(REFUSED, forbidden)
    # A restart of a workload that is not uneven does not count as an attempt. Earlier attempts still count.
    is_counted = workload_report.verdict.verdict in (COLLAPSED, SKEWED)
    attempts = permission.attempts if is_counted else max(0, permission.attempts - 1)
    revision, eligible = snapshot.revision(workload), workload_report.eligible_hash
    reason = _with_constraints_named(workload_report.verdict.reason, constraints)
    return RestartDecision(RESTART, reason, attempts, revision, eligible, permission.lowest, constraints)


def _added_constraints(
    workload_report: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions
) -> tuple[TopologySpreadConstraint, ...]:
    """Return the constraints that the restart adds to the pod template."""
    if not options.adds_constraints:
        return ()
    workload = workload_report.workload
    pod = next_pod(workload, snapshot).pod
    return missing_constraints(workload, pod, snapshot, workload_report.eligible, options.topology_keys)


def _with_constraints_named(reason: Reason, constraints: Sequence[TopologySpreadConstraint]) -> Reason:
    keys = ", ".join(constraint.topology_key for constraint in constraints)
    return Reason(reason.code, f"{reason.text}; the restart adds spread constraints over {keys}") if keys else reason


def _verification_is_due(workload_report: WorkloadReport, permission: RestartPermission, options: RestartOptions) -> bool:
    """Return whether an interrupted restart must be finished before another one.

    If the cooldown is over or ``verify_spread`` is off, the next restart may follow immediately. If none follows because the workload is
    even, the result of the interrupted one must still be recorded.
    """
    if rollout_progress(workload_report.workload).state != DONE:
        return True
    helped = options.only_if_helps and workload_report.verdict.verdict not in (COLLAPSED, SKEWED)
    return options.verify_spread and (helped or permission.violation is not None)


def _benefit_violation(workload_report: WorkloadReport) -> t.Optional[Reason]:
    """Return the reason why the workload needs no restart, or a restart is not certain to help. None if it helps."""
    if workload_report.verdict.verdict not in (COLLAPSED, SKEWED):
        return workload_report.verdict.reason
    return no_gain_violation(workload_report.prediction)


def is_still_valid_for(live: Workload, decided_on: Workload, snapshot: ClusterSnapshot, options: RestartOptions) -> bool:
    """Return whether the decision to restart ``decided_on``, as it is on ``snapshot``, also holds for its present state ``live``.

    The spec must be unchanged except for the number of replicas, which an autoscaler may write at any time. With another number of
    replicas, the restart must still pass the checks and affect no other budget. Its prediction is not repeated, because the nodes of the
    additional replicas are not known yet.
    """
    if live.metadata.uid != decided_on.metadata.uid or live.metadata.deletion_timestamp is not None:
        return False
    replicas = live.spec.replicas
    scaled = replace_fields(decided_on, spec=replace_fields(decided_on.spec, replicas=replicas))
    if encode_json(scaled.spec) != encode_json(live.spec):
        return False
    if replicas == decided_on.spec.replicas:
        return True
    if options.only_if_helps and too_few_replicas_violation(scaled) is not None:
        return False
    if disruption_violation(scaled, snapshot, allow_downtime=options.allow_downtime, timeout_s=options.awaited_s):
        return False
    return options.allow_downtime or budgets_at_stake(scaled, snapshot) <= budgets_at_stake(decided_on, snapshot)


def restart_patch(
    workload: Workload,
    outcome: RestartOutcome,
    constraints: Sequence[TopologySpreadConstraint] = (),
    *,
    present: Sequence[Json] = (),
) -> Json:
    """Return the merge patch that starts the rollout, adds the constraints and records both.

    It is valid only for the workload's present resource version. ``present``: the constraints of its template. A merge patch replaces the
    list, so their order stays. A strategic merge patch would change the order of constraints with the same topology key.
    """
    template: Json = {"metadata": {"annotations": {RESTARTED_AT: outcome.time}}}
    if constraints:
        added = constraint_patch(workload, constraints)["spec"]["template"]["spec"]["topologySpreadConstraints"]
        template["spec"] = {"topologySpreadConstraints": [*present, *added]}
    return {
        "metadata": {"resourceVersion": workload.metadata.resource_version, "annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}},
        "spec": {"template": template},
    }
