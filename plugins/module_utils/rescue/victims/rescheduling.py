# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Checks whether the replacement of an evicted pod could start on another node immediately."""

from __future__ import annotations

import typing as t
from bisect import bisect_left

from ...model.api.pod import Pod, PodStatus
from ...model.caches import IdentityDict
from ...model.codec import replace
from ...model.scheduler_profile import DEFAULT_PROFILE, DEFAULT_PROFILES, Profiles
from ...scheduler.affinity_term_index import required_anti_affinity, required_pod_affinity
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterRunner
from ...scheduler.filters.node_resources_fit import asked_for
from ...scheduler.pod_requests import CPU, POD_SLOTS
from ...scheduler.static_filters import static_filters

Requests = tuple[tuple[str, int], ...]


class ReschedulingCheck:
    """The capacity for replacements in a cluster state as it is: before the pod that needs capacity is placed."""

    def __init__(self, cluster_state: ClusterState, profiles: Profiles = DEFAULT_PROFILES) -> None:
        self._cluster_state = cluster_state
        self._profiles = profiles
        self._by_free_cpu: t.Optional[tuple[list[int], list[str]]] = None
        self._with_capacity: dict[Requests, list[str]] = {}
        # By the common parts of pods: the results of ``may_fit``.
        self._may_fit: IdentityDict[bool] = IdentityDict()
        # For pods without rules between pods, by their common parts: the first two nodes where they fit, or fewer if there are no more.
        self._feasible_nodes: IdentityDict[list[str]] = IdentityDict()
        self._requests: IdentityDict[Requests] = IdentityDict()

    def may_fit(self, pod: Pod) -> bool:
        """Return whether some node, perhaps its own, has the pod's requests free and passes the static filters of its replacement.

        Extended resources and the other filters are not checked. The result is computed once for all pods with the same parts.
        """
        spec = pod.spec
        parts = (spec.containers, spec.init_containers, spec.resources, spec.overhead, spec.node_selector, spec.affinity, spec.tolerations)
        key = (*map(id, parts), spec.scheduler_name)
        known = self._may_fit.get(key)
        if known is not None:
            return known[1]
        checks = static_filters(_replacement(pod), self._profiles.get(spec.scheduler_name, DEFAULT_PROFILE))
        nodes = map(self._cluster_state.snapshot.nodes.__getitem__, self._nodes_with_capacity(pod))
        return self._may_fit.keep(key, pod, any(not any(check(node) for check in checks) for node in nodes))

    def fits_elsewhere(self, pod: Pod) -> bool:
        """Return whether some other node is surely feasible for the pod's replacement after the pod has been evicted."""
        # The replacement of a resized pod has the requests from before the resize, which are not known.
        if pod.resized or not self.may_fit(pod):
            return False
        candidates = self._nodes_with_capacity(pod)
        spec = pod.spec
        if spec.volumes or self._depends_on_other_pods(pod):
            return self._fits_once_gone(pod, candidates)
        key = (
            pod.metadata.namespace,
            id(pod.metadata.labels),
            id(spec.containers),
            id(spec.init_containers),
            id(spec.node_selector),
            id(spec.affinity),
            id(spec.tolerations),
            id(spec.resource_claims),
            id(spec.overhead),
            id(spec.resources),
            spec.host_network,
            spec.scheduler_name,
            spec.priority,
        )
        known = self._feasible_nodes.get(key)
        names = known[1] if known is not None else self._feasible_nodes.keep(key, pod, self._first_takers(pod, candidates))
        return any(name != spec.node_name for name in names)

    def _first_takers(self, pod: Pod, candidates: list[str]) -> list[str]:
        runner = FilterRunner(_replacement(pod), self._cluster_state, self._profiles)
        takers: list[str] = []
        for name in candidates if not runner.unknown else ():
            if not any(runner.run_filters(name)):
                takers.append(name)
                if len(takers) == 2:
                    break
        return takers

    def _fits_once_gone(self, pod: Pod, candidates: list[str]) -> bool:
        without = self._cluster_state.fork()
        without.remove(pod)
        runner = FilterRunner(_replacement(pod), without, self._profiles)
        return not runner.unknown and any(name != pod.spec.node_name and not any(runner.run_filters(name)) for name in candidates)

    def _depends_on_other_pods(self, pod: Pod) -> bool:
        """Return whether other pods on one node, and so the pod itself, may affect whether its replacement fits on another node."""
        profile = self._profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        return bool(
            pod.spec.topology_spread_constraints
            or profile.default_constraints
            or required_pod_affinity(pod)
            or required_anti_affinity(pod)
            or self._cluster_state.affinity_terms.anti_affinity_terms_matching(pod, self._cluster_state.snapshot.namespaces)
        )

    def _nodes_with_capacity(self, pod: Pod) -> list[str]:
        """Return the nodes that have the pod's requests free; nodes with the most free cpu come first."""
        requests = self._requests_of(pod)
        found = self._with_capacity.get(requests)
        if found is None:
            amounts, names = self._nodes_by_free_cpu()
            wanted = dict(requests).get(CPU)
            first = bisect_left(amounts, wanted) if wanted is not None else 0
            found = self._with_capacity[requests] = [name for name in reversed(names[first:]) if self._has_free(name, requests)]
        return found

    def _has_free(self, name: str, requests: Requests) -> bool:
        info = self._cluster_state.info(name)
        offered, requested = info.allocatable, info.requested
        fits = all(amount <= offered.get(resource, 0) - requested.get(resource, 0) for resource, amount in requests)
        return fits and len(info.pods) < offered.get(POD_SLOTS, 0)

    def _nodes_by_free_cpu(self) -> tuple[list[int], list[str]]:
        if self._by_free_cpu is None:
            infos = ((name, self._cluster_state.info(name)) for name in self._cluster_state.snapshot.nodes)
            free = sorted((info.allocatable.get(CPU, 0) - info.requested.get(CPU, 0), name) for name, info in infos)
            self._by_free_cpu = [amount for amount, _name in free], [name for _amount, name in free]
        return self._by_free_cpu

    def _requests_of(self, pod: Pod) -> Requests:
        spec = pod.spec
        key = (id(spec.containers), id(spec.init_containers), id(spec.resources), id(spec.overhead), spec.scheduler_name)
        known = self._requests.get(key)
        if known is not None:
            return known[1]
        # Extended resources, which a DeviceClass may offer, are left to the FilterRunner.
        asked = asked_for(pod, self._profiles.get(spec.scheduler_name, DEFAULT_PROFILE))
        return self._requests.keep(key, pod, tuple((name, amount) for name, amount in asked if "/" not in name))


def _replacement(pod: Pod) -> Pod:
    """Return the pod that the controller would create as a replacement.

    It has no uid, so its own claims count as not created yet.
    """
    metadata = replace(pod.metadata, uid="", name=f"{pod.metadata.name}-replacement", deletion_timestamp=None)
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))
