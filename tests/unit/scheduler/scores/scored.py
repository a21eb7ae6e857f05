# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of a pod on the nodes of a small cluster."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node, NodeWithImages
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import Profiles, SchedulerProfile
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import DEFAULT_SCORES, ScoreSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.scores.scorer import NodeScores, Scorer

from tests.unit.support.cluster import cluster_state


def profiles(settings: ScoreSettings = DEFAULT_SCORES) -> Profiles:
    """The profile of the default scheduler with these settings."""
    return {"default-scheduler": SchedulerProfile(scores=settings)}


def scores_of(
    pod: Pod,
    nodes: Sequence[Node],
    pods: Iterable[Pod] = (),
    *,
    settings: ScoreSettings = DEFAULT_SCORES,
    feasible: Sequence[str] | None = None,
    **snapshot: t.Any,
) -> NodeScores:
    """The scores of the feasible nodes, by default all nodes."""
    scorer = Scorer(pod, scored_state(nodes, pods, **snapshot), profiles(settings))
    return scorer.scores([node.name for node in nodes] if feasible is None else feasible)


def scored_state(nodes: Iterable[Node], pods: Iterable[Pod] = (), **snapshot: t.Any) -> ClusterState:
    """The cluster state of a snapshot that was read for scores."""
    return cluster_state([decode_json(NodeWithImages, encode_json(node)) for node in nodes], pods, **snapshot)


def plugin_scores(plugin: str, pod: Pod, nodes: Sequence[Node], pods: Iterable[Pod] = (), **more: t.Any) -> list[int]:
    """The scores of one plugin with the weight 1, in the order of the feasible nodes. They are empty if it does not apply to the pod."""
    settings: ScoreSettings = more.pop("settings", DEFAULT_SCORES)
    found = scores_of(pod, nodes, pods, settings=only(plugin, settings), **more)
    assert not found.unknown
    return list(found.by_plugin.get(plugin, {}).values())


def only(plugin: str, settings: ScoreSettings = DEFAULT_SCORES) -> ScoreSettings:
    """The settings with one plugin, whose weight is 1."""
    fields = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    return ScoreSettings(**{**fields, "weights": ((plugin, 1),)})
