# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of a profile that decide how kube-scheduler scores the nodes on which a pod can run.

Source: kubernetes ``pkg/scheduler/apis/config/types_pluginargs.go``, ``v1/defaults.go`` and ``v1/default_plugins.go``.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .api.pod import PreferredSchedulingTerm, TopologySpreadConstraint
from .reason import PASSED, Reasons

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class WeightedResource(t.NamedTuple):
    """A resource that counts for the score of a node, and its weight."""

    name: str
    weight: int = 1


class ShapePoint(t.NamedTuple):
    """The score, 0 to 10, at a utilization in percent."""

    utilization: int
    score: int


SCORED_RESOURCES = (WeightedResource("cpu"), WeightedResource("memory"))

DEFAULT_WEIGHTS = (
    ("DynamicResources", 2),
    ("ImageLocality", 1),
    ("InterPodAffinity", 2),
    ("NodeAffinity", 2),
    ("NodeResourcesBalancedAllocation", 1),
    ("NodeResourcesFit", 1),
    ("PodTopologySpread", 2),
    ("TaintToleration", 3),
    ("VolumeBinding", 1),
)


@dataclass(frozen=True)
class ScoreSettings:
    """The part of a profile that its scores depend on; without arguments it is the default profile.

    ``weights``: the score plugins by name, with their weights of at least 1. ``strategy``, ``resources`` and ``shape``: the scoring
    strategy of NodeResourcesFit. ``balanced_resources``: the resources of NodeResourcesBalancedAllocation. ``hard_pod_affinity_weight``:
    the weight of a required affinity term of another pod that selects the scored pod. ``ignores_preferred_terms``: preferred terms of other
    pods do not count for pods without preferred terms. ``added_terms``: the preferred part of NodeAffinity's ``addedAffinity``.
    ``default_constraints``: the constraints with ScheduleAnyway of pods without constraints; None means those of Kubernetes itself.
    ``scores_volumes``: VolumeBinding scores nodes by the capacity of volumes.
    ``unknown``: the reasons why no score of the profile is known, such as a score plugin that is not one of Kubernetes itself.
    ``extender_resources``: the resources whose pods an extender scores.
    """

    weights: tuple[tuple[str, int], ...] = DEFAULT_WEIGHTS
    strategy: str = LEAST_ALLOCATED
    resources: tuple[WeightedResource, ...] = SCORED_RESOURCES
    shape: tuple[ShapePoint, ...] = ()
    balanced_resources: tuple[WeightedResource, ...] = SCORED_RESOURCES
    hard_pod_affinity_weight: int = 1
    ignores_preferred_terms: bool = False
    added_terms: tuple[PreferredSchedulingTerm, ...] = ()
    default_constraints: t.Optional[tuple[TopologySpreadConstraint, ...]] = None
    scores_volumes: bool = False
    unknown: Reasons = PASSED
    extender_resources: frozenset[str] = frozenset()


DEFAULT_SCORES = ScoreSettings()
