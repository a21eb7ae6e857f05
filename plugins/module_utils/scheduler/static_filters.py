# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The static filters of a pod: those that depend only on the pod and the node, and not on other pods, free capacity or host ports."""

from __future__ import annotations

import typing as t

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.reason import Reasons
from .filters import node_affinity, node_name, node_unschedulable, taint_toleration
from .profile import DEFAULT_PROFILE, SchedulerProfile

# In the order in which the scheduler runs its plugins. The filter of NodeAffinity runs after them. The first that rejects the node gives
# the reasons.
STATIC_FILTERS: tuple[t.Callable[[Pod], t.Callable[[Node], Reasons] | None], ...] = (
    node_affinity.pre_filter_names,
    node_unschedulable.pre_filter,
    node_name.pre_filter,
    taint_toleration.pre_filter,
)


def static_filters(pod: Pod, profile: SchedulerProfile = DEFAULT_PROFILE) -> list[t.Callable[[Node], Reasons]]:
    """Return the static filters that apply to the pod, in the scheduler's order."""
    checks = [prepare(pod) for prepare in STATIC_FILTERS]
    checks += [node_affinity.pre_filter_added(profile.added_affinity), node_affinity.pre_filter(pod)]
    return [check for check in checks if check is not None]
