# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal of an eviction: a replica of the workload is missing or not available already."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.reason import Reason
from ..replicas import missing_replicas_text, unavailable_replicas_text


def unavailable_replicas_violation(workload: Workload, pods: Sequence[Pod]) -> t.Optional[Reason]:
    """Return the replicas that are missing or not available. None if all are available. ``pods`` are the workload's unfinished pods."""
    unavailable = missing_replicas_text(workload, pods) or unavailable_replicas_text(workload)
    if not unavailable:
        return None
    return Reason("not_ready", f"{unavailable}; at most one pod of {workload} is unavailable at a time")


def only_unready_pod(workload: Workload, pods: Sequence[Pod]) -> t.Optional[Pod]:
    """Return the only unavailable replica if it is a pod that is not ready. It may be evicted, because it is unavailable already."""
    unready = [pod for pod in pods if not pod.ready]
    complete = len(pods) == workload.spec.replicas and not any(pod.terminating for pod in pods)
    return unready[0] if complete and len(unready) == 1 else None
