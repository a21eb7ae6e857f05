# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The records of earlier runs about a workload: interrupted restarts and evictions."""

from __future__ import annotations

import typing as t

from ..model.api.workload import Workload
from ..model.snapshot import ClusterSnapshot
from ..model.values.timestamps import parse_time
from ..state.restart_outcome import FUTURE_TOLERANCE_S, PENDING, RestartOutcome, read_outcome

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def is_of_current_revision(workload: Workload, outcome: RestartOutcome, snapshot: ClusterSnapshot) -> bool:
    """Return whether the outcome belongs to the restart that created the current revision. False if the workload was rolled out since."""
    annotations = workload.spec.template.metadata.annotations or {}
    if annotations.get(RESTARTED_AT) != outcome.time:
        return False
    if workload.kind == "StatefulSet":
        return _made_update_revision(workload, outcome)
    if outcome.number is not None:
        return not is_rolled_back_to(workload, outcome, snapshot)
    if outcome.outcome == PENDING:
        return snapshot.is_next_revision_after(workload, outcome.revision)
    return outcome.revision == snapshot.revision(workload)


def _made_update_revision(workload: Workload, outcome: RestartOutcome) -> bool:
    """Return whether the restart of the StatefulSet created its updateRevision.

    Until the revision is recorded, a higher generation means a later change.
    """
    made = outcome.expected if outcome.outcome == PENDING else outcome.revision
    if made is not None:
        return made == workload.status.update_revision
    return outcome.generation is None or outcome.generation == workload.metadata.generation


def is_changed_since(workload: Workload, outcome: RestartOutcome) -> bool:
    """Return whether the StatefulSet was changed after its restart.

    It is not known whether the change was to its template or to its scale.
    """
    annotations = workload.spec.template.metadata.annotations or {}
    own = workload.kind == "StatefulSet" and outcome.outcome == PENDING and annotations.get(RESTARTED_AT) == outcome.time
    return own and outcome.expected is None and outcome.generation is not None and outcome.generation < workload.metadata.generation


def is_pending_for_current_revision(workload: Workload, outcome: RestartOutcome, snapshot: ClusterSnapshot) -> bool:
    """Return whether the outcome is pending and belongs to the restart that created the current revision."""
    return outcome.outcome == PENDING and is_of_current_revision(workload, outcome, snapshot)


def interrupted_restart(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[RestartOutcome]:
    """Return the outcome of a restart whose second check is still due. None without such a restart."""
    outcome = read_outcome(workload.metadata.annotations)
    return outcome if outcome is not None and is_pending_for_current_revision(workload, outcome, snapshot) else None


def remembered_constraints(workload: Workload) -> tuple[str, ...]:
    """Return the topology keys of the spread constraints that restarts have added and that the pod template still has."""
    outcome = read_outcome(workload.metadata.annotations)
    present = {one.topology_key for one in workload.spec.template.spec.topology_spread_constraints or ()}
    return tuple(key for key in outcome.constraints if key in present) if outcome is not None else ()


def is_eviction(workload: Workload, outcome: RestartOutcome, snapshot: ClusterSnapshot) -> bool:
    """Return whether the pending outcome belongs to evictions.

    It was recorded for the current revision, and no restart created that revision.
    """
    annotations = workload.spec.template.metadata.annotations or {}
    pending = outcome.outcome == PENDING and annotations.get(RESTARTED_AT) != outcome.time
    return pending and outcome.revision == snapshot.revision(workload) and not is_rolled_back_to(workload, outcome, snapshot)


def interrupted_eviction(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[RestartOutcome]:
    """Return the outcome of evictions that have begun and are not finalized.

    None without such an outcome, or if its time is too far in the future.
    """
    outcome = read_outcome(workload.metadata.annotations)
    if outcome is None or not is_eviction(workload, outcome, snapshot):
        return None
    return outcome if parse_time(outcome.time) <= snapshot.read_at_s + FUTURE_TOLERANCE_S else None


def is_rolled_back_to(workload: Workload, outcome: RestartOutcome, snapshot: ClusterSnapshot) -> bool:
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
