# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod whose replacement would use the freed capacity again is not evicted: its eviction would have no effect."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...scheduler.filters.taint_toleration import tolerates
from ...state.hold import hold_taint, is_foreign_taint
from ..options import NONE, RescueOptions
from ..victims.node_pod import NodePod

RETURNS = Reason(
    "would_return",
    "its replacement has at least the same priority, fits on no other node, and tolerates the taint that would reserve this one",
)


class ReturnCheck(t.NamedTuple):
    """Checks whether the replacement of a pod could be bound to the node before the pod that needs the capacity.

    It could if its priority is at least the same, it tolerates the taint of the hold, and it fits on no other node. The taint rejects only
    pods that do not tolerate it, and most critical add-ons tolerate the default key. ``pod``: the pod that needs the capacity.
    ``fits_elsewhere``: returns whether a pod's replacement fits on another node.
    """

    pod: Pod
    nodes: Mapping[str, Node]
    options: RescueOptions
    fits_elsewhere: t.Callable[[Pod], bool]

    def violation(self, node_pod: NodePod) -> t.Optional[Reason]:
        """Return a reason if the replacement of this pod could use the capacity that the pod frees. None otherwise.

        The pod is bound to a node.
        """
        pod = node_pod.pod
        # The scheduler compares ``spec.priority``. It does not use the annotation that makes a pod critical.
        may_be_first = (pod.spec.priority or 0) >= (self.pod.spec.priority or 0)
        return RETURNS if may_be_first and self._is_admitted(pod) and not self.fits_elsewhere(pod) else None

    def _is_admitted(self, pod: Pod) -> bool:
        node, key = self.nodes[pod.spec.node_name], self.options.hold_taint_key
        # A foreign taint of the same key replaces the hold. With ``hold: none`` and without such a taint, nothing rejects a replacement,
        # and this rule does not apply.
        taints = [taint for taint in node.spec.taints or () if is_foreign_taint(taint, key)]
        if not taints and self.options.hold != NONE:
            taints = [hold_taint(key)]
        return bool(taints) and all(tolerates(pod.spec.tolerations or (), taint) for taint in taints)


def would_return_violation(node_pod: NodePod, return_check: t.Optional[ReturnCheck]) -> t.Optional[Reason]:
    """Return a reason for a pod whose replacement would use the freed capacity again. Return None if ``return_check`` is None."""
    return return_check.violation(node_pod) if return_check is not None else None
