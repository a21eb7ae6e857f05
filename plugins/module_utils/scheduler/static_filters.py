# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The static filters of a pod: those that depend only on the pod and the node, and not on other pods, free capacity or host ports."""

from __future__ import annotations

import typing as t

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.reason import Reasons
from ..model.scheduler_profile import DEFAULT_PROFILE, SchedulerProfile
from .filters import node_affinity, node_name, node_unschedulable, taint_toleration

# By the plugin, in the order in which the scheduler runs them. The PreFilter of NodeAffinity runs before them, and its filter after them.
# The first that rejects the node gives the reasons.
STATIC_FILTERS: dict[str, t.Callable[[Pod], t.Callable[[Node], Reasons] | None]] = {
    "NodeUnschedulable": node_unschedulable.pre_filter,
    "NodeName": node_name.pre_filter,
    "TaintToleration": taint_toleration.pre_filter,
}
NODE_AFFINITY = "NodeAffinity"


def static_filters(pod: Pod, profile: SchedulerProfile = DEFAULT_PROFILE) -> list[t.Callable[[Node], Reasons]]:
    """Return the static filters that apply to the pod, in the scheduler's order."""
    checks = [node_affinity.pre_filter_names(pod)] if NODE_AFFINITY not in profile.disabled_pre_filters else []
    checks += [prepare(pod) for plugin, prepare in STATIC_FILTERS.items() if profile.filters_by(plugin)]
    if profile.filters_by(NODE_AFFINITY):
        checks += [node_affinity.pre_filter_added(profile.added_affinity), node_affinity.pre_filter(pod)]
    return [check for check in checks if check is not None]
