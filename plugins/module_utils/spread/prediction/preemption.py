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
