# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Victims that would be evicted in vain, because what replaces them would take the room back."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..scheduler.filters.taint_toleration import tolerates
from ..state.hold import Hold, hold_taint, is_foreign_taint
from .cost import VictimCosts
from .options import NONE, RescueOptions
from .residents import Resident


class Returning:
    """Tells whether a pod's replacement could come before the pod that needs the room: as important, let in, and nowhere else to go.

    The taint that keeps the room keeps off only who does not tolerate it, and most critical add-ons tolerate the usual key.
    ``held``: the holds by node name.
    """

    def __init__(self, pod: Pod, nodes: Mapping[str, Node], options: RescueOptions, costs: VictimCosts, held: Mapping[str, Hold]) -> None:
        # The scheduler goes by this one: it knows nothing of the annotation that makes a pod critical.
        self._priority = pod.spec.priority or 0
        self._nodes, self._costs, self._held = nodes, costs, held
        self._key = options.hold_taint_key
        self._hold = () if options.hold == NONE else (hold_taint(pod, self._key),)

    def returns(self, resident: Resident) -> bool:
        """The taint would not keep the replacement of this pod, which is bound to a node, from the room that it leaves."""
        pod = resident.pod
        return (pod.spec.priority or 0) >= self._priority and self._is_let_in(pod) and self._costs.is_homeless(pod)

    def _is_let_in(self, pod: Pod) -> bool:
        node = self._nodes[pod.spec.node_name]
        hold = self._held.get(node.name)
        # One that is there for good stands in for a hold. Who wants none (``hold: none``) takes the risk.
        taints = tuple(taint for taint in node.spec.taints or () if is_foreign_taint(taint, self._key, hold)) or self._hold
        return bool(taints) and all(tolerates(pod.spec.tolerations or (), taint) for taint in taints)
