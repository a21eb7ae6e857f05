# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The replacement of an evicted pod: which replicas of the workload are missing, not ready or not available."""

from __future__ import annotations

from collections.abc import Iterable

from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.snapshot import ClusterSnapshot
from ..rollout import DONE, WAITING, Progress, partition


def unfinished_pods(workload: Workload, snapshot: ClusterSnapshot) -> list[Pod]:
    """The workload's unfinished pods, of any revision."""
    return [pod for pod in snapshot.owned_pods(workload) if not pod.terminal]


TAKE_OVER_AFTER_S = 5
"""Another run that has just written that it evicts a pod may be about to do so; older ones can be seen in the pods, or were killed."""


def missing_replicas(workload: Workload, pods: Iterable[Pod], gone: str = "") -> str:
    """What of the workload is still away, in words; empty where all replicas are there and ready, and the pod with uid ``gone`` is not.

    ``pods`` are the workload's unfinished ones.
    """
    found = list(pods)
    ending_pods = [pod for pod in found if pod.terminating or pod.metadata.uid == gone]
    if ending_pods:
        return f"pod {ending_pods[0].metadata.name} is still ending"
    if len(found) < workload.spec.replicas:
        return f"{len(found)} of {workload.spec.replicas} replicas exist"
    ready = sum(pod.ready for pod in found)
    return f"{ready} of {len(found)} replicas are ready" if ready < len(found) else ""


def availability_progress(workload: Workload) -> Progress:
    """Whether the status has all replicas of the current revision available; a StatefulSet that does not roll is asked as well."""
    spec, status = workload.spec, workload.status
    if workload.metadata.generation > status.observed_generation:
        return Progress(WAITING, "the controller has not seen the newest spec yet")
    if status.updated_replicas < spec.replicas - partition(workload):
        return Progress(WAITING, f"{status.updated_replicas} of {spec.replicas} replicas exist")
    if status.available_replicas < spec.replicas:
        return Progress(WAITING, f"{status.available_replicas} of {spec.replicas} replicas are available")
    return Progress(DONE, "all replicas are available")


def unavailable_replicas(workload: Workload) -> str:
    """Pods may be ready and yet not count, for as long as minReadySeconds says."""
    available, wanted = workload.status.available_replicas, workload.spec.replicas
    return f"{available} of {wanted} replicas are available" if available < wanted else ""
