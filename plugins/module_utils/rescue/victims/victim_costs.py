# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Computes the costs of sets of pods that run in a cluster state."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...model.api.pod import Pod
from ...model.scheduler_profile import DEFAULT_PROFILES, Profiles
from ...model.snapshot import OwnerKey
from ...scheduler.cluster_state import ClusterState
from ...scheduler.node_info import pod_key
from .cost import NO_VICTIM, PRIORITY_OFFSET, Cost
from .node_pod import NodePod
from .rescheduling import ReschedulingCheck


class VictimCosts:
    """The costs of sets of pods that run in a cluster state."""

    def __init__(self, cluster_state: ClusterState, profiles: Profiles = DEFAULT_PROFILES) -> None:
        self._cluster_state = cluster_state
        self._rescheduling = ReschedulingCheck(cluster_state, profiles)
        self._unreschedulable: dict[str, bool] = {}
        self._evicted_last: dict[str, bool] = {}
        self._ready_of: dict[OwnerKey, int] = {}
        self._removed: t.Optional[set[str]] = None

    def cost_of(self, victims: Sequence[NodePod]) -> Cost:
        """Return the cost of evicting all these pods."""
        priorities = [node_pod.priority for node_pod in victims]
        return Cost(
            max(priorities, default=NO_VICTIM),
            sum(priorities) + PRIORITY_OFFSET * len(victims),
            len(victims),
            *self.tie_breakers(victims),
            tuple(sorted(node_pod.name for node_pod in victims)),
        )

    def tie_breakers(self, victims: Sequence[NodePod]) -> tuple[int, int, int, tuple[int, ...]]:
        """Return the fields of the cost from ``evicted_last`` to ``ages``. None of them decreases with one more victim."""
        owners = [known.owner for known in victims if known.ready]
        keeps = [self._ready(known.owner) - owners.count(known.owner) if known.owner else 0 for known in victims]
        return (
            sum([self.is_evicted_last(known) for known in victims]),
            sum([self.is_unreschedulable(known.pod) for known in victims]),
            -min(keeps, default=PRIORITY_OFFSET),
            tuple(sorted([known.age for known in victims], reverse=True)),
        )

    def remaining_ready(self, node_pod: NodePod) -> int:
        """Return the number of ready pods that its owner keeps if only this pod is evicted. Return 0 if it has no owner."""
        owner = node_pod.owner
        return (self._ready_of.get(owner) or self._ready(owner)) - node_pod.ready if owner else 0

    def eviction_order(self, node_pod: NodePod) -> tuple[t.Any, ...]:
        """Return a key that sorts pods for eviction: the pod with the lowest priority and cost comes first."""
        return node_pod.priority, self.is_evicted_last(node_pod), -self.remaining_ready(node_pod), node_pod.age, node_pod.name

    def is_unreschedulable(self, pod: Pod) -> bool:
        """Return whether no other node is surely feasible for the pod's replacement now."""
        known = self._unreschedulable.get(pod.metadata.uid)
        if known is None:
            known = self._unreschedulable[pod.metadata.uid] = not self._rescheduling.fits_elsewhere(pod)
        return known

    def is_surely_unreschedulable(self, node_pod: NodePod) -> bool:
        """Return whether no node has capacity for the pod's replacement. This part of ``is_unreschedulable`` is cheap to compute."""
        return not self._rescheduling.may_fit(node_pod.pod)

    def is_evicted_last(self, node_pod: NodePod) -> bool:
        """Return whether the pod counts in ``Cost.evicted_last``, so that it is evicted last among pods of the same priority."""
        if node_pod.in_gang:
            return True
        if not (node_pod.in_job or node_pod.mounts_claims):
            return False
        uid = node_pod.pod.metadata.uid
        known = self._evicted_last.get(uid)
        if known is None:
            in_job = node_pod.in_job and self._in_job_that_counts(node_pod)
            known = self._evicted_last[uid] = in_job or (node_pod.mounts_claims and self._bound_to_node(node_pod.pod))
        return known

    # --- pods that are evicted last ---

    def _in_job_that_counts(self, node_pod: NodePod) -> bool:
        job = self._cluster_state.snapshot.jobs.get(node_pod.owner) if node_pod.owner else None
        return job is None or not job.ignores_disruptions

    def _bound_to_node(self, pod: Pod) -> bool:
        """Return whether the volume of a claim can be reached from no other node, or is not known."""
        snapshot, storage = self._cluster_state.snapshot, self._cluster_state.storage
        if not storage.was_read:
            return True
        for volume in pod.spec.volumes or ():
            if volume.persistent_volume_claim is None:
                continue
            claim = snapshot.claims.get((pod.metadata.namespace, volume.persistent_volume_claim.claim_name))
            bound = storage.volumes.get(claim.spec.volume_name) if claim is not None else None
            if bound is None:
                return True
            reachable = storage.nodes_of(bound)
            others = (node for name, node in snapshot.nodes.items() if name != pod.spec.node_name)
            if reachable is not None and not any(map(reachable, others)):
                return True
        return False

    # --- ready pods ---

    def _ready(self, owner: OwnerKey) -> int:
        """Return the number of the owner's ready pods that are not removed in the cluster state."""
        known = self._ready_of.get(owner)
        if known is None:
            if self._removed is None:
                self._removed = _removed_pods(self._cluster_state)
            pods = self._cluster_state.snapshot.pods_by_owner.get(owner, ())
            gone = self._removed
            staying = [pod for pod in pods if pod_key(pod) not in gone] if gone else pods
            known = self._ready_of[owner] = sum(pod.ready and not pod.terminating and not pod.terminal for pod in staying)
        return known


def _removed_pods(cluster_state: ClusterState) -> set[str]:
    """Return the keys of the pods that have been removed from their node since the snapshot, and are on no other node."""
    gone: set[str] = set()
    for change in cluster_state.changes:
        if change.amount:
            (gone.add if change.amount < 0 else gone.discard)(pod_key(change.pod))
    return gone
