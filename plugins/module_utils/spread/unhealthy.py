# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Workloads whose pods do not become ready: a restart does not help them, and waits for its end in vain.

Two codes: ``unhealthy_pods`` (a container waits with an error that only a change of the workload or of what it needs ends) and
``no_ready_replica``. Pods on a node that is not ready count for neither, because what is said of them is old and a restart may be the cure.

Source of the reasons: kubernetes ``pkg/kubelet/images/types.go``, ``kuberuntime/kuberuntime_container.go``, ``container/sync_result.go``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ..model.api.pod import ContainerStateWaiting, Pod
from ..model.api.workload import Workload
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from ..model.well_known import CONTROLLER_REVISION_HASH

UNHEALTHY_PODS = "unhealthy_pods"
NO_READY_REPLICA = "no_ready_replica"

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

A container that crashes once is started again without any of them: the kubelet sets CrashLoopBackOff from the second crash on.
"""

FIRST_FAILURES = frozenset({"ErrImagePull", "RegistryUnavailable"})
"""Reasons of a first failure, after which the kubelet tries again or sets ImagePullBackOff: they forbid a restart, and end no wait."""

MOST_MESSAGE = 300
"""Characters of a container's message that are shown: an image error may quote the whole answer of a registry."""


def unhealthy(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return why the pods of the current revision forbid a restart; None where they do not."""
    pods = [pod for pod in snapshot.current_pods(workload) if not pod.terminal and not pod.terminating]
    waiting = waiting_container((pod for pod in pods if not _on_lost_node(pod, snapshot)), LASTING_REASONS | FIRST_FAILURES)
    if waiting:
        return Reason(UNHEALTHY_PODS, f"{waiting}; neither a restart of {workload} nor an eviction of its pods would end that")
    if not workload.spec.replicas or any(pod.ready for pod in pods):
        return None
    # A pod that has no node may wait for the capacity of the lost one.
    judged = [pod for pod in pods if pod.spec.node_name and not _on_lost_node(pod, snapshot)]
    if not judged and any(_on_lost_node(pod, snapshot) for pod in pods):
        return None
    cause = why_not_ready(judged or pods)
    text = f"none of the {workload.spec.replicas} replicas of {workload} is ready" + (f": {cause}" if cause else "")
    return Reason(NO_READY_REPLICA, f"{text}; a restart is refused until one is")


def new_pods(workload: Workload, snapshot: ClusterSnapshot) -> list[Pod]:
    """Return the unfinished pods that the rollout of the newest revision has made; none before its controller has seen that revision."""
    if workload.metadata.generation > workload.status.observed_generation:
        return []
    pods = [pod for pod in snapshot.current_pods(workload) if not pod.terminal and not pod.terminating]
    if workload.kind != "StatefulSet":
        return pods
    revision = workload.status.update_revision
    return [pod for pod in pods if (pod.metadata.labels or {}).get(CONTROLLER_REVISION_HASH) == revision]


def hanging_container(pods: Iterable[Pod]) -> str:
    """Return the first container whose state lets a rollout hang, in words; empty where there is none."""
    return waiting_container(pods, LASTING_REASONS)


def waiting_container(pods: Iterable[Pod], reasons: t.AbstractSet[str]) -> str:
    """Return the first container that waits for one of the reasons, with the kubelet's reason and message; empty where there is none."""
    for pod in pods:
        for name, waiting in _waiting(pod):
            if waiting.reason in reasons:
                said = f"{waiting.reason}: {waiting.message[:MOST_MESSAGE]}" if waiting.message else waiting.reason
                return f"container {name} of pod {pod.metadata.name} waits with {said}"
    return ""


def why_not_ready(pods: Iterable[Pod]) -> str:
    """Return what the first pod that is not ready says about it; empty where all are ready or nothing is said."""
    for pod in pods:
        if pod.ready:
            continue
        by_type = {condition.type: condition for condition in pod.status.conditions or ()}
        for kind in ("PodScheduled", "Ready"):
            condition = by_type.get(kind)
            if condition is not None and condition.status != "True" and (condition.message or condition.reason):
                return f"pod {pod.metadata.name}: {(condition.message or condition.reason)[:MOST_MESSAGE]}"
    return ""


def why_unfinished(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """Return why a rollout or a replacement has not ended, in words; empty where neither pods nor nodes say anything."""
    pods = new_pods(workload, snapshot)
    hanging = hanging_container(pods)
    if hanging:
        return hanging
    unfinished = (pod for pod in snapshot.owned_pods(workload) if not pod.terminal)
    lost = sorted({pod.spec.node_name for pod in unfinished if _on_lost_node(pod, snapshot)})
    if lost:
        nodes = "a node that is not ready" if len(lost) == 1 else "nodes that are not ready"
        return f"pods of {workload} are on {nodes}: {', '.join(lost)}"
    return why_not_ready(pods) or _why_not_created(workload)


def _why_not_created(workload: Workload) -> str:
    """Why the controller of a Deployment cannot create a pod, such as a quota or a webhook, in its words; empty where it can."""
    failure = next((one for one in workload.status.conditions or () if one.type == "ReplicaFailure" and one.status == "True"), None)
    return f"a pod of {workload} cannot be created: {failure.message[:MOST_MESSAGE]}" if failure is not None else ""


def _waiting(pod: Pod) -> Iterable[tuple[str, ContainerStateWaiting]]:
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        if status.state is not None and status.state.waiting is not None:
            yield status.name, status.state.waiting


def _on_lost_node(pod: Pod, snapshot: ClusterSnapshot) -> bool:
    """The pod's node is not ready, or does not exist any more."""
    if not pod.spec.node_name:
        return False
    node = snapshot.nodes.get(pod.spec.node_name)
    return node is None or not node.ready
