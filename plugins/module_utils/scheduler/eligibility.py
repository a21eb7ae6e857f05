# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes that are open to a pod by rules that no other pod can change; room and host ports do not count."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.codec import encode_json
from ..model.reason import Reasons
from .filters import node_affinity, node_name, node_unschedulable, taint_toleration
from .profile import STOCK, Profile

# In the order in which the scheduler asks its plugins, NodeAffinity's filter after them: the first that rejects gives the reasons.
STATIC_RULES: tuple[t.Callable[[Pod], t.Callable[[Node], Reasons] | None], ...] = (
    node_affinity.prepare_names,
    node_unschedulable.prepare,
    node_name.prepare,
    taint_toleration.prepare,
)


def eligible_nodes(pod: Pod, nodes: Iterable[Node]) -> list[str]:
    """Names of the nodes that are Ready, schedulable, and allowed by the pod's selector, required node affinity and tolerations.

    The scheduler itself does not ask whether a node is Ready: it sees only the taint that follows.
    """
    checks = static_checks(pod)
    return [node.name for node in nodes if node.ready and not any(check(node) for check in checks)]


def static_rules_of(pod: Pod) -> bytes:
    """All of the pod that the static rules depend on: they say the same of pods for which this is equal."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return encode_json((pod.spec.node_name, pod.spec.node_selector, affinity, pod.spec.tolerations))


def static_checks(pod: Pod, profile: Profile = STOCK) -> list[t.Callable[[Node], Reasons]]:
    """The static rules that have something to say about the pod, in the scheduler's order."""
    checks = [prepare(pod) for prepare in STATIC_RULES]
    checks += [node_affinity.prepare_added(profile.added_affinity), node_affinity.prepare(pod)]
    return [check for check in checks if check is not None]
