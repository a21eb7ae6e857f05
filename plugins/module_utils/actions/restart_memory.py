# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes down what came of a restart or of evictions: the outcome on the workload, and Events for people."""

from __future__ import annotations

import typing as t

from ..kube.api import KubeApi
from ..kube.errors import ConflictError, KubeError
from ..kube.events import workload_event
from ..kube.resources import WORKLOADS
from ..memory.outcome import IMPROVED, OUTCOME_ANNOTATION, Outcome, read_outcome
from ..memory.timestamps import format_time
from ..model.objects import Workload
from ..model.snapshot import ClusterSnapshot
from ..model.wire import encode_json, replace
from ..spread.remembered import is_eviction, made_current_revision
from ..spread.restart_plan import outcome_patch
from .restart_result import FAILED_ACTION, RestartResult
from .restart_write import CONFLICT_RETRIES, StaleJudgementError, new_time


class _NotRememberedError(Exception):
    """The outcome could not be written; it stays pending, and the next run settles it."""


def remember_eviction(api: KubeApi, judged: Workload, outcome: Outcome) -> tuple[Workload, Outcome]:
    """Write, before a pod is evicted, that this is about to happen; returns the workload and what was written.

    Raises StaleJudgementError where the workload, or what is remembered on it, is no longer as it was judged: then another run may have
    evicted a pod since.
    """
    metadata, resource = judged.metadata, WORKLOADS[judged.kind]
    unanswered: t.Optional[Outcome] = None
    for _attempt in range(CONFLICT_RETRIES):
        live: Workload = api.get(resource, metadata.namespace, metadata.name)
        if unanswered is not None and read_outcome(live.metadata.annotations) == unanswered:
            return live, unanswered  # it had got through, only the answer was lost
        if live.metadata.uid != metadata.uid or live.metadata.deletion_timestamp is not None:
            raise StaleJudgementError
        if encode_json(live.spec) != encode_json(judged.spec) or read_outcome(live.metadata.annotations) != read_outcome(
            metadata.annotations
        ):
            raise StaleJudgementError
        written = replace(outcome, time=format_time(new_time(api.now_s(), live)))
        try:
            patched = api.merge_patch(resource, metadata.namespace, metadata.name, outcome_patch(live, written, OUTCOME_ANNOTATION))
            return patched, written
        except ConflictError as error:
            unanswered = written if error.repeated else None
    raise StaleJudgementError


def settle(api: KubeApi, result: RestartResult, workload: Workload, snapshot: ClusterSnapshot, *, settled: bool, event: str) -> None:
    """Replace the pending outcome by the result's verdict, and tell of it in an Event with the reason ``event``.

    ``settled``: the workload is well spread now. Only that sets the attempts back: a skew that gets better and worse in turn would
    otherwise be restarted for ever. What cannot be written is in the result's warnings.
    """
    try:
        live = _remember(api, workload, result.verdict, snapshot, settled=settled)
    except _NotRememberedError as error:
        result.warnings.append(str(error))
        return
    result.changed = True
    tell(api, result, live, reason=event, message=f"{result.verdict}: {result.in_words}")


def _remember(api: KubeApi, workload: Workload, verdict: str, snapshot: ClusterSnapshot, *, settled: bool) -> Workload:
    """Write the verdict for the revision that the workload has on ``snapshot``; returns the workload."""
    metadata, resource = workload.metadata, WORKLOADS[workload.kind]
    unanswered: t.Optional[Outcome] = None
    try:
        for _attempt in range(CONFLICT_RETRIES):
            live: Workload = api.get(resource, metadata.namespace, metadata.name)
            pending = read_outcome(live.metadata.annotations)
            if unanswered is not None and pending == unanswered:
                return live  # as above
            if pending is None or not (made_current_revision(live, pending, snapshot) or is_eviction(live, pending, snapshot)):
                raise _NotRememberedError(f"{workload} was changed by someone else meanwhile: the outcome is not kept")
            outcome = replace(
                pending,
                attempts=0 if verdict == IMPROVED and settled else pending.attempts,
                verdict=verdict,
                revision=snapshot.revision(live),
            )
            try:
                api.merge_patch(resource, metadata.namespace, metadata.name, outcome_patch(live, outcome, OUTCOME_ANNOTATION))
                return live
            except ConflictError as error:
                unanswered = outcome if error.repeated else None
    except KubeError as error:
        raise _NotRememberedError(f"the outcome of {workload} stays pending until the next run: {error}") from error
    raise _NotRememberedError(f"{workload} kept changing: the outcome stays pending until the next run")


def tell(api: KubeApi, result: RestartResult, workload: Workload, *, reason: str, message: str) -> None:
    """Write an Event on the workload; the work does not depend on it, so that a failure is a warning of the result."""
    warning = result.action == FAILED_ACTION
    event = workload_event(workload, reason=reason, message=message, time=format_time(api.now_s()), warning=warning)
    try:
        api.create_event(workload.metadata.namespace, event)
    except KubeError as error:
        result.warnings.append(f"no event was written: {error}")
