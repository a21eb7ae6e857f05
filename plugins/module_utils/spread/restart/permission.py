# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The permission to restart a workload now: by its maintenance window, and by the outcome of its last restart."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...model.api.workload import Workload
from ...model.codec import replace
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.values.timestamps import parse_time
from ...state.restart_outcome import FUTURE_TOLERANCE_S, PENDING, RestartOutcome, SkewMeasure, read_outcome
from ..distribution import Distribution
from ..history import is_changed_since, is_pending_for_current_revision, is_rolled_back_to
from ..options import DEFAULT_COOLDOWN_S, DEFAULT_MAX_ATTEMPTS
from ..preconditions.attempts_used_up import attempts_used_up_violation
from ..preconditions.cooldown import cooldown_violation
from ..preconditions.outside_window import outside_window_violation
from ..skew_cost import measure_skew


class RestartPermission(t.NamedTuple):
    """The permission to restart a workload now.

    ``violation`` is the reason why no restart may start, or None. ``attempts`` includes this restart if it is permitted. Otherwise it is
    the number so far. ``lowest`` is the lowest skew for its outcome. If ``used_up`` is true, waiting alone does not help.
    """

    violation: t.Optional[Reason]
    attempts: int
    lowest: SkewMeasure
    used_up: bool = False


def restart_permission(
    workload: Workload,
    snapshot: ClusterSnapshot,
    eligible: str,
    distributions: Sequence[Distribution],
    *,
    now_s: float,
    cooldown_s: int = DEFAULT_COOLDOWN_S,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
) -> RestartPermission:
    """Return the permission for a restart at ``now_s`` (seconds since the epoch) by cooldown, back-off and the limit of attempts.

    ``eligible`` is the present ``eligible_hash``, and ``distributions`` are the present ones. An outcome that ``kubectl rollout undo``
    restored counts as absent. An interrupted restart counts from its time, and as an attempt if it has made no progress. The same holds
    for a restart of a StatefulSet that was changed afterwards.
    """
    revision = snapshot.revision(workload)
    outcome = read_outcome(workload.metadata.annotations)
    if outcome is not None and (is_pending_for_current_revision(workload, outcome, snapshot) or is_changed_since(workload, outcome)):
        outcome = replace(outcome, revision=revision)
    elif outcome is not None and is_rolled_back_to(workload, outcome, snapshot):
        outcome = None
    return cooldown_permission(
        outcome,
        now_s=now_s,
        revision=revision,
        eligible=eligible,
        skew=measure_skew(distributions),
        cooldown_s=cooldown_s,
        max_attempts=max_attempts,
    )


def cooldown_permission(
    outcome: t.Optional[RestartOutcome],
    *,
    now_s: float,
    revision: str,
    eligible: str,
    skew: SkewMeasure,
    cooldown_s: int,
    max_attempts: int,
) -> RestartPermission:
    """Apply the limit of attempts, the cooldown and the exponential back-off to the last outcome.

    An outcome of another revision counts as absent, because the workload was rolled out since. ``skew`` is the present one. A pending
    attempt that has made progress does not count. After ``max_attempts`` no restart is allowed until the revision or the eligible nodes
    change.
    """
    if outcome is None or outcome.revision != revision or parse_time(outcome.time) > now_s + FUTURE_TOLERANCE_S:
        return RestartPermission(None, 1, skew)
    attempts = max(0, outcome.attempts - (outcome.outcome == PENDING and outcome.is_progress(skew)))
    used_up = attempts_used_up_violation(outcome, attempts, eligible=eligible, max_attempts=max_attempts)
    violation = used_up or cooldown_violation(outcome, attempts, now_s=now_s, cooldown_s=cooldown_s)
    made = attempts if violation is not None else attempts + 1
    return RestartPermission(violation, made, outcome.lowest_with(skew), used_up is not None)


def not_now_violation(workload: Workload, snapshot: ClusterSnapshot, permission: RestartPermission, *, now_s: float) -> t.Optional[Reason]:
    """Return the reason why a restart must not begin at ``now_s``: the maintenance window, then the ``permission``. None if it may begin.

    A decision calls it last, so that a reason that remains is shown first.
    """
    return outside_window_violation(workload, snapshot, now_s=now_s) or permission.violation
