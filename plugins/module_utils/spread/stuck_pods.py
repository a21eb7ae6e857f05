# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Containers and pods that keep a rollout or a replacement from ending.

Source of the reasons: kubernetes ``pkg/kubelet/images/types.go``, ``kuberuntime/kuberuntime_container.go``, ``container/sync_result.go``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ..model.api.pod import ContainerStateWaiting, Pod
from ..model.api.workload import Workload
from ..model.snapshot import ClusterSnapshot
from ..model.well_known import CONTROLLER_REVISION_HASH

LASTING_REASONS = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
        "SignatureValidationFailed",
    }
)
"""Reasons that end the wait for a rollout.

A container that crashes once is restarted without any of them. The kubelet sets CrashLoopBackOff from the second crash on.
"""

MAX_MESSAGE = 300
"""Limit of characters of a container's message. An image error may quote a registry's whole answer."""


def new_pods(workload: Workload, snapshot: ClusterSnapshot) -> list[Pod]:
    """Return the unfinished pods that the rollout of the newest revision created.

    Return none before the controller has observed that revision.
    """
    if workload.metadata.generation > workload.status.observed_generation:
        return []
    pods = [pod for pod in snapshot.current_pods(workload) if not pod.terminal and not pod.terminating]
    if workload.kind != "StatefulSet":
        return pods
    revision = workload.status.update_revision
    return [pod for pod in pods if (pod.metadata.labels or {}).get(CONTROLLER_REVISION_HASH) == revision]


def stuck_container(pods: Iterable[Pod]) -> str:
    """Return a text about the first container whose state blocks a rollout; empty if there is none."""
    return waiting_container(pods, LASTING_REASONS)


def waiting_container(pods: Iterable[Pod], reasons: t.AbstractSet[str]) -> str:
    """Return a text about the first container that waits for one of the reasons; empty if there is none.

    The text has the kubelet's reason and message.
    """
    for pod in pods:
        for name, waiting in _waiting(pod):
            if waiting.reason in reasons:
                said = f"{waiting.reason}: {waiting.message[:MAX_MESSAGE]}" if waiting.message else waiting.reason
                return f"container {name} of pod {pod.metadata.name} waits with {said}"
    return ""


def unready_message(pods: Iterable[Pod]) -> str:
    """Return the message of the first unready pod that has one; empty if there is none."""
    for pod in pods:
        if pod.ready:
            continue
        by_type = {condition.type: condition for condition in pod.status.conditions or ()}
        for kind in ("PodScheduled", "Ready"):
            condition = by_type.get(kind)
            if condition is not None and condition.status != "True" and (condition.message or condition.reason):
                return f"pod {pod.metadata.name}: {(condition.message or condition.reason)[:MAX_MESSAGE]}"
    return ""


def unfinished_cause(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """Return the cause why a rollout or a replacement has not ended, as a text; empty if neither pods nor nodes show one."""
    pods = new_pods(workload, snapshot)
    stuck = stuck_container(pods)
    if stuck:
        return stuck
    unfinished = (pod for pod in snapshot.owned_pods(workload) if not pod.terminal)
    lost = sorted({pod.spec.node_name for pod in unfinished if is_on_lost_node(pod, snapshot)})
    if lost:
        nodes = "a node that is not ready" if len(lost) == 1 else "nodes that are not ready"
        return f"pods of {workload} are on {nodes}: {', '.join(lost)}"
    return unready_message(pods) or _creation_failure(workload)


def _creation_failure(workload: Workload) -> str:
    """Return the controller's message if it cannot create a pod, for example because of a quota or a webhook; empty otherwise.

    Only Deployments have this condition.
    """
    failure = next((one for one in workload.status.conditions or () if one.type == "ReplicaFailure" and one.status == "True"), None)
    return f"a pod of {workload} cannot be created: {failure.message[:MAX_MESSAGE]}" if failure is not None else ""


def _waiting(pod: Pod) -> Iterable[tuple[str, ContainerStateWaiting]]:
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        if status.state is not None and status.state.waiting is not None:
            yield status.name, status.state.waiting


def is_on_lost_node(pod: Pod, snapshot: ClusterSnapshot) -> bool:
    """Return whether the pod's node is not ready or does not exist any more."""
    if not pod.spec.node_name:
        return False
    node = snapshot.nodes.get(pod.spec.node_name)
    return node is None or not node.ready
