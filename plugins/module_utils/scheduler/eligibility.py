# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes that are open to a pod by rules that no other pod can change; room and host ports do not count."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.reason import Reasons
from .filters import node_affinity, node_name, node_unschedulable, taint_toleration
from .profile import DEFAULT_PROFILE, Profile

# In the order in which the scheduler asks its plugins, NodeAffinity's filter after them: the first that rejects gives the reasons.
STATIC_FILTERS: tuple[t.Callable[[Pod], t.Callable[[Node], Reasons] | None], ...] = (
    node_affinity.pre_filter_names,
    node_unschedulable.pre_filter,
    node_name.pre_filter,
    taint_toleration.pre_filter,
)


def eligible_nodes(pod: Pod, nodes: Iterable[Node]) -> list[str]:
    """Names of the nodes that are Ready, schedulable, and allowed by the pod's selector, required node affinity and tolerations.

    The scheduler itself does not ask whether a node is Ready: it sees only the taint that follows.
    """
    checks = static_filters(pod)
    return [node.name for node in nodes if node.ready and not any(check(node) for check in checks)]


def static_filters(pod: Pod, profile: Profile = DEFAULT_PROFILE) -> list[t.Callable[[Node], Reasons]]:
    """The static rules that have something to say about the pod, in the scheduler's order."""
    checks = [prepare(pod) for prepare in STATIC_FILTERS]
    checks += [node_affinity.pre_filter_added(profile.added_affinity), node_affinity.pre_filter(pod)]
    return [check for check in checks if check is not None]
