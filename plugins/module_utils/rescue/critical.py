# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The critical pods, their priority, and the pods for which the scheduler has found no node."""

from __future__ import annotations

from ..model.api.meta import Condition
from ..model.api.pod import Pod
from .options import ALL, KUBE_SYSTEM, NONE, RescueOptions

CRITICAL_ANNOTATION = "scheduler.alpha.kubernetes.io/critical-pod"
ANNOTATED_PRIORITY = 2_000_000_000
SYSTEM_CLASS_PREFIX = "system-"
NOT_CRITICAL = "not_critical"


def effective_priority(pod: Pod, options: RescueOptions) -> int:
    """Return the pod's priority, or at least 2,000,000,000 if the annotation makes it critical.

    The API server gives such pods priority 0.
    """
    priority = pod.spec.priority or 0
    return max(priority, ANNOTATED_PRIORITY) if _is_annotated(pod, options) else priority


def is_critical(pod: Pod, options: RescueOptions) -> bool:
    """Return whether the pod is rescued if the scheduler finds no node for it.

    A critical pod is evicted for another one only with ``allow_equal_priority``.
    """
    return effective_priority(pod, options) >= options.priority_threshold


def is_critical_or_system(pod: Pod, options: RescueOptions) -> bool:
    """Return whether the pod is critical, in any namespace, or has a priority class of Kubernetes itself."""
    if is_critical(pod, options) or pod.spec.priority_class_name.startswith(SYSTEM_CLASS_PREFIX):
        return True
    # Annotated add-ons of kube-system are critical even if only pods of other namespaces are rescued.
    return options.honor_critical_annotation != NONE and pod.metadata.namespace == KUBE_SYSTEM and _has_annotation(pod)


def is_unschedulable(pod: Pod) -> bool:
    """Return whether the scheduler has tried the pod and found no node."""
    if pod.spec.node_name or pod.terminating or pod.terminal or pod.spec.scheduling_gates:
        return False
    condition = scheduled_condition(pod)
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"


def scheduled_condition(pod: Pod) -> Condition | None:
    """Return the pod's condition PodScheduled. Return None if the scheduler has not written it."""
    return next((condition for condition in pod.status.conditions or () if condition.type == "PodScheduled"), None)


def not_critical_message(pod: Pod, options: RescueOptions) -> str:
    """Return the reason why a pod is not critical: its priority, and why its annotation does not count."""
    priority = f"its priority {effective_priority(pod, options)} is below priority_threshold {options.priority_threshold}"
    value = (pod.metadata.annotations or {}).get(CRITICAL_ANNOTATION)
    if value is None:
        return f"{priority}, and it has no annotation that makes it critical"
    if _is_annotated(pod, options):
        return priority
    annotation, honored = f"{priority}; its annotation {CRITICAL_ANNOTATION}", options.honor_critical_annotation
    if value != "":
        return f"{annotation} has the value {value!r}, and only an empty value counts"
    if honored == KUBE_SYSTEM and pod.metadata.namespace != KUBE_SYSTEM:
        place = f"does not count in namespace {pod.metadata.namespace}"
        return f"{annotation} {place}, because honor_critical_annotation is {honored}; set it to {ALL}"
    return f"{annotation} does not count, because honor_critical_annotation is {honored}"


def _is_annotated(pod: Pod, options: RescueOptions) -> bool:
    namespace, honored = pod.metadata.namespace, options.honor_critical_annotation
    if namespace not in options.namespaces or not (honored == ALL or (honored == KUBE_SYSTEM and namespace == KUBE_SYSTEM)):
        return False
    return _has_annotation(pod)


def _has_annotation(pod: Pod) -> bool:
    return (pod.metadata.annotations or {}).get(CRITICAL_ANNOTATION) == ""
