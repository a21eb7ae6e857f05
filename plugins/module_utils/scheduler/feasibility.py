# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes on which the scheduler's filters allow a pod to run, and the reasons that reject the other nodes.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (findNodesThatFitPod) with the default plugins of 1.36.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass
from functools import partial

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.codec import replace
from ..model.identity_cache import IdentityDict
from ..model.reason import PASSED, Reason, Reasons
from ..model.scheduler_profile import DEFAULT_PROFILE, Profiles
from .cluster_state import ClusterState
from .default_constraints import SPREAD, with_default_constraints
from .domain_groups import DomainGroups
from .filter_cache import FilterCache, NodeLocalResult, SignatureResults, SnapshotResults, pod_signature
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
from .node_info import NodeInfo, PodLoad, pod_key
from .nominated_pods import NominatedPods, nominated_before
from .static_filters import static_filters
from .storage.pod_volumes import PodVolumes
from .storage.storage_index import StorageIndex
from .unknowns.pod import NOMINATED, pod_unknowns, undecodable_pod_unknowns
from .unknowns.too_many_rules import without_excess_rules
from .unknowns.volumes import volume_unknowns


@dataclass(frozen=True)
class Feasibility:
    """The nodes on which a pod can run.

    ``feasible``: node names in the order of the snapshot. ``rejected``: for each other node, all reasons of the first plugin that rejects
    it. ``unknown``: the reasons why the results of all nodes are uncertain; unless it is empty, ``feasible`` is an upper bound.
    ``unknown_nodes``: the nodes that pass every known filter, with the reasons why their result is uncertain. They are neither in
    ``feasible`` nor in ``rejected``.
    """

    feasible: tuple[str, ...]
    rejected: Mapping[str, Reasons]
    unknown: Reasons
    unknown_nodes: dict[str, Reasons]

    def counts(self) -> list[tuple[Reason, int]]:
        """Return the number of nodes that each reason rejects.

        The highest number comes first, then the order is by text, as in the scheduler's message.
        """
        counter = Counter(reason for reasons in self.rejected.values() for reason in reasons)
        return sorted(counter.items(), key=lambda item: (-item[1], item[0].text))


class LocalFeasibility(t.NamedTuple):
    """The nodes on which a pod can run, as what differs from the results of the node-local filters in the snapshot.

    ``passing``: the feasible nodes of the snapshot; pods with the same signature get the same tuple. ``closed``: the nodes that are
    rejected now, and were not or for other reasons. ``opened``: the nodes that are feasible now, and were not. ``unknown``: the nodes whose
    result is uncertain now.
    """

    passing: tuple[str, ...]
    closed: Mapping[str, Reasons]
    opened: AbstractSet[str]
    unknown: dict[str, Reasons]


def find_feasible(
    pod: Pod,
    cluster_state: ClusterState,
    *,
    node_names: Iterable[str] | None = None,
    profiles: Profiles | None = None,
) -> Feasibility:
    """Run the filters for the pod on every node, or on those of ``node_names`` that the snapshot has.

    The pod may be one that a template would create (``model.pod_template.pod_of_template``); its status does not count. ``profiles``: by
    default those of the snapshot. If the profile of the pod is not one of them, the default profile is used, and ``unknown`` contains a
    reason for that.
    Raise QuantityError, which names the object.
    """
    return FilterRunner(pod, cluster_state, profiles).feasibility(node_names)


FilterResult = tuple[Reasons, Reasons]
"""The reasons that reject a node, and, if it is not rejected, the reasons why its result is uncertain."""

FEASIBLE: FilterResult = (PASSED, PASSED)


class FilterRunner:
    """The filters for one pod in the scheduler's order, without those that do not apply to the pod.

    The results follow the changes of the cluster state. ``unknown`` is the same as in ``Feasibility``.
    """

    def __init__(self, pod: Pod, cluster_state: ClusterState, profiles: Profiles | None = None) -> None:
        snapshot = cluster_state.snapshot
        profiles = snapshot.profiles if profiles is None else profiles
        profile = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        self._requested = pod
        pod, without_selector = with_default_constraints(pod, profile, snapshot)
        spec, too_many = without_excess_rules(pod.spec)
        pod = pod if spec is pod.spec else replace(pod, spec=spec)
        volumes = cluster_state.volumes_of(pod)
        self.unknown = (*pod_unknowns(pod, snapshot, volumes, profiles), *without_selector, *too_many)
        self._pod, self._cluster_state, self._profiles = pod, cluster_state, profiles
        self._has_volumes = volumes is not None
        self._nodes, self._changed_infos = snapshot.nodes, cluster_state.changed_infos
        self._rejected_everywhere = _rejection_everywhere(pod, volumes)
        self._node_filters = static_filters(pod, profile)
        self._volume_restrictions = (
            None if volumes is None else volume_restrictions.pre_filter(volumes, cluster_state.claim_in_use, cluster_state.info)
        )
        devices = node_resources_fit.device_class_resources(pod, snapshot.device_classes)
        volume_filters = () if volumes is None else (self._volume_restrictions, *_volume_filters(volumes, cluster_state.storage))
        ports = node_ports.pre_filter(pod) if profile.filters_by("NodePorts") else None
        node_info_filters = (ports, node_resources_fit.pre_filter(pod, profile, devices), *volume_filters)
        self._node_info_filters = [filter_ for filter_ in node_info_filters if filter_ is not None]
        terms = cluster_state.affinity_terms
        topology_filters = (
            pod_topology_spread.pre_filter(pod, terms, cluster_state.shared(SpreadDomains)) if profile.filters_by(SPREAD) else None,
            inter_pod_affinity.pre_filter(pod, snapshot, terms) if profile.filters_by("InterPodAffinity") else None,
        )
        self._topology_filters: list[TopologyFilter] = [filter_ for filter_ in topology_filters if filter_ is not None]
        self._feature_filter = node_declared_features.pre_filter(pod) if profile.filters_by("NodeDeclaredFeatures") else None
        unknowns = (
            node_resources_fit.device_unknowns(pod, snapshot.device_classes, profile, devices),
            None if volumes is None else volume_unknowns(volumes, cluster_state.storage, cluster_state.arrived_pods),
            undecodable_pod_unknowns(snapshot),
        )
        self._unknown_checks = [unknown for unknown in unknowns if unknown is not None]
        # The results of the filters before the topology filters. They change only if the node itself changes, or if a ReadWriteOncePod
        # claim becomes used or free. Results that depend on the pod's claims are not shared with other pods.
        self._has_volume_filters = bool(self._rejected_everywhere) or any(filter_ is not None for filter_ in volume_filters)
        self._depends_on_claims = bool(self._rejected_everywhere) or self._volume_restrictions is not None
        self._local_results = (
            SignatureResults() if self._has_volume_filters else cluster_state.shared(FilterCache).of(pod_signature(pod, profile, devices))
        )
        # The results by node name. A changed count of a topology filter can change each of them.
        self._results: dict[str, FilterResult] = {}
        # The results of the node-local filters on a node without pods, by the node's allocatable.
        self._results_on_empty: IdentityDict[FilterResult] = IdentityDict()
        self._generation = 0
        self._applied = 0
        self._apply_changes()

    def on_fork(self, fork: ClusterState) -> FilterRunner:
        """Return the filters for the same pod on a fork of the cluster state, with the counts of this one."""
        # Some volume filters and unknown checks use the cluster state itself.
        if self._has_volumes and (self._depends_on_claims or self._unknown_checks):
            return FilterRunner(self._requested, fork, self._profiles)
        other = copy(self)
        other._cluster_state, other._changed_infos = fork, fork.changed_infos
        other._results = dict(self._results)
        other._topology_filters = [filter_.copy() for filter_ in self._topology_filters]
        other._active_filters = [filter_ for filter_ in other._topology_filters if filter_.is_active]
        return other

    def feasibility(self, node_names: Iterable[str] | None = None) -> Feasibility:
        """Return the results for every node, or for those of ``node_names`` that the snapshot has.

        For every node, or if ``node_names`` is a tuple of names that the snapshot has, in its order, the results on the unchanged nodes are
        computed once for all pods with the same signature.
        """
        self._update()
        names = node_names if isinstance(node_names, tuple) else self._cluster_state.in_order(node_names)
        if isinstance(names, tuple) and not self._depends_on_claims:
            return self._feasibility_from_snapshot(self._snapshot_results(names))
        return self._feasibility_of(self._cluster_state.in_order(names))

    def _feasibility_of(self, names: Iterable[str]) -> Feasibility:
        feasible: list[str] = []
        rejected: dict[str, Reasons] = {}
        unknown_nodes: dict[str, Reasons] = {}
        for name in names:
            reasons, unknowns = self.run_filters(name)
            if reasons:
                rejected[name] = reasons
            elif unknowns:
                unknown_nodes[name] = unknowns
            else:
                feasible.append(name)
        return Feasibility(tuple(feasible), rejected, self.unknown, unknown_nodes)

    def _feasibility_from_snapshot(self, on_snapshot: SnapshotResults) -> Feasibility:
        """Return the results on the nodes as they were read, corrected for the nodes whose results can differ now."""
        now = self._difference(on_snapshot)
        if not (now.closed or now.opened or now.unknown):
            return Feasibility(on_snapshot.passing, on_snapshot.rejected, self.unknown, {})
        rejected = {**on_snapshot.rejected, **now.closed}
        for name in (*now.opened, *now.unknown):
            rejected.pop(name, None)
        out = rejected.keys() | now.unknown.keys()
        return Feasibility(tuple(name for name in on_snapshot.names if name not in out), rejected, self.unknown, now.unknown)

    def local_feasibility(self, names: tuple[str, ...]) -> LocalFeasibility | None:
        """Return the results for these nodes as what differs from the snapshot. Return None if a result depends on other nodes.

        ``names``: as in ``passing_node_local_filters``.
        """
        self._update()
        if self._depends_on_claims or not self._only_node_local:
            return None
        return self._difference(self._snapshot_results(names))

    def _difference(self, on_snapshot: SnapshotResults) -> LocalFeasibility:
        """Return what differs on the nodes on which something has changed, and by the filters that depend on other nodes."""
        special = sorted(on_snapshot.members.intersection((*self._changed_infos, *self._nominated)))
        closed: dict[str, Reasons] = {}
        opened: set[str] = set()
        unknown: dict[str, Reasons] = {}
        others: tuple[str, ...] = on_snapshot.passing if not self._only_node_local else ()
        if others and self._is_decided_by_domains:
            for group in self._cluster_state.shared(DomainGroups).of(others, self.topology_keys):
                reasons, _unknowns = self._run_topology_filters(self._nodes[group[0]], self._active_filters, ())
                if reasons:
                    closed.update(dict.fromkeys(group, reasons))
            for name in special:
                closed.pop(name, None)
            others = ()
        for name in (*special, *others):
            reasons, unknowns = self.run_filters(name)
            if unknowns:
                unknown[name] = unknowns
            elif not reasons:
                if name in on_snapshot.rejected:
                    opened.add(name)
            elif on_snapshot.rejected.get(name) != reasons:
                closed[name] = reasons
        return LocalFeasibility(on_snapshot.passing, closed, opened, unknown)

    @property
    def _is_decided_by_domains(self) -> bool:
        """True if a node that passes the node-local filters has the same result as any other node in the same domains."""
        unsure = self._feature_filter or self._unknown_checks or any(filter_.may_be_unknown for filter_ in self._active_filters)
        return not unsure

    def _snapshot_results(self, names: tuple[str, ...]) -> SnapshotResults:
        return self._local_results.on_snapshot(
            names, lambda name: self._run_node_local_filters(self._nodes[name], self._cluster_state.snapshot_info(name))
        )

    def passing_node_local_filters(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the nodes that the node-local filters allow in the snapshot. Other nodes are closed unless something changes on them.

        ``names``: nodes that the snapshot has, in its order. Pods with the same signature get the same tuple.
        """
        return names if self._depends_on_claims else self._snapshot_results(names).passing

    @property
    def topology_keys(self) -> frozenset[str]:
        """The topology keys by which the topology filters may reject domains."""
        return frozenset(key for filter_ in self._topology_filters for key in filter_.topology_keys)

    def has_capacity_for(self, pods: int, names: tuple[str, ...]) -> bool:
        """Return whether this number of pods like this one surely fits on these nodes, one after the other.

        ``names``: as in ``passing_node_local_filters``. The result is also False if only a simulation can decide. A pod uses capacity on
        one node only. Topology filters that are not active stay inactive as long as only pods like this one are added.
        """
        self._update()
        if self._depends_on_claims or self._nominated or self.unknown or self._feature_filter or self._unknown_checks:
            return False
        passing, changed = self._snapshot_results(names).passing, len(self._changed_infos)
        if len(passing) - changed < pods or len(self._active_filters) > 1:
            return False
        by_domain = partial(self._cluster_state.shared(DomainGroups).by_domain, passing)
        return all(filter_.surely_allows(pods, len(passing), changed, by_domain) for filter_ in self._active_filters)

    def rejects_domain(self, topology_key: str, domain: str | None) -> bool:
        """Return whether a topology filter rejects all nodes of the domain now. None for ``domain`` means the nodes without the key."""
        self._update()
        return any(filter_.rejects_domain(topology_key, domain) for filter_ in self._active_filters)

    @property
    def generation(self) -> int:
        """A number that changes when the result may have changed for a node on which nothing has changed."""
        self._update()
        return self._generation

    def run_filters(self, name: str) -> FilterResult:
        """Return the result for a node that the snapshot has."""
        self._update()
        result = self._results.get(name)
        if result is None:
            result = self._results[name] = self._filter_node(name)
        return result

    def is_feasible(self, name: str, *, accept_unknown: bool) -> bool:
        """Return whether the pod can run on a node that the snapshot has. ``accept_unknown``: an uncertain result counts as feasible."""
        reasons, unknowns = self.run_filters(name)
        return not reasons and (accept_unknown or not unknowns)

    def feasibility_test(self, names: tuple[str, ...], *, accept_unknown: bool) -> Callable[[str], bool]:
        """Return a function that does the same as ``is_feasible`` for these nodes, until the cluster state changes. It is faster for many.

        ``names``: as in ``passing_node_local_filters``.
        """
        self._update()
        if self._depends_on_claims or self._only_node_local or not self._is_decided_by_domains:
            return partial(self.is_feasible, accept_unknown=accept_unknown)
        groups, closed = self._cluster_state.shared(DomainGroups), set(self._snapshot_results(names).rejected)
        for filter_ in self._active_filters:
            domains_by_key = filter_.closed_domains()
            if domains_by_key is None:
                by_domains = groups.of(names, frozenset(filter_.topology_keys))
                if len(by_domains) == len(names):
                    return partial(self.is_feasible, accept_unknown=accept_unknown)
                closed.update(*(group for group in by_domains if filter_.rejection(self._nodes[group[0]])))
                continue
            for key, domains in domains_by_key.items():
                by_domain = groups.by_domain(names, key)
                for domain in domains:
                    closed.update(by_domain.get(domain, ()))
        special = self._nominated.keys() | self._changed_infos.keys()

        def is_feasible(name: str) -> bool:
            return self.is_feasible(name, accept_unknown=accept_unknown) if name in special else name not in closed

        return is_feasible

    def result_without_pods(self, name: str, gone: Iterable[Pod]) -> FilterResult | None:
        """Return the result for a node that the snapshot has, if these pods of it are removed.

        Return None if the result depends on more than the pods that stay on the node. Then use a cluster state without the pods.
        """
        self._update()
        if self._has_volume_filters or self._feature_filter or self._unknown_checks or name in self._nominated:
            return None
        active, node, info = self._active_filters, self._nodes[name], self._cluster_state.info(name)
        if any(filter_.may_be_unknown for filter_ in active):
            return None
        keys = set(map(pod_key, gone))
        reasons = self._run_node_local_filters(node, info.without_pods(keys))
        there = [info.pods[key][0] for key in keys if key in info.pods] if active and not reasons else []
        for filter_ in active if not reasons else ():
            reasons = reasons or filter_.rejection_without_pods(node, there)
        return reasons, PASSED

    def always_rejects(self, name: str, leaving: Sequence[Pod]) -> bool:
        """Return whether a topology filter surely rejects the node, whichever of these pods are removed.

        The snapshot has the node, and the pods are on it.
        """
        self._update()
        return any(filter_.always_rejects(self._nodes[name], leaving) for filter_ in self._active_filters)

    def result_on_empty_node(self, name: str) -> FilterResult | None:
        """Return the result for a node without any pods. The static filters must allow the node.

        Return None in the same cases as ``result_without_pods``.
        """
        self._update()
        if self._has_volume_filters or not self._only_node_local or name in self._nominated:
            return None
        # On a node without pods the other filters depend only on its allocatable. Equal nodes share it.
        allocatable = self._cluster_state.snapshot_info(name).allocatable
        known = self._results_on_empty.get(id(allocatable))
        if known is not None:
            return known[1]
        empty = NodeInfo.build(self._nodes[name], allocatable, {})
        reasons = next(filter(None, (filter_(empty) for filter_ in self._node_info_filters)), PASSED)
        return self._results_on_empty.keep(id(allocatable), allocatable, (reasons, PASSED))

    def _update(self) -> None:
        if self._applied != len(self._cluster_state.changes):
            self._apply_changes()

    def _apply_changes(self) -> None:
        changes = self._cluster_state.changes[self._applied :]
        self._applied += len(changes)
        for change in changes:
            self._results.pop(change.node_name, None)
        if self._volume_restrictions is not None and self._volume_restrictions.refresh():
            self._local_results.by_node.clear()
            self._clear_results()
        # Each moved pod can change the unknown reasons of all nodes.
        counted = [filter_.apply_changes(changes) for filter_ in self._topology_filters]
        if True in counted or (changes and self._unknown_checks):
            self._clear_results()
        self._active_filters = [filter_ for filter_ in self._topology_filters if filter_.is_active]
        self._only_node_local = not (self._active_filters or self._feature_filter or self._unknown_checks)
        cluster_state = self._cluster_state
        self._nominated = nominated_before(self._pod, cluster_state.nominated_pods(), self._profiles, cluster_state.priority_of_class)

    def _clear_results(self) -> None:
        self._results.clear()
        self._generation += 1

    def _filter_node(self, name: str) -> FilterResult:
        if self._rejected_everywhere:
            return self._rejected_everywhere, PASSED
        node = self._nodes[name]
        if name in self._nominated:
            return self._result_with_nominated_pods(self._nominated[name], node)
        changed = self._changed_infos.get(name)
        known = self._local_results.by_node.get(name)
        if known is None or known.changed_info is not changed:
            known = self._local_results.by_node[name] = NodeLocalResult(changed, self._run_node_local_filters_with(node, ()))
        reasons = known.reasons
        if reasons:
            return reasons, PASSED
        return FEASIBLE if self._only_node_local else self._run_topology_filters(node, self._active_filters, ())

    def _result_with_nominated_pods(self, before: NominatedPods, node: Node) -> FilterResult:
        """Return the result for a node for which other pods are nominated.

        The pod must fit both with these pods and without them, because they may never be bound.
        """
        reasons, unknowns = self._result_beside(before.sure, node) if before.sure else FEASIBLE
        if reasons:
            return reasons, PASSED
        reasons, more_unknowns = self._result_beside((), node)
        if reasons:
            return reasons, PASSED
        if before.possible and any(self._result_beside((*before.sure, *before.possible), node)):
            return PASSED, NOMINATED
        return PASSED, unknowns or more_unknowns

    def _result_beside(self, nominated: Sequence[Pod], node: Node) -> FilterResult:
        reasons = self._run_node_local_filters_with(node, nominated)
        if reasons:
            return reasons, PASSED
        topology_filters = self._active_filters
        if nominated:
            topology_filters = [filter_.with_nominated_pods(nominated, node.name) for filter_ in topology_filters]
        return self._run_topology_filters(node, topology_filters, nominated)

    def _run_node_local_filters_with(self, node: Node, nominated: Sequence[Pod]) -> Reasons:
        return self._run_node_local_filters(
            node, self._info_with(node, nominated) if nominated else self._cluster_state.info(node.metadata.name)
        )

    def _run_node_local_filters(self, node: Node, info: NodeInfo) -> Reasons:
        for on_node in self._node_filters:
            reasons = on_node(node)
            if reasons:
                return reasons
        for on_info in self._node_info_filters:
            reasons = on_info(info)
            if reasons:
                return reasons
        return PASSED

    def _info_with(self, node: Node, nominated: Sequence[Pod]) -> NodeInfo:
        info = self._cluster_state.info(node.name)
        for pod in nominated:
            info = info.with_pod(pod_key(pod), pod, PodLoad.of(pod))
        return info

    def _run_topology_filters(self, node: Node, topology_filters: Sequence[TopologyFilter], nominated: Sequence[Pod]) -> FilterResult:
        for filter_ in topology_filters:
            reasons = filter_.rejection(node)
            if reasons:
                return reasons, PASSED
        reasons = self._feature_filter(node) if self._feature_filter is not None else PASSED
        if reasons:
            return reasons, PASSED
        for filter_ in topology_filters:
            unknowns = filter_.unknown(node)
            if unknowns:
                return PASSED, unknowns
        if not self._unknown_checks:
            return FEASIBLE
        info = self._info_with(node, nominated)
        return PASSED, tuple(reason for unknown in self._unknown_checks for reason in unknown(info))


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
