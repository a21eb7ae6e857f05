# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Properties of a pod that count for its eviction: its own grace period, its controller, its gang."""

from __future__ import annotations

from ...model.api.pod import Pod

DEFAULT_GRACE_PERIOD_S = 30
"""The seconds that the API server sets for pods without a grace period."""

# The labels and annotations by which gang schedulers identify the members of a gang.
GANG_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "kueue.x-k8s.io/pod-group-name")
GANG_ANNOTATIONS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "gang.scheduling.koordinator.sh/name",
    "yunikorn.apache.org/task-group-name",
    "pod-group-name",
)


def own_grace_period_s(pod: Pod) -> int:
    """Return the grace period of the pod's spec in whole seconds.

    The API server changes a negative number to 1 (``registry/core/pod/strategy.go``).
    """
    seconds = pod.spec.termination_grace_period_seconds
    if seconds is None:
        return DEFAULT_GRACE_PERIOD_S
    return seconds if seconds >= 0 else 1


def is_controlled_by(pod: Pod, kind: str) -> bool:
    """Return whether the pod's controller is of this kind, in any API group.

    Only rules that protect pods use this. A DaemonSet or a StatefulSet of another API group has the same property as that of
    Kubernetes: one pod for each node, or a pod with an identity.
    """
    controller = pod.metadata.controller
    return controller is not None and controller.kind == kind


def is_in_gang(pod: Pod) -> bool:
    """Return whether the pod has a scheduling group, or a label or annotation of a gang."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if pod.spec.scheduling_group is not None:
        return True
    by_label = labels is not None and any(key in labels for key in GANG_LABELS)
    return by_label or (annotations is not None and any(key in annotations for key in GANG_ANNOTATIONS))
