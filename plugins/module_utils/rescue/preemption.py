# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods for which the scheduler may preempt others, so that a rescue gives it time first. Pure."""

from __future__ import annotations

from ..model.api.pod import Pod
from ..model.snapshot import ClusterSnapshot
from ..scheduler.preemption import could_preempt


def may_be_preempted_for(pod: Pod, snapshot: ClusterSnapshot) -> bool:
    """Return whether the scheduler can preempt a pod of the cluster for this one, if that helps.

    It cannot if the preemptionPolicy is Never, if no plugin of the profile preempts, or if no pod has a lower ``spec.priority``. The
    annotation that makes a pod critical does not count for it.
    """
    if not snapshot.profile_of(pod).preempts:
        return False
    return any(could_preempt(pod, other.spec.priority or 0) for other in snapshot.pods if other.spec.node_name)


def was_preemption_useless(pod: Pod) -> bool:
    """Return whether the scheduler has preempted nothing in its last attempt at this unschedulable pod.

    It reports the attempt and the nomination for a node with one write. A report without a nomination therefore says that the profile does
    not preempt, or that no preemption helped (kubernetes ``schedule_one.go``, ``handleSchedulingFailure``).
    """
    return not pod.status.nominated_node_name
