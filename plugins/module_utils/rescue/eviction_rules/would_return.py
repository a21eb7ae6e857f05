# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Victims that would be evicted in vain, because what replaces them would take the room back."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...scheduler.filters.taint_toleration import tolerates
from ...state.hold import Hold, hold_taint, is_foreign_taint
from ..options import NONE, RescueOptions
from ..victims.node_pod import NodePod

RETURNS = Reason("would_return", "what replaces it is as important, has no other room, and tolerates the taint that would keep this one")


class ReplacementCheck:
    """Tells whether a pod's replacement could come before the pod that needs the room: as important, let in, and nowhere else to go.

    The taint that keeps the room keeps off only who does not tolerate it, and most critical add-ons tolerate the usual key.
    ``held``: the holds by node name.
    """

    def __init__(
        self,
        pod: Pod,
        nodes: Mapping[str, Node],
        options: RescueOptions,
        is_unreschedulable: t.Callable[[Pod], bool],
        held: Mapping[str, Hold],
    ) -> None:
        # The scheduler goes by this one: it knows nothing of the annotation that makes a pod critical.
        self._priority = pod.spec.priority or 0
        self._nodes, self._is_unreschedulable, self._held = nodes, is_unreschedulable, held
        self._key = options.hold_taint_key
        self._hold = () if options.hold == NONE else (hold_taint(pod, self._key),)

    def takes_capacity_back(self, node_pod: NodePod) -> bool:
        """The taint would not keep the replacement of this pod, which is bound to a node, from the room that it leaves."""
        pod = node_pod.pod
        return (pod.spec.priority or 0) >= self._priority and self._is_admitted(pod) and self._is_unreschedulable(pod)

    def _is_admitted(self, pod: Pod) -> bool:
        node = self._nodes[pod.spec.node_name]
        hold = self._held.get(node.name)
        # One that is there for good stands in for a hold. Who wants none (``hold: none``) takes the risk.
        taints = tuple(taint for taint in node.spec.taints or () if is_foreign_taint(taint, self._key, hold)) or self._hold
        return bool(taints) and all(tolerates(pod.spec.tolerations or (), taint) for taint in taints)


def would_return_violation(node_pod: NodePod, replacements: t.Optional[ReplacementCheck]) -> t.Optional[Reason]:
    """Return a reason for a pod whose replacement would take the capacity back; with None nothing is known of that."""
    return RETURNS if replacements is not None and replacements.takes_capacity_back(node_pod) else None
