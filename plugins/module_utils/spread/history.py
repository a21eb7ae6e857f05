# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The records of earlier runs about a workload: interrupted restarts and evictions, and the permission for another restart."""

from __future__ import annotations

import typing as t

from ..model.api.workload import Workload
from ..model.codec import replace
from ..model.snapshot import ClusterSnapshot
from ..model.values.timestamps import parse_time
from ..state.restart_outcome import FUTURE_TOLERANCE_S, PENDING, Outcome, RestartPermission, read_outcome, restart_permission_after
from .options import DEFAULT_COOLDOWN_S, DEFAULT_MAX_ATTEMPTS

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def began_current_revision(workload: Workload, outcome: Outcome, snapshot: ClusterSnapshot) -> bool:
    """Return whether the outcome belongs to the restart that created the current revision. False if the workload was rolled out since."""
    annotations = workload.spec.template.metadata.annotations or {}
    if annotations.get(RESTARTED_AT) != outcome.time:
        return False
    if workload.kind == "StatefulSet":
        return _made_update_revision(workload, outcome)
    if outcome.number is not None:
        return not _brought_back(workload, outcome, snapshot)
    if outcome.outcome == PENDING:
        return snapshot.is_next_revision_after(workload, outcome.revision)
    return outcome.revision == snapshot.revision(workload)


def _made_update_revision(workload: Workload, outcome: Outcome) -> bool:
    """Return whether the restart of the StatefulSet created its updateRevision.

    Until the revision is recorded, a higher generation means a later change.
    """
    made = outcome.expected if outcome.outcome == PENDING else outcome.revision
    if made is not None:
        return made == workload.status.update_revision
    return outcome.generation is None or outcome.generation == workload.metadata.generation


def _changed_since(workload: Workload, outcome: Outcome) -> bool:
    """Return whether the StatefulSet was changed after its restart.

    It is not known whether the change was to its template or to its scale.
    """
    annotations = workload.spec.template.metadata.annotations or {}
    own = workload.kind == "StatefulSet" and outcome.outcome == PENDING and annotations.get(RESTARTED_AT) == outcome.time
    return own and outcome.expected is None and outcome.generation is not None and outcome.generation < workload.metadata.generation


def made_current_revision(workload: Workload, outcome: Outcome, snapshot: ClusterSnapshot) -> bool:
    """Return whether the outcome is pending and belongs to the restart that created the current revision."""
    return outcome.outcome == PENDING and began_current_revision(workload, outcome, snapshot)


def interrupted_restart(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Outcome]:
    """Return the outcome of a restart whose second check is still due. None without such a restart."""
    outcome = read_outcome(workload.metadata.annotations)
    return outcome if outcome is not None and made_current_revision(workload, outcome, snapshot) else None


def is_eviction(workload: Workload, outcome: Outcome, snapshot: ClusterSnapshot) -> bool:
    """Return whether the pending outcome belongs to evictions.

    It was recorded for the current revision, and no restart created that revision.
    """
    annotations = workload.spec.template.metadata.annotations or {}
    pending = outcome.outcome == PENDING and annotations.get(RESTARTED_AT) != outcome.time
    return pending and outcome.revision == snapshot.revision(workload) and not _brought_back(workload, outcome, snapshot)


def interrupted_eviction(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Outcome]:
    """Return the outcome of evictions that have begun and are not finalized.

    None without such an outcome, or if its time is too far in the future.
    """
    outcome = read_outcome(workload.metadata.annotations)
    if outcome is None or not is_eviction(workload, outcome, snapshot):
        return None
    return outcome if parse_time(outcome.time) <= snapshot.read_at_s + FUTURE_TOLERANCE_S else None


def restart_permission(
    workload: Workload,
    snapshot: ClusterSnapshot,
    eligible: str,
    *,
    now_s: float,
    cooldown_s: int = DEFAULT_COOLDOWN_S,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
) -> RestartPermission:
    """Return whether cooldown, back-off and the limit of attempts allow a restart at ``now_s`` (seconds since the epoch).

    ``eligible`` is the present ``eligible_hash``. An outcome that ``kubectl rollout undo`` restored counts as absent. An interrupted
    restart counts from its time, as a restart that has not helped. The same holds for a restart of a StatefulSet that was changed
    afterwards.
    """
    revision = snapshot.revision(workload)
    outcome = read_outcome(workload.metadata.annotations)
    if outcome is not None and (made_current_revision(workload, outcome, snapshot) or _changed_since(workload, outcome)):
        outcome = replace(outcome, revision=revision)
    elif outcome is not None and _brought_back(workload, outcome, snapshot):
        outcome = None
    return restart_permission_after(
        outcome, now_s=now_s, revision=revision, eligible=eligible, cooldown_s=cooldown_s, max_attempts=max_attempts
    )


def _brought_back(workload: Workload, outcome: Outcome, snapshot: ClusterSnapshot) -> bool:
    """Return whether the outcome is older than the current revision.

    ``kubectl rollout undo`` restores the annotations of an old revision, and the revision gets a new number. An outcome that is written
    later has the new number and counts.
    """
    number = snapshot.revision_number(workload)
    if number is None:
        return False
    if outcome.number is None:
        return snapshot.is_rolled_back(workload)
    annotations = workload.spec.template.metadata.annotations or {}
    own = outcome.outcome == PENDING and annotations.get(RESTARTED_AT) == outcome.time  # its restart has created the next number
    return number > outcome.number + own
