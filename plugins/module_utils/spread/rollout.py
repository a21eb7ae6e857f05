# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Rollouts as the workload controllers and ``kubectl rollout status`` compute them: bounds, strategy, partition, progress.

Source: kubectl ``polymorphichelpers/rollout_status.go``. Unlike it, ``rollout_progress`` does not wait for a Deployment that is paused.
"""

from __future__ import annotations

import re
import typing as t
from functools import lru_cache

from ..model.api.meta import IntOrString
from ..model.api.workload import Workload
from ..model.messages import pluralize
from ..model.snapshot import ClusterSnapshot
from ..model.values.integers import parse_int64

_PERCENT = re.compile(r"[0-9]+%")


class RolloutBounds(t.NamedTuple):
    """The number of pods that may be unavailable and that may be surplus during a rollout, in whole pods."""

    max_unavailable: int
    max_surge: int


def resolve(value: t.Optional[IntOrString], total: int, *, round_up: bool) -> int:
    """Return a number or a percentage of ``total`` as whole pods; 0 for any other value.

    Source: ``intstr.GetScaledValueFromIntOrPercent``.
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    scaled = (_percent(value) or 0) * total
    return -(-scaled // 100) if round_up else scaled // 100


def invalid_bound(workload: Workload) -> str:
    """Return the name of a strategy bound that controllers cannot read although the API server admits it; empty if there is none.

    Only the form of a percentage is checked, not its size. With such a bound the controller ends every step with an error.
    """
    strategy = workload.spec.strategy if workload.kind == "Deployment" else workload.spec.update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    for name, value in (("maxSurge", rolling.max_surge), ("maxUnavailable", rolling.max_unavailable)) if rolling is not None else ():
        if isinstance(value, str) and _percent(value) is None:
            return name
    return ""


@lru_cache(maxsize=256)
def _percent(text: str) -> t.Optional[int]:
    """Return the number of a percentage. None if the text is no percentage or its number is no 64-bit integer."""
    return parse_int64(text[:-1]) if _PERCENT.fullmatch(text) else None


def rollout_bounds(workload: Workload) -> RolloutBounds:
    """Return the bounds of a RollingUpdate (deployment ``ResolveFenceposts``).

    Recreate may remove all pods. A StatefulSet has no surge, and its maxUnavailable is rounded down to at least one (``statefulset``
    getStatefulSetMaxUnavailable).
    """
    replicas = workload.spec.replicas
    if workload.kind == "StatefulSet":
        rolling = workload.spec.update_strategy.rolling_update if workload.spec.update_strategy else None
        wanted = rolling.max_unavailable if rolling is not None else None
        return RolloutBounds(max(1, resolve(wanted, replicas, round_up=False)), 0)
    strategy = workload.spec.strategy
    if strategy is not None and strategy.type == "Recreate":
        return RolloutBounds(replicas, 0)
    rolling = strategy.rolling_update if strategy is not None else None
    unavailable = resolve(rolling.max_unavailable if rolling else "25%", replicas, round_up=False)
    surge = resolve(rolling.max_surge if rolling else "25%", replicas, round_up=True)
    if unavailable == 0 and surge == 0:
        unavailable = 1
    return RolloutBounds(min(unavailable, replicas), surge)


def update_strategy_type(workload: Workload) -> str:
    """Return RollingUpdate, Recreate or OnDelete."""
    strategy = workload.spec.strategy if workload.kind == "Deployment" else workload.spec.update_strategy
    return strategy.type if strategy is not None else "RollingUpdate"


def partition(workload: Workload) -> int:
    """Return the number of a StatefulSet's first replicas that an update does not change; 0 for other workloads.

    The partition counts replicas from ``spec.ordinals.start`` on, not ordinals (kubernetes ``statefulset/stateful_set_control.go``).
    """
    strategy = workload.spec.update_strategy if workload.kind == "StatefulSet" else None
    rolling = strategy.rolling_update if strategy is not None else None
    return (rolling.partition if rolling is not None else None) or 0


DONE = "done"
WAITING = "waiting"
FAILED = "failed"


class Progress(t.NamedTuple):
    """The progress of a rollout: ``state`` is done, waiting or failed. ``text`` is the missing condition or the cause of the failure."""

    state: str
    text: str


def rollout_progress(workload: Workload) -> Progress:
    """Return the progress of the rollout of the workload's newest spec, by its status alone."""
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
        return Progress(FAILED, f"{missing}, and {workload} is paused: its rollout does not continue before kubectl rollout resume")
    return Progress(WAITING, missing) if missing else Progress(DONE, "rolled out")


def _missing(workload: Workload) -> str:
    """Return a text about the remaining steps of a Deployment's rollout; empty if it is complete."""
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
    """Return whether a rollout is in progress. Replicas that are merely pending or unavailable are not a rollout."""
    if workload.status.observed_generation < workload.metadata.generation:
        return True
    if snapshot.outdated_pods(workload):
        return True
    return workload.status.updated_replicas < workload.spec.replicas - partition(workload)
