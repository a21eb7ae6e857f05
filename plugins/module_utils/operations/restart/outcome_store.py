# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of a restart or of evictions, recorded on the workload, and Events about it."""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError
from ...model.api.workload import Workload
from ...model.codec import replace
from ...model.snapshot import ClusterSnapshot
from ...model.values.timestamps import format_time
from ...spread.history import RESTARTED_AT, is_eviction, is_pending_for_current_revision
from ...spread.restart.actions import FAILED_ACTION
from ...spread.rollout import DONE, WAITING, Progress
from ...state.restart_outcome import IMPROVED, OUTCOME_ANNOTATION, RestartOutcome, SkewMeasure, new_write_id, read_outcome
from ..common.event_recorder import EventRecorder
from ..common.guarded_patch import AnnotationPatch, LiveWorkload, patch_annotations
from ..common.wait import wait_for_workload
from .live_window import is_inside_live_window
from .move_strategy import StaleDecisionError
from .result import RestartResult

SEEN_WITHIN_S = 30
"""Limit of seconds for the StatefulSet controller to observe a restart. It needs milliseconds."""


class _OutcomeNotWrittenError(Exception):
    """The outcome could not be written. It stays pending, and the next run finalizes it."""


class WrittenOutcome(t.NamedTuple):
    """The outcome that was recorded before an eviction, and the workload's whole template at that time."""

    outcome: RestartOutcome
    template: bytes


def record_eviction(api: KubeApi, decided_on: Workload, outcome: RestartOutcome, snapshot: ClusterSnapshot) -> WrittenOutcome:
    """Record the outcome before a pod is evicted.

    Raise StaleDecisionError if the workload or its recorded outcome has changed since the decision on ``snapshot``, because another run may
    have evicted a pod. Raise it also if the maintenance window has ended.
    """
    metadata, known = decided_on.metadata, read_outcome(decided_on.metadata.annotations)
    written = replace(outcome, write_id=new_write_id())

    def annotations_for(live: LiveWorkload) -> AnnotationPatch:
        nonlocal written
        now = live.workload.metadata
        if (now.uid, now.generation, now.deletion_timestamp) != (metadata.uid, metadata.generation, None):
            raise StaleDecisionError
        if read_outcome(now.annotations) != known or not is_inside_live_window(api, live.workload, snapshot):
            raise StaleDecisionError
        written = replace(written, time=format_time(next_outcome_time(api.now_s(), live.workload)))
        return {OUTCOME_ANNOTATION: written.to_annotation()}

    try:
        live = patch_annotations(api, decided_on, annotations_for)
    except ConflictError as error:
        raise StaleDecisionError from error
    return WrittenOutcome(written, live.template)


def record_update_revision(
    api: KubeApi, result: RestartResult, restarted: Workload, ours: RestartOutcome, *, poll_s: float
) -> RestartOutcome:
    """Add the updateRevision of a restarted StatefulSet to its outcome.

    Return the recorded outcome. The controller sets the revision, so it cannot be written together with the restart. Without it, only the
    generation identifies the rollout, and each later change of the StatefulSet, such as its number of replicas, counts as another rollout.
    A failed write is a warning of the result.
    """

    def seen(workload: Workload) -> Progress:
        waiting = workload.status.observed_generation < restarted.metadata.generation
        return Progress(WAITING if waiting else DONE, "")

    recorded = ours

    def annotations_for(live: LiveWorkload) -> AnnotationPatch:
        nonlocal recorded
        now, status = live.workload.metadata, live.workload.status
        if read_outcome(now.annotations) != ours or now.uid != restarted.metadata.uid:
            raise _OutcomeNotWrittenError(f"{restarted} was changed by another client meanwhile")
        if (now.generation, status.observed_generation) != (restarted.metadata.generation,) * 2:
            raise _OutcomeNotWrittenError(f"{restarted} was changed by another client, or its controller has not seen the restart")
        recorded = replace(ours, expected=status.update_revision)
        return {OUTCOME_ANNOTATION: recorded.to_annotation()}

    try:
        live, _progress = wait_for_workload(api, restarted, seen, timeout_s=SEEN_WITHIN_S, poll_s=poll_s)
        patch_annotations(api, live, annotations_for)
    except (KubeError, _OutcomeNotWrittenError) as error:
        result.warnings.append(f"the revision that the restart of {restarted} makes could not be recorded: {error}")
        return ours
    return recorded


def revert(api: KubeApi, result: RestartResult, decided_on: Workload, ours: RestartOutcome) -> None:
    """Restore the outcome of ``decided_on`` that was recorded before ``ours``, because the announced eviction was not made.

    A failed write is a warning of the result.
    """
    earlier = (decided_on.metadata.annotations or {}).get(OUTCOME_ANNOTATION)

    def annotations_for(live: LiveWorkload) -> AnnotationPatch:
        if read_outcome(live.workload.metadata.annotations) != ours:
            raise _OutcomeNotWrittenError(f"{decided_on} was changed by another client meanwhile: its recorded outcome stays")
        return {OUTCOME_ANNOTATION: earlier}

    try:
        patch_annotations(api, decided_on, annotations_for)
    except (KubeError, _OutcomeNotWrittenError) as error:
        result.warnings.append(str(error))
    else:
        result.changed = False


def finalize(
    api: KubeApi,
    result: RestartResult,
    workload: Workload,
    pending: t.Optional[RestartOutcome],
    snapshot: ClusterSnapshot,
    *,
    settled: bool,
    skew: SkewMeasure,
    improved: bool,
    event: str,
    counted: bool = True,
    dry_run: bool = False,
) -> None:
    """Replace the ``pending`` outcome, if it is unchanged, by the result's outcome, and write an Event with reason ``event``.

    ``settled``: the workload is well spread now, so the attempts begin again. ``skew``: its skew. ``improved``: the spread is better
    than before; this is no attempt if it is progress (``RestartOutcome.is_progress``). ``counted``: any other result counts as an attempt.
    ``dry_run``: nothing is written, and the result is that of a run that writes. A failed write is a warning of the result.
    """
    if dry_run:
        result.changed = result.is_recorded = True
        return
    try:
        live = _record(api, workload, pending, lambda found: _concluded(found, result.outcome, skew, settled, improved, counted), snapshot)
    except _OutcomeNotWrittenError as error:
        result.warnings.append(str(error))
        return
    result.changed = result.is_recorded = True
    record_event(api, result, live, reason=event, message=f"{result.outcome}: {result.in_words}")


def _record(
    api: KubeApi,
    workload: Workload,
    pending: t.Optional[RestartOutcome],
    conclude: t.Callable[[RestartOutcome], RestartOutcome],
    snapshot: ClusterSnapshot,
) -> Workload:
    """Replace the outcome for the workload's revision on ``snapshot``. Return the workload."""

    def annotations_for(live: LiveWorkload) -> AnnotationPatch:
        found = read_outcome(live.workload.metadata.annotations)
        if found is None or found != pending or not _is_about(live.workload, found, snapshot):
            raise _OutcomeNotWrittenError(f"{workload} was changed by another client meanwhile: the outcome is not recorded")
        revision, number = snapshot.revision(live.workload), snapshot.revision_number(live.workload)
        final = replace(conclude(found), revision=revision, number=number, expected=None, generation=None, write_id=None)
        return {OUTCOME_ANNOTATION: final.to_annotation()}

    try:
        return patch_annotations(api, workload, annotations_for).workload
    except ConflictError as error:
        raise _OutcomeNotWrittenError(f"{workload} kept changing: the outcome stays pending until the next run") from error
    except KubeError as error:
        raise _OutcomeNotWrittenError(f"the outcome of {workload} stays pending until the next run: {error}") from error


def _concluded(pending: RestartOutcome, outcome: str, skew: SkewMeasure, settled: bool, improved: bool, counted: bool) -> RestartOutcome:
    if outcome == IMPROVED and settled:
        return replace(pending, outcome=outcome, attempts=0, basis=None, lowest_cost=None)
    no_attempt = not counted or (improved and pending.is_progress(skew))
    final = replace(pending, outcome=outcome, attempts=max(0, pending.attempts - no_attempt))
    if pending.basis not in (None, skew.basis):
        return final  # for example while a replica is missing: the next attempt is compared with the cost before this one
    basis, lowest_cost = pending.lowest_with(skew)
    return replace(final, basis=basis, lowest_cost=lowest_cost)


def _is_about(workload: Workload, outcome: RestartOutcome, snapshot: ClusterSnapshot) -> bool:
    return is_pending_for_current_revision(workload, outcome, snapshot) or is_eviction(workload, outcome, snapshot)


def record_event(api: KubeApi, result: RestartResult, workload: Workload, *, reason: str, message: str) -> None:
    """Write an Event on the workload. The restart does not depend on it, so a failed write is a warning of the result."""
    warning = result.action == FAILED_ACTION
    EventRecorder(api, result.warnings.append).on_workload(workload, reason, message, warning=warning)


def next_outcome_time(now_s: float, live: Workload) -> float:
    """Return the present time, or the next second if the last restart has the present one.

    The time distinguishes restarts from evictions.
    """
    last = (live.spec.template.metadata.annotations or {}).get(RESTARTED_AT)
    return now_s + 1 if last == format_time(now_s) else now_s  # the same text again would start no rollout
