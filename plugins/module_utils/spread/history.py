# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What earlier runs wrote down about a workload: interrupted restarts and evictions, and whether another restart is due."""

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
    """The outcome belongs to the restart that made the current revision: nobody rolled the workload since."""
    annotations = workload.spec.template.metadata.annotations or {}
    if annotations.get(RESTARTED_AT) != outcome.time:
        return False
    if workload.kind == "StatefulSet":
        return _made_update_revision(workload, outcome)
    if outcome.number is not None:
        return not _brought_back(workload, outcome, snapshot)
    if outcome.verdict == PENDING:
        return snapshot.is_next_revision_after(workload, outcome.revision)
    return outcome.revision == snapshot.revision(workload)


def _made_update_revision(workload: Workload, outcome: Outcome) -> bool:
    """The restart of the StatefulSet made its updateRevision. Until that is written down, a higher generation is a later change."""
    made = outcome.expected if outcome.verdict == PENDING else outcome.revision
    if made is not None:
        return made == workload.status.update_revision
    return outcome.generation is None or outcome.generation == workload.metadata.generation


def _changed_since(workload: Workload, outcome: Outcome) -> bool:
    """Somebody changed the StatefulSet after its restart, and it is not known whether that was its template or its scale."""
    annotations = workload.spec.template.metadata.annotations or {}
    own = workload.kind == "StatefulSet" and outcome.verdict == PENDING and annotations.get(RESTARTED_AT) == outcome.time
    return own and outcome.expected is None and outcome.generation is not None and outcome.generation < workload.metadata.generation


def made_current_revision(workload: Workload, outcome: Outcome, snapshot: ClusterSnapshot) -> bool:
    """The outcome is pending, and belongs to the restart that made the current revision."""
    return outcome.verdict == PENDING and began_current_revision(workload, outcome, snapshot)


def interrupted_restart(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Outcome]:
    """The outcome of a restart whose second look is still to come, if there is one."""
    outcome = read_outcome(workload.metadata.annotations)
    return outcome if outcome is not None and made_current_revision(workload, outcome, snapshot) else None


def is_eviction(workload: Workload, outcome: Outcome, snapshot: ClusterSnapshot) -> bool:
    """The pending outcome belongs to evictions: the revision that it was written for is the current one, and no restart's."""
    annotations = workload.spec.template.metadata.annotations or {}
    pending = outcome.verdict == PENDING and annotations.get(RESTARTED_AT) != outcome.time
    return pending and outcome.revision == snapshot.revision(workload) and not _brought_back(workload, outcome, snapshot)


def interrupted_eviction(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Outcome]:
    """The outcome of evictions that were begun and whose end is still to be seen, if there is one; one of the far future is none."""
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
    """Whether cooldown, back-off and the limit of attempts allow a restart at ``now_s`` (seconds since the epoch).

    ``eligible`` is the ``eligible_hash`` of now. An outcome that ``kubectl rollout undo`` brought back counts as absent. An interrupted
    restart counts from when it was made, as one that has not helped so far; so does one of which it is not known whether it was the last.
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
    """The outcome is older than the current revision: ``kubectl rollout undo`` brings the annotations of an old revision back with it.

    The revision gets a new number then. What is written afterwards has that number, and counts.
    """
    number = snapshot.revision_number(workload)
    if number is None:
        return False
    if outcome.number is None:
        return snapshot.is_rolled_back(workload)
    annotations = workload.spec.template.metadata.annotations or {}
    own = outcome.verdict == PENDING and annotations.get(RESTARTED_AT) == outcome.time  # its restart has made the next number
    return number > outcome.number + own
