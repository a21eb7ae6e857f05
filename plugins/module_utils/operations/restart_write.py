# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The one guarded write that begins a restart and remembers it."""

from __future__ import annotations

import typing as t

from ..kube.client.api import KubeApi
from ..kube.client.errors import ConflictError
from ..kube.client.resources import WORKLOADS
from ..model.api.workload import Workload
from ..model.codec import replace
from ..model.snapshot import ClusterSnapshot
from ..model.values.timestamps import format_time
from ..spread.remembered import RESTARTED_AT
from ..spread.restart_plan import Decision, RestartOptions, holds_for, restart_patch
from ..state.restart_outcome import PENDING, Outcome, make_outcome, read_outcome
from .live import CONFLICT_RETRIES, read_live


class StaleJudgementError(Exception):
    """The workload has moved on since the snapshot it was judged on was read: judge it again."""


def write_restart(
    api: KubeApi, judged: Workload, decision: Decision, snapshot: ClusterSnapshot, options: RestartOptions
) -> t.Optional[Workload]:
    """The restarted workload, or None where somebody changed it while the restart was being written.

    Status and autoscaler writes move the resource version without making the judgement on ``snapshot`` wrong: after such a conflict
    the workload is read again and the patch repeated. Raises StaleJudgementError before anything is written where the generation is not
    that of the snapshot: an annotation raises it as well as an edit, and a snapshot does not hold enough to tell them apart.
    """
    metadata, resource = judged.metadata, WORKLOADS[judged.kind]
    live, template = read_live(api, judged)
    if live.metadata.generation != metadata.generation or not holds_for(live, judged, snapshot, options):
        raise StaleJudgementError
    outcome = make_outcome(
        now_s=new_time(api.now_s(), live),
        attempts=decision.attempts,
        verdict=PENDING,
        revision=decision.revision,
        eligible=decision.eligible,
        number=snapshot.revision_number(judged),
    )
    for _attempt in range(CONFLICT_RETRIES):
        written = _as_made(outcome, live)
        patch = restart_patch(live, written)
        try:
            patched: Workload = api.merge_patch(resource, metadata.namespace, metadata.name, patch, dry_run=options.dry_run)
            return patched
        except ConflictError as error:
            repeated = error.repeated
            live, template_now = read_live(api, judged)
        # Without the first condition it might be another run's, of the same second.
        if repeated and read_outcome(live.metadata.annotations) == written:
            return live  # the patch had got through, only its answer was lost
        if template_now != template or not holds_for(live, judged, snapshot, options):
            return None
    return None


def _as_made(outcome: Outcome, live: Workload) -> Outcome:
    """With the generation that a StatefulSet gets by the patch, which holds for no other version of it."""
    return replace(outcome, generation=live.metadata.generation + 1) if live.kind == "StatefulSet" else outcome


def new_time(now_s: float, live: Workload) -> float:
    """Now, or the next second where the last restart has this one already: times tell restarts and evictions apart."""
    last = (live.spec.template.metadata.annotations or {}).get(RESTARTED_AT)
    return now_s + 1 if last == format_time(now_s) else now_s  # the same text again would start no rollout
