# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod whose replacement could preempt the pod that needs the capacity is not evicted."""

from __future__ import annotations

import typing as t

from ...model.reason import Reason
from ...scheduler.preemption import could_preempt
from ..victims.node_pod import NodePod, Preemptor

WOULD_PREEMPT = Reason(
    "would_preempt",
    "its own priority is higher, so that the pod that replaces it could preempt the rescued pod; give the critical pod a priority class",
)


def would_preempt_violation(node_pod: NodePod, preemptor: Preemptor) -> t.Optional[Reason]:
    """Return a reason for a pod whose replacement could preempt the pod that needs the capacity.

    For the scheduler only ``spec.priority`` counts, not the annotation that makes a pod critical. The profiles are not known here.
    """
    if preemptor.spec_priority < preemptor.priority and could_preempt(node_pod.pod, preemptor.spec_priority):
        return WOULD_PREEMPT
    return None
