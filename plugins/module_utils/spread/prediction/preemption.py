# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The new pods for which the scheduler would preempt pods with a lower priority.

Source: kubernetes ``pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`` (SelectVictimsOnNode).
PodDisruptionBudgets prevent no preemption.
"""

from __future__ import annotations

from ...model.api.pod import Pod
from ...model.snapshot import ClusterSnapshot
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterRunner
from ...scheduler.preemption import could_preempt
from .old_pods import ending_pods


def may_preempt(pod: Pod, filters: FilterRunner, cluster_state: ClusterState, *, certainly: bool = False) -> bool:
    """Return whether a node can run the pod, or may be able to, without its pods with lower priorities. ``filters``: those for the pod.

    A node without such pods does not count: no preemption helps there. ``certainly``: return whether it is certain that the scheduler ends
    such pods if the pod finds no node now. It is not if some of them are terminating, because these may be enough.
    """
    if not could_preempt(pod, cluster_state.shared(_lowest_priority)):
        return False
    if certainly and any(could_preempt(pod, other.spec.priority or 0) for other in ending_pods(cluster_state)):
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
        reasons, unknowns = result
        if not reasons and not (certainly and unknowns):
            return True
    return False


def _lowest_priority(snapshot: ClusterSnapshot) -> int:
    return min((pod.spec.priority or 0 for pod in snapshot.pods), default=0)
