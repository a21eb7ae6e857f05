# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of a kube-scheduler that decide on which nodes a pod of a profile can run, and how it scores these nodes.

Source: kubernetes ``pkg/scheduler/apis/config/types.go`` and ``types_pluginargs.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .api.node import NodeSelector
from .api.pod import TopologySpreadConstraint
from .reason import PASSED, Reasons
from .score_settings import DEFAULT_SCORES, ScoreSettings


@dataclass(frozen=True)
class SchedulerProfile:
    """The part of a profile that its filters and scores depend on; without arguments it is the default profile.

    ``added_affinity``: the required part of NodeAffinity's ``addedAffinity``. ``ignored_resources`` (names) and ``ignored_resource_groups``
    (the part before the slash): extended resources that NodeResourcesFit ignores. ``default_constraints``: the constraints with
    DoNotSchedule that PodTopologySpread adds to pods without constraints. ``disabled_filters`` and ``disabled_pre_filters``: the plugins
    that are not enabled at these extension points. ``unknown``: the reasons why the results of all pods are uncertain, such as a filter
    that is not one of Kubernetes itself. ``extender_resources``: the resources whose pods an extender filters. ``scheduler``: the
    kube-scheduler that has the profile. Only profiles of one kube-scheduler see each other's nominated pods. ``preempts``: a plugin of it
    may preempt pods. ``scores``: the settings of its scores. ``percentage_of_nodes``: the share of the nodes that it scores
    (``percentageOfNodesToScore``); 0 means adaptive.
    """

    added_affinity: NodeSelector | None = None
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    disabled_filters: frozenset[str] = frozenset()
    disabled_pre_filters: frozenset[str] = frozenset()
    unknown: Reasons = PASSED
    extender_resources: frozenset[str] = frozenset()
    scheduler: str = ""
    preempts: bool = True
    # Caches of filter results have profiles in their keys, so the hash is short.
    scores: ScoreSettings = field(default=DEFAULT_SCORES, hash=False)
    percentage_of_nodes: int = field(default=0, hash=False)

    def filters_by(self, plugin: str) -> bool:
        """Return whether the filter of the plugin is enabled."""
        return plugin not in self.disabled_filters


DEFAULT_PROFILE = SchedulerProfile()

Profiles = Mapping[str, SchedulerProfile]
"""The profiles of all known kube-schedulers, by scheduler name."""

DEFAULT_PROFILES: Profiles = {"default-scheduler": DEFAULT_PROFILE}
