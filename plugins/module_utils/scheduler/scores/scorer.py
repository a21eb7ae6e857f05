# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of the nodes on which a pod can run.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (prioritizeNodes) and ``pkg/scheduler/framework/runtime/framework.go``
(RunScorePlugins) with the plugins of 1.36. VolumeBinding scores no node without the feature gate StorageCapacityScoring, and
DynamicResources scores no node for a pod without resource claims.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from ...model.api.pod import Pod
from ...model.bounded_cache import BoundedCache
from ...model.codec import replace
from ...model.reason import Reasons
from ...model.scheduler_profile import DEFAULT_PROFILE, Profiles
from ...model.snapshot import ClusterSnapshot
from ..cluster_state import ClusterState
from ..default_constraints import SPREAD, scored_constraints
from ..filters.spread_domains import SpreadDomains
from ..node_info import NodeInfo
from ..pod_requests import pod_requests, requests_for_score
from ..unknowns.scores import RESOURCE_CLAIMS, score_unknowns
from ..unknowns.too_many_rules import without_excess_rules
from . import node_affinity, pod_topology_spread, taint_toleration
from .image_locality import ImageIndex, ImageLocalityScore
from .inter_pod_affinity import InterPodAffinityScore
from .interface import RelativeScore
from .node_resources_balanced_allocation import balance_formula
from .node_resources_fit import strategy_formula
from .resource_allocation import AllocationScore

FIT = "NodeResourcesFit"
BALANCED = "NodeResourcesBalancedAllocation"
IMAGES = "ImageLocality"
AFFINITY = "InterPodAffinity"

SCORE_WITHOUT_PLUGINS = 1
"""The total score of each node if the profile has no score plugins."""

MAX_SIGNATURES = 64
"""The number of pod signatures for which node scores are kept. It bounds the memory if every pod has different requests."""


class NodeClass(t.NamedTuple):
    """All that the score of a node depends on. Nodes with equal classes have equal scores.

    ``local``: the weighted sum of the scores that depend on the node alone. ``parts``: the node part of each other plugin.
    """

    local: int
    parts: tuple[Hashable, ...]


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

    ``unknown``: the reasons why no score is known. A change of the cluster state can add one.
    Raise QuantityError, which names the object.
    """

    def __init__(self, pod: Pod, cluster_state: ClusterState, profiles: Profiles | None = None) -> None:
        snapshot = cluster_state.snapshot
        profiles = snapshot.profiles if profiles is None else profiles
        self._settings = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE).scores
        self._weights = dict(self._settings.weights)
        spec, too_many = without_excess_rules(pod.spec)
        self._pod = pod = pod if spec is pod.spec else replace(pod, spec=spec)
        self._cluster_state = cluster_state
        self._unknown = (*score_unknowns(pod, snapshot, profiles), *too_many)
        self._unknown_plugins: dict[str, Reasons] = {}
        if pod.spec.resource_claims and "DynamicResources" in self._weights:
            self._unknown_plugins["DynamicResources"] = RESOURCE_CLAIMS
        self._unknown_checks: list[tuple[str, Callable[[NodeInfo], Reasons]]] = []
        self._local = self._local_scores()
        self._relative = self._relative_scores(profiles)
        self._relative_weights = [self._weights[name] for name in self._relative]
        signature = (tuple((name, self._weights[name], key) for name, (_score, key) in self._local.items()), self._settings)
        self._local_results = cluster_state.shared(LocalScoreCache).of(signature)
        self._classes: dict[str, tuple[NodeInfo, NodeClass]] = {}
        self._applied = 0
        self._apply_changes()

    @property
    def unknown(self) -> Reasons:
        """The reasons why no total score is known."""
        self._update()
        return (*self._unknown, *(reason for reasons in self._unknown_plugins.values() for reason in reasons))

    def unknown_on(self, name: str) -> Reasons:
        """Return the reasons why the score of this node is not known, in addition to ``unknown``. The snapshot has the node."""
        info = self._cluster_state.info(name)
        return tuple(reason for _plugin, check in self._unknown_checks for reason in check(info))

    def node_class(self, name: str) -> NodeClass:
        """Return the class of a node that the snapshot has. It changes only if a pod is added to the node or removed from it.

        In rare cases the classes of all nodes change: see ``generation``.
        """
        self._update()
        info = self._cluster_state.info(name)
        known = self._classes.get(name)
        if known is None or known[0] is not info:
            node = info.node
            parts = tuple([plugin.node_part(node) for plugin in self._relative.values()])
            known = self._classes[name] = (info, NodeClass(self._local_score(name, info), parts))
        return known[1]

    @property
    def generation(self) -> int:
        """A number that changes when the classes of nodes may have changed on which nothing has changed."""
        self._update()
        return self._generation

    def class_totals(self, nodes: Mapping[NodeClass, int]) -> dict[NodeClass, int]:
        """Return the total score of the feasible nodes by class. ``nodes``: the number of feasible nodes of each class."""
        self._update()
        if not self._weights:
            return dict.fromkeys(nodes, SCORE_WITHOUT_PLUGINS)
        totals = {one: one.local for one in nodes}
        for number, (plugin, weight) in enumerate(zip(self._relative.values(), self._relative_weights)):
            scores = plugin.scores(self._counts(nodes, number))
            for one in totals:
                totals[one] += weight * scores[one.parts[number]]
        return totals

    def best(self, feasible: Iterable[str]) -> tuple[str, ...]:
        """Return the feasible nodes with the highest total score, in the given order. The scheduler chooses one of them at random."""
        classes = {name: self.node_class(name) for name in feasible}
        totals = self.class_totals(Counter(classes.values()))
        highest = max(totals.values(), default=0)
        return tuple(name for name, one in classes.items() if totals[one] == highest)

    def scores(self, feasible: Iterable[str]) -> NodeScores:
        """Return the scores of the feasible nodes, which the snapshot has. The scheduler does not score a single feasible node."""
        names = tuple(feasible)
        classes = {name: self.node_class(name) for name in names}
        nodes = Counter(classes.values())
        infos = {name: self._cluster_state.info(name) for name in names}
        uncertain = {plugin for plugin, check in self._unknown_checks if any(map(check, infos.values()))}
        unknown = dict.fromkeys((*self.unknown, *(reason for name in names for reason in self.unknown_on(name))))
        if self._unknown:
            return NodeScores({}, {}, tuple(unknown))
        by_plugin = {
            plugin: {name: self._weights[plugin] * score(info) for name, info in infos.items()}
            for plugin, (score, _key) in self._local.items()
        }
        for number, (plugin, relative) in enumerate(self._relative.items()):
            scores = relative.scores(self._counts(nodes, number))
            by_plugin[plugin] = {name: self._weights[plugin] * scores[one.parts[number]] for name, one in classes.items()}
        totals = self.class_totals(nodes) if not unknown else {}
        known = {plugin: found for plugin, found in by_plugin.items() if plugin not in uncertain and plugin not in self._unknown_plugins}
        return NodeScores({name: totals[one] for name, one in classes.items()} if totals else {}, known, tuple(unknown))

    # --- the plugins of the pod ---

    def _local_scores(self) -> dict[str, tuple[Callable[[NodeInfo], int], Hashable]]:
        """Return the plugins whose scores depend on the node alone, each with a key that is equal for pods with the same scores."""
        pod, settings, snapshot = self._pod, self._settings, self._cluster_state.snapshot
        found: dict[str, tuple[Callable[[NodeInfo], int], Hashable]] = {}
        allocations: dict[str, AllocationScore] = {}
        if FIT in self._weights:
            requests = requests_for_score(pod)
            allocations[FIT] = AllocationScore(settings.resources, requests, strategy_formula(settings), counts_defaults=True)
        if BALANCED in self._weights:
            requests = pod_requests(pod)
            # The plugin skips a pod that requests none of its resources.
            if any(requests.get(one.name) for one in settings.balanced_resources):
                allocations[BALANCED] = AllocationScore(settings.balanced_resources, requests, balance_formula, counts_defaults=False)
        for plugin, allocation in allocations.items():
            found[plugin] = allocation, allocation.resources
            self._add_check(plugin, allocation.device_unknowns(snapshot.device_classes))
        if IMAGES in self._weights:
            images = ImageLocalityScore(pod, self._cluster_state.shared(ImageIndex))
            found[IMAGES] = (lambda info: images.score(info.node)), images.signature
            if images.may_be_unknown:
                self._add_check(IMAGES, lambda info: images.unknown(info.node))
        return found

    def _add_check(self, plugin: str, check: Callable[[NodeInfo], Reasons] | None) -> None:
        if check is not None:
            self._unknown_checks.append((plugin, check))

    def _relative_scores(self, profiles: Profiles) -> dict[str, RelativeScore]:
        """Return the plugins that compare the feasible nodes. Plugins that do not apply to the pod are not included."""
        pod, cluster_state, weights = self._pod, self._cluster_state, self._weights
        groups = cluster_state.affinity_terms
        found: dict[str, RelativeScore | None] = {}
        if "TaintToleration" in weights:
            found["TaintToleration"] = taint_toleration.pre_score(pod)
        if "NodeAffinity" in weights:
            found["NodeAffinity"] = node_affinity.pre_score(pod, self._settings.added_terms)
        if SPREAD in weights:
            profile = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
            soft = scored_constraints(pod, profile, cluster_state.snapshot, groups)
            domains = cluster_state.shared(SpreadDomains)
            found[SPREAD] = pod_topology_spread.pre_score(pod, soft.constraints, groups, domains, needs_all_keys=soft.needs_all_keys)
            if soft.unknown:
                self._unknown_plugins[SPREAD] = soft.unknown
        self._affinity = InterPodAffinityScore(pod, cluster_state.snapshot, groups, self._settings) if AFFINITY in weights else None
        found[AFFINITY] = self._affinity
        return {name: plugin for name, plugin in found.items() if plugin is not None}

    # --- changes of the cluster state ---

    def _update(self) -> None:
        if self._applied != len(self._cluster_state.changes):
            self._apply_changes()

    def _apply_changes(self) -> None:
        changes = self._cluster_state.changes[self._applied :]
        self._applied += len(changes)
        if True in [plugin.apply_changes(changes) for plugin in self._relative.values()]:
            self._classes.clear()
            self._generation += 1
        if self._affinity is not None and self._affinity.unknown:
            self._unknown_plugins[AFFINITY] = self._affinity.unknown

    _generation = 0

    def _local_score(self, name: str, info: NodeInfo) -> int:
        known = self._local_results.get(name)
        if known is None or known[0] is not info:
            score = sum(self._weights[plugin] * score(info) for plugin, (score, _key) in self._local.items())
            known = self._local_results[name] = (info, score)
        return known[1]

    def _counts(self, nodes: Mapping[NodeClass, int], number: int) -> Counter[Hashable]:
        """Return the number of nodes with each node part of the plugin with this number."""
        counts: Counter[Hashable] = Counter()
        for one, amount in nodes.items():
            counts[one.parts[number]] += amount
        return counts


class LocalScoreCache:
    """The scores that depend on the node alone, for the pod signatures that were used last."""

    def __init__(self, _snapshot: ClusterSnapshot) -> None:
        self._signatures: BoundedCache[Hashable, dict[str, tuple[NodeInfo, int]]] = BoundedCache(MAX_SIGNATURES)

    def of(self, signature: Hashable) -> dict[str, tuple[NodeInfo, int]]:
        """Return the scores by node name, each with the NodeInfo for which it was computed. The caller adds entries."""
        return self._signatures.get(signature, dict)
