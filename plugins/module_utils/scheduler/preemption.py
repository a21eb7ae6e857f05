# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Whether the scheduler would preempt pods with a lower priority for a pod that finds no node.

Source: kubernetes ``pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`` (PodEligibleToPreemptOthers,
SelectVictimsOnNode). Every profile counts as one that preempts. PodDisruptionBudgets prevent no preemption.
"""

from __future__ import annotations

from ..model.api.pod import Pod
from ..model.snapshot import ClusterSnapshot
from .cluster_state import ClusterState
from .feasibility import FilterRunner

NEVER = "Never"
"""The preemptionPolicy of pods that do not preempt other pods."""


def could_preempt(pod: Pod, priority: int) -> bool:
    """Return whether the pod, or another one of the same template, could preempt pods of this priority."""
    return (pod.spec.priority or 0) > priority and pod.spec.preemption_policy != NEVER


def may_preempt(pod: Pod, filters: FilterRunner, cluster_state: ClusterState) -> bool:
    """Return whether a node can run the pod, or may be able to, without its pods with lower priorities. ``filters``: those for the pod.

    A node without such pods does not count: no preemption helps there.
    """
    if not could_preempt(pod, cluster_state.shared(_lowest_priority)):
        return False
    for name in cluster_state.node_names:
        gone = [other for other in cluster_state.pods_on(name) if could_preempt(pod, other.spec.priority or 0)]
        if not gone:
            continue
        result = filters.result_without_pods(name, gone)
        if result is None:
            without = cluster_state.fork()
            for other in gone:
                without.remove(other)
            result = filters.on_fork(without).run_filters(name)
        if not result[0]:
            return True
    return False


def _lowest_priority(snapshot: ClusterSnapshot) -> int:
    return min((pod.spec.priority or 0 for pod in snapshot.pods), default=0)
