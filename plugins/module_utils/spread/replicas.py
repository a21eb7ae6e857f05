# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The replicas of a workload that are missing, not ready or not available: the texts about them, and the progress of a wait for them."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.api.pod import Pod
from ..model.api.workload import Workload
from ..model.snapshot import ClusterSnapshot
from .rollout import DONE, WAITING, Progress, partition


def unfinished_pods(workload: Workload, snapshot: ClusterSnapshot) -> list[Pod]:
    """Return the workload's unfinished pods of any revision."""
    return [pod for pod in snapshot.owned_pods(workload) if not pod.terminal]


def missing_replicas_text(workload: Workload, pods: Iterable[Pod], gone: str = "") -> str:
    """Return a text about the replicas that are missing or not ready; empty if all are ready.

    ``pods`` are the workload's unfinished pods. The pod with the uid ``gone`` counts as terminating.
    """
    found = list(pods)
    ending_pods = [pod for pod in found if pod.terminating or pod.metadata.uid == gone]
    if ending_pods:
        return f"pod {ending_pods[0].metadata.name} is still terminating"
    if len(found) < workload.spec.replicas:
        return f"{len(found)} of {workload.spec.replicas} replicas exist"
    ready = sum(pod.ready for pod in found)
    return f"{ready} of {len(found)} replicas are ready" if ready < len(found) else ""


def availability_progress(workload: Workload) -> Progress:
    """Return the progress until the status reports all replicas of the current revision as available.

    It also works for a StatefulSet whose strategy does not roll.
    """
    spec, status = workload.spec, workload.status
    if workload.metadata.generation > status.observed_generation:
        return Progress(WAITING, "the controller has not seen the newest spec yet")
    if status.updated_replicas < spec.replicas - partition(workload):
        return Progress(WAITING, f"{status.updated_replicas} of {spec.replicas} replicas exist")
    if status.available_replicas < spec.replicas:
        return Progress(WAITING, f"{status.available_replicas} of {spec.replicas} replicas are available")
    return Progress(DONE, "all replicas are available")


def unavailable_replicas_text(workload: Workload) -> str:
    """Return a text about the replicas that are not available; empty if all are. A ready pod is unavailable for minReadySeconds."""
    available, wanted = workload.status.available_replicas, workload.spec.replicas
    return f"{available} of {wanted} replicas are available" if available < wanted else ""
