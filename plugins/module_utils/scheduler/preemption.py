# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that may preempt others.

Source: kubernetes ``pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`` (PodEligibleToPreemptOthers). Every profile
counts as one that preempts.
"""

from __future__ import annotations

from ..model.api.pod import Pod

NEVER = "Never"
"""The preemptionPolicy of pods that do not preempt other pods."""


def could_preempt(pod: Pod, priority: int) -> bool:
    """Return whether the pod, or another one of the same template, could preempt pods of this priority."""
    return (pod.spec.priority or 0) > priority and pod.spec.preemption_policy != NEVER
