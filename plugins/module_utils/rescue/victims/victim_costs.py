# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Computes the costs of sets of pods that run in a cluster state.

A part of the cost is whether the replacement of an evicted pod could start on another node immediately.
"""

from __future__ import annotations

import typing as t
from bisect import bisect_left
from collections.abc import Hashable, Sequence

from ...model.api.pod import Pod, PodStatus, mounts_claims
from ...model.caches import IdentityDict
from ...model.codec import replace
from ...model.scheduler_profile import DEFAULT_PROFILE, DEFAULT_PROFILES, Profiles
from ...model.snapshot import OwnerKey
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterRunner
from ...scheduler.filters.node_resources_fit import asked_for
from ...scheduler.node_info import NodeInfo, pod_key
from ...scheduler.pod_requests import CPU
from ...scheduler.static_filters import static_filters
from .node_pod import NodePod
from .pod_traits import is_controlled_by, is_in_gang

PRIORITY_OFFSET = 2**31
"""Added to every priority so that its weight is not negative and more victims never weigh less.

Source: kubernetes ``pkg/scheduler/framework/preemption``.
"""

NO_VICTIM = -PRIORITY_OFFSET - 1
"""The highest priority of an empty set of victims."""


Requests = t.Sequence[tuple[str, int]]
"""Resources and amounts, in scheduler units."""


class Cost(t.NamedTuple):
    """The order by which one set of victims, on any node, is better than another. The smaller cost is better.

    Each field counts only if the fields before it are equal.

    - ``highest``: the highest priority of a victim
    - ``weight``: the sum of priority + 2^31
    - ``number``: the number of victims
    - ``evicted_last``: the number of victims that are bound to their node by a volume, belong to a gang, or belong to a Job whose rules do
      not ignore disruptions
    - ``unreschedulable``: the number of victims whose replacement fits on no other node now
    - ``remaining_ready``: minus the lowest number of ready pods that an owner of a victim keeps
    - ``ages``: minus the times at which the victims were created, oldest first
    - ``names``: namespaces and names, in order

    A set costs more than each of its subsets, so the cheapest set that frees enough contains no unneeded victim.
    """

    highest: int
    weight: int
    number: int
    evicted_last: int
    unreschedulable: int
    remaining_ready: int
    ages: tuple[int, ...]
    names: tuple[tuple[str, str], ...]


PriorityCost = tuple[int, int, int]
"""The first three fields of a ``Cost``, which follow from the priorities alone."""

Rank = tuple[int, int, int, tuple[int, ...], tuple[tuple[str, str], ...]]
"""The other fields of a ``Cost``."""


class VictimCosts:
    """The costs of sets of pods that run in a cluster state as it is: before the pod that needs capacity is placed."""

    def __init__(self, cluster_state: ClusterState, profiles: Profiles = DEFAULT_PROFILES) -> None:
        self._cluster_state, self._profiles = cluster_state, profiles
        self._fits: dict[str, bool] = {}
        self._by_free_cpu: t.Optional[tuple[list[int], list[str]]] = None
        self._with_capacity: dict[Requests, list[str]] = {}
        # By the common parts of pods: the nodes with the capacity, and the result of ``may_fit``.
        self._by_template: IdentityDict[tuple[list[str], bool]] = IdentityDict()
        self._evicted_last: dict[str, bool] = {}
        self._ready_of: dict[OwnerKey, int] = {}

    def cost_of(self, victims: Sequence[NodePod]) -> Cost:
        """Return the cost of evicting all these pods."""
        priorities = [node_pod.priority for node_pod in victims]
        weight = sum(priorities) + PRIORITY_OFFSET * len(victims)
        return Cost(max(priorities, default=NO_VICTIM), weight, len(victims), *self.rank_of(victims))

    def rank_of(self, victims: Sequence[NodePod]) -> Rank:
        """Return the fields of the cost from ``evicted_last`` on. The first four increase or stay the same with one more victim."""
        owners = [known.owner for known in victims if known.ready]
        keeps = [self._ready(known.owner) - owners.count(known.owner) if known.owner else 0 for known in victims]
        return (
            sum([self.is_evicted_last(known) for known in victims]),
            sum([not self.fits_elsewhere(known.pod) for known in victims]),
            -min(keeps, default=PRIORITY_OFFSET),
            tuple(sorted([known.age for known in victims], reverse=True)),
            tuple(sorted([known.name for known in victims])),
        )

    def remaining_ready(self, node_pod: NodePod) -> int:
        """Return the number of ready pods that its owner keeps if only this pod is evicted. Return 0 if it has no owner."""
        owner = node_pod.owner
        return (self._ready_of.get(owner) or self._ready(owner)) - node_pod.ready if owner else 0

    def eviction_order(self, node_pod: NodePod) -> tuple[t.Any, ...]:
        """Return a key that sorts pods for eviction: the pod with the lowest priority and cost comes first."""
        return node_pod.priority, self.is_evicted_last(node_pod), -self.remaining_ready(node_pod), node_pod.age, node_pod.name

    def is_evicted_last(self, node_pod: NodePod) -> bool:
        """Return whether the pod counts in ``Cost.evicted_last``, so that it is evicted last among pods of the same priority."""
        if not node_pod.may_be_last:
            return False
        pod, uid = node_pod.pod, node_pod.pod.metadata.uid
        if uid not in self._evicted_last:
            self._evicted_last[uid] = is_in_gang(pod) or self._in_job_that_counts(node_pod) or self._bound_to_node(pod)
        return self._evicted_last[uid]

    # --- pods that are evicted last ---

    def _in_job_that_counts(self, node_pod: NodePod) -> bool:
        job = self._cluster_state.snapshot.jobs.get(node_pod.owner) if node_pod.owner else None
        return is_controlled_by(node_pod.pod, "Job") and (job is None or not job.ignores_disruptions)

    def _bound_to_node(self, pod: Pod) -> bool:
        """Return whether the volume of a claim can be reached from no other node, or is not known."""
        snapshot, storage = self._cluster_state.snapshot, self._cluster_state.storage
        if not storage.was_read:
            return mounts_claims(pod)
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
        if owner not in self._ready_of:
            changed = self._cluster_state.changed_infos
            self._ready_of[owner] = sum(
                pod.ready
                and not pod.terminating
                and not pod.terminal
                and (pod.spec.node_name not in changed or pod_key(pod) in changed[pod.spec.node_name].pods)
                for pod in self._cluster_state.snapshot.pods_by_owner.get(owner, ())
            )
        return self._ready_of[owner]

    # --- replacements on other nodes ---

    def may_fit(self, pod: Pod) -> bool:
        """Return whether some node, perhaps its own, has the pod's requests free and passes the static filters of its replacement.

        Extended resources and the other filters are not checked. The result is computed once for all pods with the same parts.
        """
        return self._candidates(pod)[1]

    def fits_elsewhere(self, pod: Pod) -> bool:
        """Return whether some other node is surely feasible for the pod's replacement after the pod has been evicted."""
        uid = pod.metadata.uid
        if uid not in self._fits:
            self._fits[uid] = self._fits_elsewhere(pod)
        return self._fits[uid]

    def _fits_elsewhere(self, pod: Pod) -> bool:
        candidates, may_fit = self._candidates(pod)
        # The replacement of a resized pod has the requests from before the resize, which are not known.
        if pod.resized or not may_fit:
            return False
        replacement = _replacement(pod)
        runner = FilterRunner(replacement, self._cluster_state, self._profiles)
        if pod.spec.volumes or runner.topology_keys:  # whether it fits on another node may depend on the pod itself
            without = self._cluster_state.fork()
            without.remove(pod)
            runner = FilterRunner(replacement, without, self._profiles)
        others = (name for name in candidates if name != pod.spec.node_name)
        return not runner.unknown and not all(any(runner.run_filters(name)) for name in others)

    def _candidates(self, pod: Pod) -> tuple[list[str], bool]:
        """Return the nodes that have the pod's requests free, and whether one of them passes the static filters of its replacement."""
        key = template_key(pod)
        known = self._by_template.get(key)
        if known is not None:
            return known[1]
        profile = self._profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        # Extended resources, which a DeviceClass may offer, are left to the FilterRunner.
        requests = tuple((name, amount) for name, amount in asked_for(pod, profile) if "/" not in name)
        names, nodes = self._nodes_with_capacity(requests), self._cluster_state.snapshot.nodes
        checks = static_filters(_replacement(pod), profile)
        return self._by_template.keep(key, pod, (names, any(not any(check(nodes[name]) for check in checks) for name in names)))

    def _nodes_with_capacity(self, requests: Requests) -> list[str]:
        """Return the nodes that have the requests and a pod slot free; nodes with the most free cpu come first."""
        found = self._with_capacity.get(requests)
        if found is None:
            infos = self._cluster_state.info
            if self._by_free_cpu is None:
                of_nodes = [(name, infos(name)) for name in self._cluster_state.snapshot.nodes]
                free = sorted((info.allocatable.get(CPU, 0) - info.requested.get(CPU, 0), name) for name, info in of_nodes)
                self._by_free_cpu = [amount for amount, _name in free], [name for _amount, name in free]
            amounts, names = self._by_free_cpu
            first = bisect_left(amounts, requests[0][1]) if requests and requests[0][0] == CPU else 0
            found = self._with_capacity[requests] = [name for name in reversed(names[first:]) if has_free(infos(name), requests)]
        return found


def has_free(info: NodeInfo, requests: Requests) -> bool:
    """Return whether the node has these requests and a pod slot free."""
    offered, requested = info.allocatable, info.requested
    for name, amount in requests:
        if amount > offered.get(name, 0) - requested.get(name, 0):
            return False
    return len(info.pods) < info.allowed_pods


def template_key(pod: Pod) -> Hashable:
    """Return a key for an ``IdentityDict`` that is equal for pods whose requests, node rules and scheduler are the same objects.

    The pods of one template share their parts (``model/interning.py``).
    """
    spec = pod.spec
    parts = (spec.containers, spec.init_containers, spec.resources, spec.overhead, spec.node_selector, spec.affinity, spec.tolerations)
    return (*map(id, parts), id(spec.resource_claims), spec.host_network, spec.scheduler_name)


def _replacement(pod: Pod) -> Pod:
    """Return the pod that the controller would create as a replacement.

    It has no uid, so its own claims count as not created yet.
    """
    metadata = replace(pod.metadata, uid="", name=f"{pod.metadata.name}-replacement", deletion_timestamp=None)
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))
