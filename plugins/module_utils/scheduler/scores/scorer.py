# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of the nodes on which a pod can run.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (prioritizeNodes) and ``pkg/scheduler/framework/runtime/framework.go``
(RunScorePlugins) with the plugins of 1.36. Two plugins score in another way before 1.36.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass

from ...model.api.pod import Pod
from ...model.codec import replace
from ...model.reason import Reasons
from ...model.scheduler_profile import DEFAULT_PROFILE, Profiles, SchedulerProfile
from ..cluster_state import ClusterState
from ..default_constraints import SPREAD, scored_constraints
from ..filters.spread_domains import SpreadDomains
from ..node_info import NodeInfo
from ..pod_requests import pod_requests, requests_for_score
from ..unknowns.scores import score_unknowns
from ..unknowns.too_many_rules import without_excess_rules
from . import node_affinity, pod_topology_spread, taint_toleration
from .dynamic_resources import DYNAMIC_RESOURCES, claim_score_unknowns
from .image_locality import DIFFERENT_SIZES, ImageIndex, ImageLocalityScore, ImageSize
from .inter_pod_affinity import HostIndex, InterPodAffinityScore
from .interface import RelativeScore
from .node_classes import ClassCache, CommonClasses, NodeClass
from .node_resources_balanced_allocation import balance_formula, balance_formula_before_1_36
from .node_resources_fit import strategy_formula
from .resource_allocation import AllocationScore
from .volume_binding import VOLUME_BINDING, volume_score_unknowns

FIT = "NodeResourcesFit"
BALANCED = "NodeResourcesBalancedAllocation"
IMAGES = "ImageLocality"
AFFINITY = "InterPodAffinity"

SCORE_WITHOUT_PLUGINS = 1
"""The total score of each node if the profile has no score plugins."""


@dataclass(frozen=True)
class NodeScores:
    """The scores of the feasible nodes for a pod.

    ``totals``: the total score by node name. It is empty if it is not known. ``by_plugin``: for each plugin whose scores are known, its
    scores by node name, with its weight. A plugin that does not apply to the pod is not in it. ``unknown``: the reasons why the totals are
    not known.
    """

    totals: Mapping[str, int]
    by_plugin: Mapping[str, Mapping[str, int]]
    unknown: Reasons


class Scorer:
    """The score plugins of one pod. The scores follow the changes of the cluster state.

    Nodes with equal classes (``NodeClass``) have equal scores. If a pod is added to a node or removed from it, only the class of this node
    changes. ``image_size``: as ``size`` of ImageLocalityScore. Raise QuantityError, which names the object.
    """

    def __init__(
        self, pod: Pod, cluster_state: ClusterState, profiles: Profiles | None = None, *, image_size: ImageSize | None = None
    ) -> None:
        snapshot = cluster_state.snapshot
        profiles = snapshot.profiles if profiles is None else profiles
        profile = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
        spec, too_many = without_excess_rules(pod.spec)
        self._pod = pod = pod if spec is pod.spec else replace(pod, spec=spec)
        self._cluster_state = cluster_state
        self._changed_infos = cluster_state.changed_infos
        self._settings = profile.scores
        self._is_before_1_36 = snapshot.is_before_kubernetes(36)
        self._weights = dict(profile.scores.weights)
        self._unknown = (*score_unknowns(pod, snapshot, profiles), *too_many)
        self._unknown_plugins: dict[str, Reasons] = {}
        for plugin, reasons in (
            (DYNAMIC_RESOURCES, claim_score_unknowns(pod)),
            (VOLUME_BINDING, volume_score_unknowns(pod, profile.scores)),
        ):
            if reasons and plugin in self._weights:
                self._unknown_plugins[plugin] = reasons
        self._allocations = self._allocation_scores()
        checks = {plugin: score.device_unknowns(snapshot.device_classes) for plugin, score in self._allocations.items()}
        self._unknown_checks = {plugin: check for plugin, check in checks.items() if check is not None}
        self._images: ImageLocalityScore | None = None
        if IMAGES in self._weights:
            index = cluster_state.shared(ImageIndex)
            self._images = ImageLocalityScore(pod, index, counts_volumes=not self._is_before_1_36, size=image_size)
        if self._images is not None and self._images.unknown:
            self._unknown_plugins[IMAGES] = self._images.unknown
        self._relative = self._relative_scores(profile)
        # The classes of nodes that differ from the common ones, each with the NodeInfo for which it was computed.
        self._own_classes: dict[str, tuple[NodeInfo, NodeClass]] = {}
        self._common = self._common_classes()
        self._counted_nodes = self._find_counted_nodes()
        self._applied = 0
        self._apply_changes()

    def on_fork(self, fork: ClusterState) -> Scorer:
        """Return the scores for the same pod on a fork of the cluster state, with the counts of this one."""
        other = copy(self)
        other._cluster_state, other._changed_infos = fork, fork.changed_infos
        other._relative = {name: plugin.copy() for name, plugin in self._relative.items()}
        affinity = other._relative.get(AFFINITY)
        other._affinity = affinity if isinstance(affinity, InterPodAffinityScore) else None
        other._unknown_plugins = dict(self._unknown_plugins)
        other._own_classes = dict(self._own_classes)
        return other

    # --- scores ---

    def scores(self, feasible: Iterable[str]) -> NodeScores:
        """Return the scores of the feasible nodes, which the snapshot has. The scheduler does not score a single feasible node."""
        names = tuple(feasible)
        unknown = self.unknown(names)
        if self._unknown:
            return NodeScores({}, {}, unknown)
        by_plugin: dict[str, Mapping[str, int]] = {
            plugin: {name: self._weights[plugin] * score(self._cluster_state.info(name)) for name in names}
            for plugin, score in self._allocations.items()
        }
        if self._images is not None:
            by_plugin[IMAGES] = {name: self._weights[IMAGES] * self._images.by_node.get(name, 0) for name in names}
        classes = {name: self.node_class(name) for name in names}
        nodes = Counter(classes.values())
        for number, (plugin, relative) in enumerate(self._relative.items()):
            scores = relative.scores(_part_counts(nodes, number))
            by_plugin[plugin] = {name: self._weights[plugin] * scores[one.parts[number]] for name, one in classes.items()}
        for plugin in self._uncertain_plugins(names):
            by_plugin.pop(plugin, None)
        totals = {} if unknown else self.class_totals(nodes)
        return NodeScores({name: totals[one] for name, one in classes.items()} if totals else {}, by_plugin, unknown)

    def best(self, feasible: Iterable[str]) -> tuple[str, ...]:
        """Return the feasible nodes with the highest total score, always in the same order. The scheduler chooses one of them.

        The result is correct only if ``unknown`` returns no reason for these nodes. A call with the same tuple as before, also for another
        pod with equal requests, takes time only for the nodes that have changed.
        """
        self._update()
        groups = self._common.groups(tuple(feasible), self._common_class)
        own = {name: self._own_class(name) for name in self._special_nodes() & groups.members}
        sizes, common = dict(groups.sizes), self._common.by_node
        incomplete = {common[name] for name in own}
        for name, one in own.items():
            sizes[common[name]] -= 1
            sizes[one] = sizes.get(one, 0) + 1
        totals = self.class_totals({one: size for one, size in sizes.items() if size})
        highest = max(totals.values(), default=0)
        found = sorted(name for name, one in own.items() if totals[one] == highest)
        for one in groups.sizes:
            if totals.get(one) == highest:
                names = groups.names_of(one)
                found += [name for name in names if name not in own] if one in incomplete else names
        return tuple(found)

    def unknown(self, feasible: Iterable[str] = ()) -> Reasons:
        """Return the reasons why the total scores of these nodes are not known."""
        self._update()
        names = tuple(feasible)
        reasons = [*self._unknown, *(reason for some in self._unknown_plugins.values() for reason in some)]
        for check in self._unknown_checks.values():
            reasons += [reason for name in names for reason in check(self._cluster_state.info(name))]
        if self._images is not None and self._images.unknown_nodes and not self._images.unknown_nodes.isdisjoint(names):
            reasons += DIFFERENT_SIZES
        return tuple(dict.fromkeys(reasons))

    # --- classes of nodes ---

    def node_class(self, name: str) -> NodeClass:
        """Return the class of a node that the snapshot has.

        It changes if a pod is added to the node or removed from it. In rare cases the classes of all nodes change.
        """
        self._update()
        is_special = name in self._counted_nodes or name in self._changed_infos
        return self._own_class(name) if is_special else self._common_class(name)

    def class_totals(self, nodes: Mapping[NodeClass, int]) -> dict[NodeClass, int]:
        """Return the total score of the feasible nodes by class. ``nodes``: the number of feasible nodes of each class."""
        self._update()
        if not self._weights:
            return dict.fromkeys(nodes, SCORE_WITHOUT_PLUGINS)
        totals = {one: one.local for one in nodes}
        for number, (plugin, relative) in enumerate(self._relative.items()):
            weight, scores = self._weights[plugin], relative.scores(_part_counts(nodes, number))
            for one in totals:
                totals[one] += weight * scores[one.parts[number]]
        return totals

    def _special_nodes(self) -> AbstractSet[str]:
        """Return the nodes whose class may differ from the common one."""
        return self._counted_nodes.union(self._changed_infos)

    def _own_class(self, name: str) -> NodeClass:
        info = self._cluster_state.info(name)
        known = self._own_classes.get(name)
        if known is None or known[0] is not info:
            parts = tuple([plugin.node_part(info.node) for plugin in self._relative.values()])
            local = self._allocation_score(info)
            if self._images is not None:
                local += self._weights[IMAGES] * self._images.by_node.get(name, 0)
            known = self._own_classes[name] = (info, NodeClass(local, parts))
        return known[1]

    def _common_class(self, name: str) -> NodeClass:
        known = self._common.by_node.get(name)
        if known is None:
            info = self._cluster_state.snapshot_info(name)
            parts = self._common.parts.get(name)
            if parts is None:
                parts = tuple([plugin.part_without_pods(info.node) for plugin in self._relative.values()])
                self._common.parts[name] = parts
            known = self._common.add(name, NodeClass(self._allocation_score(info), parts))
        return known

    def _common_classes(self) -> CommonClasses:
        allocations = tuple((plugin, self._weights[plugin], score.resources) for plugin, score in self._allocations.items())
        relative = tuple((plugin, score.signature) for plugin, score in self._relative.items())
        return self._cluster_state.shared(ClassCache).of((allocations, self._settings.strategy, self._settings.shape), relative)

    def _allocation_score(self, info: NodeInfo) -> int:
        total = 0
        for plugin, score in self._allocations.items():
            total += self._weights[plugin] * score(info)
        return total

    # --- the plugins of the pod ---

    def _allocation_scores(self) -> dict[str, AllocationScore]:
        pod, settings = self._pod, self._settings
        found: dict[str, AllocationScore] = {}
        if FIT in self._weights:
            requests = requests_for_score(pod)
            found[FIT] = AllocationScore(settings.resources, requests, strategy_formula(settings), counts_defaults=True)
        if BALANCED in self._weights:
            requests = pod_requests(pod)
            formula = balance_formula_before_1_36 if self._is_before_1_36 else balance_formula
            # The plugin skips a pod that requests none of its resources.
            if any(requests.get(one.name) for one in settings.balanced_resources):
                found[BALANCED] = AllocationScore(settings.balanced_resources, requests, formula, counts_defaults=False)
        return found

    def _relative_scores(self, profile: SchedulerProfile) -> dict[str, RelativeScore]:
        """Return the plugins that compare the feasible nodes. Plugins that do not apply to the pod are not included."""
        pod, cluster_state, weights = self._pod, self._cluster_state, self._weights
        groups = cluster_state.affinity_terms
        found: dict[str, RelativeScore | None] = {}
        if "TaintToleration" in weights:
            found["TaintToleration"] = taint_toleration.pre_score(pod)
        if "NodeAffinity" in weights:
            found["NodeAffinity"] = node_affinity.pre_score(pod, self._settings.added_terms)
        if SPREAD in weights:
            soft = scored_constraints(pod, profile, cluster_state.snapshot, groups)
            domains = cluster_state.shared(SpreadDomains)
            found[SPREAD] = pod_topology_spread.pre_score(pod, soft.constraints, groups, domains, needs_all_keys=soft.needs_all_keys)
            if soft.unknown:
                self._unknown_plugins[SPREAD] = soft.unknown
        self._affinity: InterPodAffinityScore | None = None
        if AFFINITY in weights:
            self._affinity = InterPodAffinityScore(
                pod, cluster_state.snapshot, groups, lambda: cluster_state.shared(HostIndex), self._settings
            )
        found[AFFINITY] = self._affinity
        return {name: plugin for name, plugin in found.items() if plugin is not None}

    def _uncertain_plugins(self, names: Iterable[str]) -> set[str]:
        """Return the plugins whose scores of these nodes are not known."""
        infos = [self._cluster_state.info(name) for name in names] if self._unknown_checks else []
        found = {plugin for plugin, check in self._unknown_checks.items() if any(map(check, infos))}
        if self._images is not None and self._images.unknown_nodes and not self._images.unknown_nodes.isdisjoint(names):
            found.add(IMAGES)
        return found.union(self._unknown_plugins)

    # --- changes of the cluster state ---

    def _update(self) -> None:
        if self._applied != len(self._cluster_state.changes):
            self._apply_changes()

    def _apply_changes(self) -> None:
        changes = self._cluster_state.changes[self._applied :]
        self._applied += len(changes)
        # Otherwise only the classes of the changed nodes are different.
        if True in [plugin.apply_changes(changes) for plugin in self._relative.values()]:
            self._own_classes.clear()
            self._common = self._common_classes()
            self._counted_nodes = self._find_counted_nodes()
        if self._affinity is not None and self._affinity.unknown:
            self._unknown_plugins[AFFINITY] = self._affinity.unknown

    def _find_counted_nodes(self) -> frozenset[str]:
        """Return the nodes that have images of the pod, or pods that a plugin counts for the node itself."""
        counted = [plugin.nodes_with_counts for plugin in self._relative.values()]
        return frozenset(() if self._images is None else self._images.by_node).union(*counted)


def _part_counts(nodes: Mapping[NodeClass, int], number: int) -> Counter[Hashable]:
    """Return the number of nodes with each node part of the plugin with this number."""
    counts: Counter[Hashable] = Counter()
    for one, amount in nodes.items():
        counts[one.parts[number]] += amount
    return counts
