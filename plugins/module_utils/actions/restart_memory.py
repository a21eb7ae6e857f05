# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes down what came of a restart: the outcome on the workload, and Events for people."""

from __future__ import annotations

from ..kube.api import KubeApi
from ..kube.errors import ConflictError, KubeError
from ..kube.events import workload_event
from ..kube.resources import WORKLOADS
from ..memory.outcome import IMPROVED, OUTCOME_ANNOTATION, read_outcome
from ..memory.timestamps import format_time
from ..model.objects import Workload
from ..model.snapshot import ClusterSnapshot
from ..model.wire import replace
from ..spread.remembered import made_current_revision
from ..spread.restart_plan import outcome_patch
from .restart_write import CONFLICT_RETRIES


class NotRememberedError(Exception):
    """The outcome could not be written; it stays pending, and the next run settles it."""


def remember(api: KubeApi, workload: Workload, verdict: str, snapshot: ClusterSnapshot, *, settled: bool) -> Workload:
    """Replace the pending outcome by ``verdict``, for the revision that the workload has on ``snapshot``; returns the workload.

    ``settled``: the workload is well spread now. Only that sets the attempts back: a skew that gets better and worse in turn would
    otherwise be restarted for ever.

    Raises NotRememberedError, whose text says why.
    """
    metadata, resource = workload.metadata, WORKLOADS[workload.kind]
    try:
        for _attempt in range(CONFLICT_RETRIES):
            live: Workload = api.get(resource, metadata.namespace, metadata.name)
            pending = read_outcome(live.metadata.annotations)
            if pending is None or not made_current_revision(live, pending, snapshot):
                raise NotRememberedError(f"{workload} was changed by someone else during its rollout: the outcome is not kept")
            outcome = replace(
                pending,
                attempts=0 if verdict == IMPROVED and settled else pending.attempts,
                verdict=verdict,
                revision=snapshot.revision(live),
            )
            try:
                api.merge_patch(resource, metadata.namespace, metadata.name, outcome_patch(live, outcome, OUTCOME_ANNOTATION))
                return live
            except ConflictError:
                continue
    except KubeError as error:
        raise NotRememberedError(f"the outcome of {workload} stays pending until the next run: {error}") from error
    raise NotRememberedError(f"{workload} kept changing: the outcome stays pending until the next run")


def tell(api: KubeApi, workload: Workload, *, reason: str, message: str, warning: bool) -> str:
    """Write an Event on the workload; returns why it could not be written, or an empty text. The work does not depend on it."""
    event = workload_event(workload, reason=reason, message=message, time=format_time(api.now_s()), warning=warning)
    try:
        api.create_event(workload.metadata.namespace, event)
    except KubeError as error:
        return f"no event was written: {error}"
    return ""
