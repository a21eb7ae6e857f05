# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes down what came of a restart or of evictions: the outcome on the workload, and Events for people."""

from __future__ import annotations

import typing as t

from ..kube.client.api import KubeApi
from ..kube.client.errors import ConflictError, KubeError
from ..kube.client.events import make_workload_event
from ..model.api.workload import Workload
from ..model.codec import replace
from ..model.snapshot import ClusterSnapshot
from ..model.values.timestamps import format_time
from ..spread.remembered import is_eviction, made_current_revision
from ..spread.rollout_status import DONE, WAITING, Progress
from ..state.restart_outcome import IMPROVED, OUTCOME_ANNOTATION, Outcome, read_outcome
from .live import Annotations, Live, annotate_live
from .restart_result import FAILED_ACTION, RestartResult
from .restart_write import StaleJudgementError, new_time
from .workload_wait import wait_for_workload

SEEN_WITHIN_S = 15
"""Seconds that the StatefulSet controller gets to see a restart; it needs milliseconds."""


class _NotRememberedError(Exception):
    """The outcome could not be written; it stays pending, and the next run settles it."""


class Remembered(t.NamedTuple):
    """What was written before an eviction, and the workload's whole template as it was then."""

    outcome: Outcome
    template: bytes


def remember_eviction(api: KubeApi, judged: Workload, outcome: Outcome) -> Remembered:
    """Write, before a pod is evicted, that this is about to happen.

    Raises StaleJudgementError where the workload, or what is remembered on it, is no longer as it was judged: then another run may have
    evicted a pod since.
    """
    metadata, known = judged.metadata, read_outcome(judged.metadata.annotations)
    written = outcome

    def annotations_for(live: Live) -> Annotations:
        nonlocal written
        now = live.workload.metadata
        if (now.uid, now.generation, now.deletion_timestamp) != (metadata.uid, metadata.generation, None):
            raise StaleJudgementError
        if read_outcome(now.annotations) != known:
            raise StaleJudgementError
        written = replace(outcome, time=format_time(new_time(api.now_s(), live.workload)))
        return {OUTCOME_ANNOTATION: written.to_annotation()}

    try:
        live = annotate_live(api, judged, annotations_for)
    except ConflictError as error:
        raise StaleJudgementError from error
    return Remembered(written, live.template)


def remember_update_revision(api: KubeApi, result: RestartResult, restarted: Workload, ours: Outcome, *, poll_s: float) -> Outcome:
    """Add the updateRevision that the restart of a StatefulSet has made to its outcome; returns what is remembered then.

    The controller names it, so that it cannot be written together with the restart. Without it only the generation shows whose rollout it
    is, and each later change of the StatefulSet, such as another number of replicas, counts as somebody else's rollout. What cannot be
    written is in the result's warnings.
    """

    def seen(workload: Workload) -> Progress:
        waiting = workload.status.observed_generation < restarted.metadata.generation
        return Progress(WAITING if waiting else DONE, "")

    remembered = ours

    def annotations_for(live: Live) -> Annotations:
        nonlocal remembered
        now, status = live.workload.metadata, live.workload.status
        if read_outcome(now.annotations) != ours or now.uid != restarted.metadata.uid:
            raise _NotRememberedError(f"{restarted} was changed by someone else meanwhile")
        if (now.generation, status.observed_generation) != (restarted.metadata.generation,) * 2:
            raise _NotRememberedError(f"{restarted} was changed by someone else, or its controller has not seen the restart")
        remembered = replace(ours, expected=status.update_revision)
        return {OUTCOME_ANNOTATION: remembered.to_annotation()}

    try:
        live, _progress = wait_for_workload(api, restarted, seen, timeout_s=SEEN_WITHIN_S, poll_s=poll_s)
        annotate_live(api, live, annotations_for)
    except (KubeError, _NotRememberedError) as error:
        result.warnings.append(f"the revision that the restart of {restarted} makes is not remembered: {error}")
        return ours
    return remembered


def take_back(api: KubeApi, result: RestartResult, judged: Workload, ours: Outcome) -> None:
    """Put what was remembered on ``judged`` before ``ours`` back in its place: nothing has come of the announced eviction.

    What cannot be written is in the result's warnings.
    """
    earlier = (judged.metadata.annotations or {}).get(OUTCOME_ANNOTATION)

    def annotations_for(live: Live) -> Annotations:
        if read_outcome(live.workload.metadata.annotations) != ours:
            raise _NotRememberedError(f"{judged} was changed by someone else meanwhile: what is remembered on it stays")
        return {OUTCOME_ANNOTATION: earlier}

    try:
        annotate_live(api, judged, annotations_for)
    except (KubeError, _NotRememberedError) as error:
        result.warnings.append(str(error))
    else:
        result.changed = False


def settle(
    api: KubeApi,
    result: RestartResult,
    workload: Workload,
    pending: t.Optional[Outcome],
    snapshot: ClusterSnapshot,
    *,
    settled: bool,
    event: str,
    counted: bool = True,
) -> None:
    """Replace the ``pending`` outcome, if it still is the one, by the result's verdict; and tell of it in an Event with reason ``event``.

    ``settled``: the workload is well spread now. Only that sets the attempts back: a skew that gets better and worse in turn would
    otherwise be restarted for ever. ``counted``: whether the attempt counts as one. What cannot be written is in the result's warnings.
    """
    try:
        live = _remember(api, workload, pending, result.verdict, snapshot, settled=settled, counted=counted)
    except _NotRememberedError as error:
        result.warnings.append(str(error))
        return
    result.changed = True
    tell(api, result, live, reason=event, message=f"{result.verdict}: {result.in_words}")


def _remember(
    api: KubeApi, workload: Workload, pending: t.Optional[Outcome], verdict: str, snapshot: ClusterSnapshot, *, settled: bool, counted: bool
) -> Workload:
    """Write the verdict for the revision that the workload has on ``snapshot``; returns the workload."""

    def annotations_for(live: Live) -> Annotations:
        found = read_outcome(live.workload.metadata.annotations)
        if found is None or found != pending or not _is_about(live.workload, found, snapshot):
            raise _NotRememberedError(f"{workload} was changed by someone else meanwhile: the outcome is not kept")
        attempts = 0 if verdict == IMPROVED and settled else max(0, found.attempts - (not counted))
        revision, number = snapshot.revision(live.workload), snapshot.revision_number(live.workload)
        outcome = replace(found, attempts=attempts, verdict=verdict, revision=revision, number=number, expected=None, generation=None)
        return {OUTCOME_ANNOTATION: outcome.to_annotation()}

    try:
        return annotate_live(api, workload, annotations_for).workload
    except ConflictError as error:
        raise _NotRememberedError(f"{workload} kept changing: the outcome stays pending until the next run") from error
    except KubeError as error:
        raise _NotRememberedError(f"the outcome of {workload} stays pending until the next run: {error}") from error


def _is_about(workload: Workload, outcome: Outcome, snapshot: ClusterSnapshot) -> bool:
    return made_current_revision(workload, outcome, snapshot) or is_eviction(workload, outcome, snapshot)


def tell(api: KubeApi, result: RestartResult, workload: Workload, *, reason: str, message: str) -> None:
    """Write an Event on the workload; the work does not depend on it, so that a failure is a warning of the result."""
    warning = result.action == FAILED_ACTION
    event = make_workload_event(workload, reason=reason, message=message, time=format_time(api.now_s()), warning=warning)
    try:
        api.create_event(workload.metadata.namespace, event)
    except KubeError as error:
        result.warnings.append(f"no event was written: {error}")
