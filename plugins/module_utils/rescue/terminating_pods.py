# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Terminating pods: those that free their capacity soon, and those whose capacity is still in use.

The plan of a pod awaits the first ones: their capacity counts as free.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from ..model.api.pod import Pod
from ..model.snapshot import ClusterSnapshot
from ..model.values.timestamps import read_time
from ..scheduler.cluster_state import ClusterState
from .plan import RescueContext

MARGIN_S = 15
"""The seconds that a pod may need after its grace period: a kubelet needs some seconds, and the clocks of API servers differ."""


PREEMPTED = "PreemptionByScheduler"
"""The reason of the condition DisruptionTarget that kube-scheduler writes on its victims (k8s.io/api ``core/v1``)."""


class TerminatingPods(t.NamedTuple):
    """The terminating pods by node.

    ``ending_soon``: they end within the time that an eviction on another node would take, so their capacity can count as free.
    ``not_ending_soon``: they end later, or should have ended already, so their capacity counts as used. ``evicted``: the uids of the pods
    that this program has evicted.
    """

    ending_soon: dict[str, list[Pod]]
    not_ending_soon: dict[str, list[Pod]]
    evicted: Collection[str]

    def all_ending_soon(self) -> Iterator[Pod]:
        """Yield the pods of the cluster that end soon."""
        return chain.from_iterable(self.ending_soon.values())

    def awaited_on(self, node_name: str, context: RescueContext) -> list[Pod]:
        """Return the terminating pods of the node whose capacity counts as free for the pod of the context."""
        pods = self.ending_soon.get(node_name, ())
        return [pod for pod in pods if context.awaits_terminating or self._is_awaited(pod, context)]

    def awaited_in_cluster(self, context: RescueContext) -> list[Pod]:
        """Return the terminating pods of the cluster that end soon, even if the pod cannot use their nodes."""
        return [pod for pod in self.all_ending_soon() if context.awaits_others or self._is_awaited(pod, context)]

    def cluster_state(self, without_ending: ClusterState, context: RescueContext) -> ClusterState:
        """Return the cluster state without the pods whose capacity counts as free.

        ``without_ending``: the cluster state without all pods that end soon.
        """
        if context.awaits_terminating:
            return without_ending
        cluster_state = without_ending.fork()
        for pod in self.all_ending_soon():
            if not self._is_awaited(pod, context):
                cluster_state.restore(pod)
        return cluster_state

    def _is_awaited(self, pod: Pod, context: RescueContext) -> bool:
        """Return whether this program has evicted the pod, or the scheduler has preempted it on the nominated node.

        The condition of the scheduler counts only there, because a kubelet can forge it.
        """
        return pod.metadata.uid in self.evicted or (pod.spec.node_name == context.nominated_node and is_preempted(pod))


def terminating_pods(
    snapshot: ClusterSnapshot, now_s: float, *, grace_period_s: int, evicted: t.Optional[Mapping[str, float]] = None
) -> TerminatingPods:
    """Return all pods that are terminating on a node. A finished pod uses no capacity, even if its object still exists.

    ``grace_period_s``: the longest grace period of a victim. ``evicted``: the remaining seconds of the grace period, by the uid of each pod
    that this program has evicted. For the other pods they follow from ``deletionTimestamp``, which includes the grace period.
    """
    found = TerminatingPods({}, {}, frozenset(evicted or ()))
    for pod in snapshot.pods:
        if pod.metadata.deletion_timestamp is not None and pod.spec.node_name and not pod.terminal:
            left_s = (evicted or {}).get(pod.metadata.uid)
            if left_s is None:
                # A pod whose time cannot be read does not count as ending soon.
                ends_at_s = read_time(pod.metadata.deletion_timestamp)
                left_s = math.inf if ends_at_s is None else ends_at_s - now_s
            group = found.ending_soon if -MARGIN_S <= left_s <= grace_period_s + MARGIN_S else found.not_ending_soon
            group.setdefault(pod.spec.node_name, []).append(pod)
    return found


def is_preempted(pod: Pod) -> bool:
    """Return whether the scheduler has deleted the pod to free capacity for another one. Tenants cannot write this condition."""
    return pod.disruption_reason == PREEMPTED


def longest_wait_s(grace_period_s: int) -> int:
    """Return the seconds after which every pod of ``ending_soon`` has ended or is not in ``ending_soon`` any more."""
    return grace_period_s + 2 * MARGIN_S
