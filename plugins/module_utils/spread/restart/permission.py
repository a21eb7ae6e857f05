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
from ...state.restart_cooldown import RestartPermission, cooldown_permission
from ...state.restart_outcome import read_outcome
from ..distribution import Distribution
from ..history import is_changed_since, is_pending_for_current_revision, is_rolled_back_to
from ..options import DEFAULT_COOLDOWN_S, DEFAULT_MAX_ATTEMPTS
from ..preconditions.outside_window import outside_window_violation
from ..skew_cost import measure_skew


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


def not_now_violation(workload: Workload, snapshot: ClusterSnapshot, permission: RestartPermission, *, now_s: float) -> t.Optional[Reason]:
    """Return the reason why a restart must not begin at ``now_s``: the maintenance window, then the ``permission``. None if it may begin.

    A decision calls it last, so that a reason that remains is shown first.
    """
    return outside_window_violation(workload, snapshot, now_s=now_s) or permission.violation
