# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod whose replacement could preempt the pod that needs the capacity is not evicted."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason
from ..victims.node_pod import NodePod, Preemptor

NEVER = "Never"
"""The preemptionPolicy of pods that do not preempt other pods."""
WOULD_PREEMPT = Reason(
    "would_preempt",
    "its own priority is higher, so that the pod that replaces it could preempt the rescued pod; give the critical pod a priority class",
)


def would_preempt_violation(node_pod: NodePod, preemptor: Preemptor) -> t.Optional[Reason]:
    """Return a reason for a pod whose replacement could preempt the pod that needs the capacity."""
    if preemptor.spec_priority < preemptor.priority and could_preempt(node_pod.pod, preemptor.spec_priority):
        return WOULD_PREEMPT
    return None


def could_preempt(pod: Pod, priority: int) -> bool:
    """Return whether another pod of the same template could preempt pods of this priority.

    For the scheduler only ``spec.priority`` counts, not the annotation that makes a pod critical. Every profile counts as one that
    preempts, because the profiles are not known here.
    """
    return (pod.spec.priority or 0) > priority and pod.spec.preemption_policy != NEVER
