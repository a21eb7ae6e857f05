# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes on which the scheduler's filters allow a pod to run, and the reasons that reject the other nodes.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (findNodesThatFitPod) with the default plugins of 1.36.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass
from functools import partial

from ..model.api.pod import Pod
from ..model.caches import IdentityDict
from ..model.reason import PASSED, Reason, Reasons
from ..model.scheduler_profile import Profiles
from .cluster_state import ClusterState
from .domain_groups import DomainGroups
from .filter_cache import FilterCache, NodeLocalResult, SignatureResults, SnapshotResults
from .node_info import NodeInfo, PodLoad, pod_key
from .nominated_pods import NominatedPods, nominated_before
from .pod_filters import FEASIBLE, FilterResult, PodFilters, Scope
from .unknowns.pod import NOMINATED


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


class FilterRunner:
    """The results of the filters for one pod on the nodes of a cluster state. They follow its changes.

    ``unknown`` is the same as in ``Feasibility``. A result is computed again only if something has changed on which it depends (``Scope``).
    """

    def __init__(self, pod: Pod, cluster_state: ClusterState, profiles: Profiles | None = None) -> None:
        self._profiles = cluster_state.snapshot.profiles if profiles is None else profiles
        self._requested, self._cluster_state = pod, cluster_state
        self._filters = filters = PodFilters(pod, cluster_state, self._profiles)
        self.unknown = filters.unknown
        self._changed_infos = cluster_state.changed_infos
        # The results of the node-local filters. Pods whose volumes count share them with no other pod.
        signature = filters.signature
        self._local_results = SignatureResults() if signature is None else cluster_state.shared(FilterCache).of(signature)
        self._topology_filters = filters.topology
        # The results by node name. A changed count of a topology filter can change each of them.
        self._results: dict[str, FilterResult] = {}
        # The results on a node without pods, by the node's allocatable. Equal nodes share it.
        self._results_on_empty: IdentityDict[FilterResult] = IdentityDict()
        self._generation = 0
        self._applied = 0
        self._apply_changes()

    def on_fork(self, fork: ClusterState) -> FilterRunner:
        """Return the filters for the same pod on a fork of the cluster state, with the counts of this one."""
        if self._filters.uses_cluster_state:
            return FilterRunner(self._requested, fork, self._profiles)
        other = copy(self)
        other._cluster_state, other._changed_infos = fork, fork.changed_infos
        other._results = dict(self._results)
        other._topology_filters = [filter_.copy() for filter_ in self._topology_filters]
        other._active_filters = [filter_ for filter_ in other._topology_filters if filter_.is_active]
        return other

    # --- the results ------------------------------------------------------------------------------------------------------

    def feasibility(self, node_names: Iterable[str] | None = None) -> Feasibility:
        """Return the results for every node, or for those of ``node_names`` that the snapshot has.

        For every node, or if ``node_names`` is a tuple of names that the snapshot has, in its order, the results on the unchanged nodes are
        computed once for all pods with the same signature.
        """
        self._update()
        names = node_names if isinstance(node_names, tuple) else self._cluster_state.in_order(node_names)
        if isinstance(names, tuple) and self._scope is not Scope.CLAIMS:
            return self._feasibility_from_snapshot(self._snapshot_results(names))
        return self._feasibility_of(self._cluster_state.in_order(names))

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

    @property
    def generation(self) -> int:
        """A number that changes when the result may have changed for a node on which nothing has changed."""
        self._update()
        return self._generation

    @property
    def topology_keys(self) -> frozenset[str]:
        """The topology keys by which the topology filters may reject domains."""
        return frozenset(key for filter_ in self._topology_filters for key in filter_.topology_keys)

    # --- the same results for many nodes ------------------------------------------------------------------------------------
    #
    # Simulated restarts among 3,000 nodes would take two to seven times as long without any one of these.

    def local_feasibility(self, names: tuple[str, ...]) -> LocalFeasibility | None:
        """Return the results for these nodes as what differs from the snapshot. Return None if a result depends on other nodes.

        ``names``: nodes that the snapshot has, in its order. Pods with the same signature get the same tuple.
        """
        self._update()
        return self._difference(self._snapshot_results(names)) if self._scope is Scope.NODE else None

    def feasibility_test(self, names: tuple[str, ...], *, accept_unknown: bool) -> Callable[[str], bool]:
        """Return a function that does the same as ``is_feasible`` for these nodes, until the cluster state changes.

        ``names``: as in ``local_feasibility``.
        """
        self._update()
        if self._scope is not Scope.DOMAINS:
            return partial(self.is_feasible, accept_unknown=accept_unknown)
        nodes, groups, closed = self._cluster_state.snapshot.nodes, self._domain_groups, set(self._snapshot_results(names).rejected)
        for filter_ in self._active_filters:
            domains_by_key = filter_.closed_domains()
            if domains_by_key is None:
                by_domains = groups.of(names, frozenset(filter_.topology_keys))
                if len(by_domains) == len(names):
                    return partial(self.is_feasible, accept_unknown=accept_unknown)
                closed.update(*(group for group in by_domains if filter_.rejection(nodes[group[0]])))
                continue
            for key, domains in domains_by_key.items():
                by_domain = groups.by_domain(names, key)
                for domain in domains:
                    closed.update(by_domain.get(domain, ()))
        special = self._nominated.keys() | self._changed_infos.keys()

        def is_feasible(name: str) -> bool:
            return self.is_feasible(name, accept_unknown=accept_unknown) if name in special else name not in closed

        return is_feasible

    def has_capacity_for(self, pods: int, names: tuple[str, ...]) -> bool:
        """Return whether this number of pods like this one surely fits on these nodes, one after the other.

        ``names``: as in ``local_feasibility``. The result is also False if only a simulation can decide. A pod uses capacity on one node
        only. Topology filters that are not active stay inactive as long as only pods like this one are added.
        """
        self._update()
        if self._scope > Scope.DOMAINS or self._nominated or self.unknown:
            return False
        passing, changed = self._snapshot_results(names).passing, len(self._changed_infos)
        if len(passing) - changed < pods or len(self._active_filters) > 1:
            return False
        by_domain = partial(self._domain_groups.by_domain, passing)
        return all(filter_.surely_allows(pods, len(passing), changed, by_domain) for filter_ in self._active_filters)

    def passing_node_local_filters(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the nodes that the node-local filters allow in the snapshot. Other nodes are closed unless something changes on them.

        ``names``: as in ``local_feasibility``.
        """
        return names if self._scope is Scope.CLAIMS else self._snapshot_results(names).passing

    def rejects_domain(self, topology_key: str, domain: str | None) -> bool:
        """Return whether a topology filter rejects all nodes of the domain now. None for ``domain`` means the nodes without the key."""
        self._update()
        return any(filter_.rejects_domain(topology_key, domain) for filter_ in self._active_filters)

    # --- without some pods of the node --------------------------------------------------------------------------------------

    def result_without_pods(self, name: str, gone: Iterable[Pod]) -> FilterResult | None:
        """Return the result for a node that the snapshot has, if these pods of it are removed.

        Return None if the result depends on more than the pods that stay on the node. Then use a cluster state without the pods, which
        takes about twice as long.
        """
        self._update()
        if self._filters.signature is None or self._scope > Scope.DOMAINS or name in self._nominated:
            return None
        info = self._cluster_state.info(name)
        keys = set(map(pod_key, gone))
        reasons = self._filters.rejection(info.without_pods(keys))
        if reasons or not self._active_filters:
            return reasons, PASSED
        there = [info.pods[key][0] for key in keys if key in info.pods]
        return next(filter(None, (one.rejection_without_pods(info.node, there) for one in self._active_filters)), PASSED), PASSED

    def always_rejects(self, name: str, leaving: Sequence[Pod]) -> bool:
        """Return whether a topology filter surely rejects the node, whichever of these pods are removed.

        The snapshot has the node, and the pods are on it.
        """
        self._update()
        node = self._cluster_state.snapshot.nodes[name]
        return any(filter_.always_rejects(node, leaving) for filter_ in self._active_filters)

    def result_on_empty_node(self, name: str) -> FilterResult | None:
        """Return the result for a node without any pods. The static filters must allow the node.

        Return None if the result depends on more than the node. The result is computed once for all nodes with the same allocatable, so
        that a pod which fits on no node costs little on each of them.
        """
        self._update()
        if self._filters.signature is None or self._scope is not Scope.NODE or name in self._nominated:
            return None
        known = self._cluster_state.snapshot_info(name)
        result = self._results_on_empty.get(id(known.allocatable))
        if result is not None:
            return result[1]
        reasons = self._filters.rejection_by_pods(NodeInfo.build(known.node, known.allocatable, {}))
        return self._results_on_empty.keep(id(known.allocatable), known.allocatable, (reasons, PASSED))

    # --- how the results are computed ---------------------------------------------------------------------------------------

    @property
    def _domain_groups(self) -> DomainGroups:
        return self._cluster_state.shared(DomainGroups)

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

    def _difference(self, on_snapshot: SnapshotResults) -> LocalFeasibility:
        """Return what differs on the nodes on which something has changed, and by the filters that depend on other nodes."""
        special = sorted(on_snapshot.members.intersection((*self._changed_infos, *self._nominated)))
        closed: dict[str, Reasons] = {}
        opened: set[str] = set()
        unknown: dict[str, Reasons] = {}
        if self._scope is Scope.DOMAINS:
            for group in self._domain_groups.of(on_snapshot.passing, self.topology_keys):
                info = self._cluster_state.info(group[0])
                reasons, _unknowns = self._filters.result_among_others(info, self._active_filters)
                if reasons:
                    closed.update(dict.fromkeys(group, reasons))
            for name in special:
                closed.pop(name, None)
        for name in (*special, *(on_snapshot.passing if self._scope is Scope.CLUSTER else ())):
            reasons, unknowns = self.run_filters(name)
            if unknowns:
                unknown[name] = unknowns
            elif not reasons:
                if name in on_snapshot.rejected:
                    opened.add(name)
            elif on_snapshot.rejected.get(name) != reasons:
                closed[name] = reasons
        return LocalFeasibility(on_snapshot.passing, closed, opened, unknown)

    def _snapshot_results(self, names: tuple[str, ...]) -> SnapshotResults:
        return self._local_results.on_snapshot(names, lambda name: self._filters.rejection(self._cluster_state.snapshot_info(name)))

    def _update(self) -> None:
        if self._applied != len(self._cluster_state.changes):
            self._apply_changes()

    def _apply_changes(self) -> None:
        filters, cluster_state = self._filters, self._cluster_state
        changes = cluster_state.changes[self._applied :]
        self._applied += len(changes)
        for change in changes:
            self._results.pop(change.node_name, None)
        if filters.restrictions is not None and filters.restrictions.refresh():
            self._local_results.by_node.clear()
            self._clear_results()
        counted = [filter_.apply_changes(changes) for filter_ in self._topology_filters]
        if True in counted or (changes and filters.depends_on_moves):
            self._clear_results()
        self._active_filters = [filter_ for filter_ in self._topology_filters if filter_.is_active]
        self._scope = filters.scope(self._active_filters)
        self._nominated = nominated_before(filters.pod, cluster_state.nominated_pods(), self._profiles, cluster_state.priority_of_class)

    def _clear_results(self) -> None:
        self._results.clear()
        self._generation += 1

    def _filter_node(self, name: str) -> FilterResult:
        filters = self._filters
        if filters.rejected_everywhere:
            return filters.rejected_everywhere, PASSED
        if name in self._nominated:
            return self._result_with_nominated_pods(self._nominated[name], name)
        changed, known = self._changed_infos.get(name), self._local_results.by_node.get(name)
        if known is None or known.changed_info is not changed:
            reasons = filters.rejection(self._cluster_state.info(name))
            known = self._local_results.by_node[name] = NodeLocalResult(changed, reasons)
        if known.reasons:
            return known.reasons, PASSED
        if self._scope is Scope.NODE:
            return FEASIBLE
        return filters.result_among_others(self._cluster_state.info(name), self._active_filters)

    def _result_with_nominated_pods(self, before: NominatedPods, name: str) -> FilterResult:
        """Return the result for a node for which other pods are nominated.

        The pod must fit both with these pods and without them, because they may never be bound.
        """
        reasons, unknowns = self._result_beside(before.sure, name) if before.sure else FEASIBLE
        if reasons:
            return reasons, PASSED
        reasons, more_unknowns = self._result_beside((), name)
        if reasons:
            return reasons, PASSED
        if before.possible and any(self._result_beside((*before.sure, *before.possible), name)):
            return PASSED, NOMINATED
        return PASSED, unknowns or more_unknowns

    def _result_beside(self, nominated: Sequence[Pod], name: str) -> FilterResult:
        info = self._cluster_state.info(name)
        for pod in nominated:
            info = info.with_pod(pod_key(pod), pod, PodLoad.of(pod))
        reasons = self._filters.rejection(info)
        if reasons:
            return reasons, PASSED
        active = self._active_filters
        return self._filters.result_among_others(
            info, [filter_.with_nominated_pods(nominated, name) for filter_ in active] if nominated else active
        )
