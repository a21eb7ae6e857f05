# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that a rollout removes, in the order of the controller of a Deployment, and those that are already terminating.

Source: kubernetes ``pkg/controller/controller_utils.go`` (ActivePodsWithRanks) and ``pkg/controller/replicaset/replica_set.go``
(getPodsRankedByRelatedPodsOnSameNode).
"""

from __future__ import annotations

import heapq
import math
import random
import typing as t
from collections.abc import Iterable, Mapping

from ...model.api.pod import Pod
from ...model.messages import listed
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.values.integers import parse_int64
from ...model.values.timestamps import parse_time, read_time
from ...scheduler.cluster_state import ClusterState
from ...scheduler.node_info import pod_key
from ..stuck_pods import is_on_lost_node

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
PHASES = {"Pending": 0, "Unknown": 1}
RUNNING = 2
WAITS_FOR_TERMINATING_PODS = "waits_for_terminating_pods"
MAX_NAMED = 3
MOST_AWAITED_S, MOST_OVERDUE_S = 60, 10
"""Terminating pods are awaited if their grace period ends within 60 seconds, or has ended 10 seconds ago: a kubelet needs a few more."""
MOST_REQUESTS = 30
"""The requests of a controller that are not delayed (``--kube-api-burst`` of kube-controller-manager). Each pod of a step needs two."""


class _Class(t.NamedTuple):
    """The part of the order that comes before the number of replicas on the node. Lower values are removed first."""

    ready: bool
    has_node: bool
    phase: int
    cost: int


class OldPods:
    """The pods that a rollout has not removed yet, in the controller's order.

    ``per_node``: the replicas of the workload by node. ``recount`` must be called after each change of it. ``now_s``: seconds since the
    epoch. Of pods that are equal otherwise, the controller first removes the one that became Ready last, and then the one that was created
    last. The first time is not in the snapshot, so the time of the creation takes its place, or a random order by ``chance``.
    """

    def __init__(self, pods: Iterable[Pod], per_node: Mapping[str, int], now_s: float, chance: t.Optional[random.Random] = None) -> None:
        self._per_node = per_node
        self._pods: dict[tuple[_Class, str], list[tuple[int, Pod]]] = {}
        self._classes: dict[str, list[_Class]] = {}
        # Outdated entries stay until they are at the top. ``recount`` adds the current ones.
        self._heap: list[tuple[_Class, int, int, str]] = []
        ordered = sorted(pods, key=lambda pod: (_age_class(pod, now_s), pod.metadata.uid))
        if chance is not None:
            chance.shuffle(ordered)
        self._left = len(ordered)
        for number, pod in enumerate(ordered):
            self._pods.setdefault((_class_of(pod), pod.spec.node_name), []).append((number, pod))
        for (one, node), there in self._pods.items():
            there.reverse()
            self._classes.setdefault(node, []).append(one)
        for node in self._classes:
            self.recount(node)

    def __len__(self) -> int:
        return self._left

    def take(self, number: int) -> list[Pod]:
        """Remove and return the next pods, as many as there are up to this number.

        The controller removes them at the same time: it counts the replicas on their nodes before, not after each of them.
        """
        taken: list[Pod] = []
        while self._left and len(taken) < number:
            one, replicas, position, node = heapq.heappop(self._heap)
            there = self._pods[one, node]
            if there and there[-1][0] == position and -replicas == self._per_node[node]:
                self._left -= 1
                taken.append(there.pop()[1])
                self.recount(node)
        return taken

    def recount(self, node: str) -> None:
        """Update the order after a change of the workload's replicas on the node."""
        for one in self._classes.get(node, ()):
            there = self._pods[one, node]
            if there:
                heapq.heappush(self._heap, (one, -self._per_node[node], there[-1][0], node))


def ending_pods(cluster_state: ClusterState) -> list[Pod]:
    """Return the pods of all workloads that are terminating on their nodes. A pod on a node that does not answer does not end."""
    pods = cluster_state.snapshot.once(_ending_in)
    return [pod for pod in pods if pod_key(pod) in cluster_state.info(pod.spec.node_name).pods]


def awaited_pods(cluster_state: ClusterState) -> list[Pod]:
    """Return the terminating pods that will soon have ended. One that hangs, or has a long grace period, would hold up a run."""
    read_at_s = cluster_state.snapshot.read_at_s
    due_s = ((pod, parse_time(pod.metadata.deletion_timestamp or "") - read_at_s) for pod in ending_pods(cluster_state))
    return [pod for pod, left_s in due_s if -MOST_OVERDUE_S <= left_s <= MOST_AWAITED_S]


def after_ends(cluster_state: ClusterState) -> t.Optional[ClusterState]:
    """Return the state after the end of the pods that are awaited. None if there are none."""
    pods = awaited_pods(cluster_state)
    if not pods:
        return None
    ended = cluster_state.fork()
    for pod in pods:
        ended.remove(pod)
    return ended


def terminating_pods_reason(cluster_state: ClusterState) -> Reason:
    """Return the reason why a decision must wait until the pods that are terminating have ended."""
    names = listed((f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in awaited_pods(cluster_state)), MAX_NAMED)
    return Reason(
        WAITS_FOR_TERMINATING_PODS, f"the decision depends on the end of terminating pods ({names}); run again when they have ended"
    )


def ends_at_removal(pod: Pod, removed: int = 1) -> t.Optional[bool]:
    """Return whether the pod has ended when the pods that replace the ``removed`` pods of one step are placed. None if it is not known.

    Measured with kind: a kubelet needs 0.9 to 2.6 s to end a pod, whatever its containers do, and the scheduler 0.02 to 0.5 s to place one.
    Only the deletion of a pod with the grace period 0 takes effect immediately. A controller sends MOST_REQUESTS requests without a delay,
    and more of them take seconds.
    """
    return None if 2 * removed > MOST_REQUESTS else pod.spec.termination_grace_period_seconds == 0


def can_be_removed_in_other_orders(pods: Iterable[Pod]) -> bool:
    """Return whether another order of pods with equal ranks can make a difference: they are on several nodes."""
    return len({pod.spec.node_name for pod in pods}) > 1


def deletion_cost(pod: Pod) -> int:
    """Return the pod deletion cost from the annotation.

    A value that is not a number counts as 0 (kubernetes ``controller/controller_utils.go``).
    """
    return parse_int64((pod.metadata.annotations or {}).get(DELETION_COST, "")) or 0


def _ending_in(snapshot: ClusterSnapshot) -> list[Pod]:
    pods = (pod for pod in snapshot.pods if pod.terminating and not pod.terminal and pod.spec.node_name in snapshot.nodes)
    return [pod for pod in pods if not is_on_lost_node(pod, snapshot)]


def _class_of(pod: Pod) -> _Class:
    return _Class(pod.ready, bool(pod.spec.node_name), PHASES.get(pod.status.phase, RUNNING), deletion_cost(pod))


def _age_class(pod: Pod, now_s: float) -> int:
    """Return the logarithm of the pod's age. Pods of one class are removed in the order of their uids (logarithmicRankDiff)."""
    created = read_time(pod.metadata.creation_timestamp)
    age_ns = 0.0 if created is None else (now_s - created) * 1e9
    return int(math.log2(age_ns)) if age_ns >= 1 else -1
