# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Whether a rollout runs, is done or has failed.

``rollout_progress`` applies the rules of ``kubectl rollout status`` (kubectl ``polymorphichelpers/rollout_status.go``), and does not wait
for a Deployment that is paused.
"""

from __future__ import annotations

import typing as t

from ..model.api.workload import Workload
from ..model.messages import pluralize
from ..model.snapshot import ClusterSnapshot
from .bounds import partition, update_strategy_type

DONE = "done"
WAITING = "waiting"
FAILED = "failed"


class Progress(t.NamedTuple):
    """``state`` is done, waiting or failed; ``text`` says what it waits for or why it failed."""

    state: str
    text: str


def rollout_progress(workload: Workload) -> Progress:
    """How far the rollout of the workload's newest spec is, by its status alone."""
    if workload.kind == "StatefulSet":
        return _stateful_set_progress(workload)
    return _deployment_progress(workload)


def _deployment_progress(workload: Workload) -> Progress:
    spec, status = workload.spec, workload.status
    if workload.metadata.generation > status.observed_generation:
        return Progress(WAITING, "the controller has not seen the new spec yet")
    progressing = next((c for c in status.conditions or () if c.type == "Progressing"), None)
    if progressing is not None and progressing.reason == "ProgressDeadlineExceeded":
        return Progress(FAILED, f"{workload} exceeded its progress deadline: {progressing.message}")
    missing = _missing(workload)
    if missing and spec.paused:
        return Progress(FAILED, f"{missing}, and {workload} is paused: its rollout does not go on before kubectl rollout resume")
    return Progress(WAITING, missing) if missing else Progress(DONE, "rolled out")


def _missing(workload: Workload) -> str:
    """What the rollout of a Deployment still has to do, in words; empty where nothing."""
    spec, status = workload.spec, workload.status
    if status.updated_replicas < spec.replicas:
        return f"{status.updated_replicas} of {spec.replicas} new replicas exist"
    if status.replicas > status.updated_replicas:
        old = status.replicas - status.updated_replicas
        return f"{pluralize(old, 'old replica')} {'is' if old == 1 else 'are'} still there"
    if status.available_replicas < status.updated_replicas:
        return f"{status.available_replicas} of {status.updated_replicas} new replicas are available"
    return ""


def _stateful_set_progress(workload: Workload) -> Progress:
    spec, status = workload.spec, workload.status
    if update_strategy_type(workload) != "RollingUpdate":
        return Progress(FAILED, f"{workload} has the update strategy {update_strategy_type(workload)}: it does not roll out by itself")
    if status.observed_generation == 0 or workload.metadata.generation > status.observed_generation:
        return Progress(WAITING, "the controller has not seen the new spec yet")
    if status.ready_replicas < spec.replicas:
        return Progress(WAITING, f"{status.ready_replicas} of {spec.replicas} replicas are ready")
    wanted = spec.replicas - partition(workload)
    if status.updated_replicas < wanted:
        return Progress(WAITING, f"{status.updated_replicas} of {wanted} replicas are updated")
    if partition(workload) == 0 and status.update_revision != status.current_revision:
        return Progress(WAITING, "the last replica is being updated")
    return Progress(DONE, "rolled out")


def is_rolling(workload: Workload, snapshot: ClusterSnapshot) -> bool:
    """A rollout is under way; replicas that are merely pending or unavailable do not make it so."""
    if workload.status.observed_generation < workload.metadata.generation:
        return True
    if snapshot.outdated_pods(workload):
        return True
    return workload.status.updated_replicas < workload.spec.replicas - partition(workload)
