# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The terminating pods that a plan awaits. Their capacity counts as free."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..model.api.pod import Pod
from ..scheduler.cluster_state import ClusterState
from .plan import RescueContext
from .terminating_pods import is_preempted


class AwaitedPods:
    """The terminating pods that end soon, and those of them that the plan of a pod awaits.

    ``ending_soon``: the pods by node name. ``evicted``: the uids of the pods that this program has evicted.
    """

    def __init__(self, ending_soon: Mapping[str, Sequence[Pod]], evicted: Collection[str]) -> None:
        self._ending_soon, self._evicted = ending_soon, evicted

    def on_node(self, node_name: str, context: RescueContext) -> list[Pod]:
        """Return the terminating pods of the node whose capacity counts as free."""
        pods = self._ending_soon.get(node_name, ())
        return [pod for pod in pods if context.awaits_terminating or self._is_awaited(pod, context)]

    def in_cluster(self, context: RescueContext) -> list[Pod]:
        """Return the terminating pods of the cluster that end soon, even if the pod cannot use their nodes."""
        pods = (pod for group in self._ending_soon.values() for pod in group)
        return [pod for pod in pods if context.awaits_others or self._is_awaited(pod, context)]

    def cluster_state(self, without_ending: ClusterState, context: RescueContext) -> ClusterState:
        """Return the cluster state without the pods whose capacity counts as free.

        ``without_ending``: the cluster state without all pods that end soon.
        """
        if context.awaits_terminating:
            return without_ending
        cluster_state = without_ending.fork()
        for pods in self._ending_soon.values():
            for pod in pods:
                if not self._is_awaited(pod, context):
                    cluster_state.restore(pod)
        return cluster_state

    def _is_awaited(self, pod: Pod, context: RescueContext) -> bool:
        """Return whether this program has evicted the pod, or the scheduler has preempted it on the nominated node.

        The condition of the scheduler counts only there, because a kubelet can forge it.
        """
        return pod.metadata.uid in self._evicted or (pod.spec.node_name == context.nominated_node and is_preempted(pod))
