# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The filters that apply to one pod, in the scheduler's order (kubernetes ``pkg/scheduler/framework/runtime/framework.go``)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterator, Sequence

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.codec import replace
from ..model.reason import PASSED, Reasons
from ..model.scheduler_profile import DEFAULT_PROFILE, Profiles
from .cluster_state import ClusterState
from .default_constraints import SPREAD, with_default_constraints
from .filter_cache import pod_signature
from .filters import (
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_ports,
    node_resources_fit,
    node_volume_limits,
    pod_topology_spread,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from .filters.interface import TopologyFilter
from .filters.spread_domains import SpreadDomains
from .node_info import NodeInfo
from .static_filters import static_filters
from .storage.pod_volumes import PodVolumes
from .storage.storage_index import StorageIndex
from .unknowns.pod import pod_unknowns, undecodable_pod_unknowns
from .unknowns.too_many_rules import without_excess_rules
from .unknowns.volumes import volume_unknowns

FilterResult = tuple[Reasons, Reasons]
"""The reasons that reject a node, and, if it is not rejected, the reasons why its result is uncertain."""

FEASIBLE: FilterResult = (PASSED, PASSED)


class Scope(enum.IntEnum):
    """The things that decide the result for a node now. Each one includes those before it."""

    NODE = 0
    """The node and its pods."""
    DOMAINS = 1
    """The pods in the domains of the node, too. Nodes that pass the node-local filters have the same result in the same domains."""
    CLUSTER = 2
    """Anything else about the node and the cluster, too: the result may be uncertain."""
    CLAIMS = 3
    """The claims of the pod, too. Other pods with the same requests can have other results, even on unchanged nodes."""


class PodFilters:
    """The filters for one pod, without those that do not apply to it.

    ``pod``: the pod with the default constraints of its profile. ``unknown``: the reasons why the results of all nodes are uncertain.
    ``rejected_everywhere``: the reasons that reject every node before any node is checked. ``topology``: the filters that count pods of
    other nodes. ``restrictions``: the filter that depends on the claims which other pods use, or None. ``signature``: pods with the same
    one have the same results of the node-local filters. It is None if the pod's volumes count.
    """

    def __init__(self, pod: Pod, cluster_state: ClusterState, profiles: Profiles) -> None:
        snapshot = cluster_state.snapshot
        profile = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        pod, without_selector = with_default_constraints(pod, profile, snapshot)
        spec, too_many = without_excess_rules(pod.spec)
        self.pod = pod = pod if spec is pod.spec else replace(pod, spec=spec)
        volumes = cluster_state.volumes_of(pod)
        self.unknown = (*pod_unknowns(pod, snapshot, volumes, profiles), *without_selector, *too_many)
        self.rejected_everywhere = _rejection_everywhere(pod, volumes)
        self._on_node = static_filters(pod, profile)
        self.restrictions = (
            None if volumes is None else volume_restrictions.pre_filter(volumes, cluster_state.claim_in_use, cluster_state.info)
        )
        devices = node_resources_fit.device_class_resources(pod, snapshot.device_classes)
        of_volumes = () if volumes is None else (self.restrictions, *_volume_filters(volumes, cluster_state.storage))
        ports = node_ports.pre_filter(pod) if profile.filters_by("NodePorts") else None
        node_info_filters = (ports, node_resources_fit.pre_filter(pod, profile, devices), *of_volumes)
        self._on_node_info = [filter_ for filter_ in node_info_filters if filter_ is not None]
        terms = cluster_state.affinity_terms
        topology_filters = (
            pod_topology_spread.pre_filter(pod, terms, cluster_state.shared(SpreadDomains)) if profile.filters_by(SPREAD) else None,
            inter_pod_affinity.pre_filter(pod, snapshot, terms) if profile.filters_by("InterPodAffinity") else None,
        )
        self.topology: list[TopologyFilter] = [filter_ for filter_ in topology_filters if filter_ is not None]
        self._features = node_declared_features.pre_filter(pod) if profile.filters_by("NodeDeclaredFeatures") else None
        unknowns = (
            node_resources_fit.device_unknowns(pod, snapshot.device_classes, profile, devices),
            None if volumes is None else volume_unknowns(volumes, cluster_state.storage, cluster_state.arrived_pods),
            undecodable_pod_unknowns(snapshot),
        )
        self._unknowns = [unknown for unknown in unknowns if unknown is not None]
        depends_on_volumes = bool(self.rejected_everywhere) or any(filter_ is not None for filter_ in of_volumes)
        self.signature: Hashable = None if depends_on_volumes else pod_signature(pod, profile, devices)
        self._has_volumes = volumes is not None

    def scope(self, active: Sequence[TopologyFilter]) -> Scope:
        """Return the scope of a result if these topology filters apply to the pod now."""
        if self.rejected_everywhere or self.restrictions is not None:
            return Scope.CLAIMS
        if self._features is not None or self._unknowns or any(filter_.may_be_unknown for filter_ in active):
            return Scope.CLUSTER
        return Scope.DOMAINS if active else Scope.NODE

    @property
    def depends_on_moves(self) -> bool:
        """True if each pod that moves can change the uncertain results of all nodes."""
        return bool(self._unknowns)

    @property
    def uses_cluster_state(self) -> bool:
        """True if some filters use the cluster state itself, so that a fork needs filters of its own."""
        return self._has_volumes and (bool(self.rejected_everywhere) or self.restrictions is not None or bool(self._unknowns))

    def rejection(self, info: NodeInfo) -> Reasons:
        """Return the reasons of the node-local filters: the first filter that rejects the node."""
        for on_node in self._on_node:
            reasons = on_node(info.node)
            if reasons:
                return reasons
        return self.rejection_by_pods(info)

    def rejection_by_pods(self, info: NodeInfo) -> Reasons:
        """Return the same for a node that the static filters allow."""
        for on_info in self._on_node_info:
            reasons = on_info(info)
            if reasons:
                return reasons
        return PASSED

    def result_among_others(self, info: NodeInfo, active: Sequence[TopologyFilter]) -> FilterResult:
        """Return the result for a node that passes the node-local filters. ``active``: the topology filters that apply to the pod."""
        node = info.node
        for filter_ in active:
            reasons = filter_.rejection(node)
            if reasons:
                return reasons, PASSED
        reasons = self._features(node) if self._features is not None else PASSED
        if reasons:
            return reasons, PASSED
        for filter_ in active:
            unknowns = filter_.unknown(node)
            if unknowns:
                return PASSED, unknowns
        if not self._unknowns:
            return FEASIBLE
        return PASSED, tuple(reason for unknown in self._unknowns for reason in unknown(info))


def _volume_filters(volumes: PodVolumes, storage: StorageIndex) -> Iterator[Callable[[NodeInfo], Reasons] | None]:
    """Yield the volume filters that depend only on the node, in the scheduler's order."""
    yield node_volume_limits.pre_filter(volumes.attachable, storage)
    yield _on_node_info(volume_binding.pre_filter(volumes.bound, volumes.delayed, storage))
    yield _on_node_info(volume_zone.pre_filter(volumes.zoned))


def _on_node_info(filter_: Callable[[Node], Reasons] | None) -> Callable[[NodeInfo], Reasons] | None:
    """Return the filter as one that takes a NodeInfo. It does not use the pods of the node."""
    return None if filter_ is None else lambda info: filter_(info.node)


def _rejection_everywhere(pod: Pod, volumes: PodVolumes | None) -> Reasons:
    """Return the reasons of a claim that reject every node before any node is checked (the scheduler's PreFilter)."""
    if volumes is None or not volumes.rejected or node_affinity.is_conflict(pod):
        return PASSED
    return volumes.rejected
