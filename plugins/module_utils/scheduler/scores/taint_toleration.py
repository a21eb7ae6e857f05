# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Taints with PreferNoSchedule that the pod does not tolerate (kubernetes ``plugins/tainttoleration/taint_toleration.go``)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.codec import encode_json
from ..filters.interface import PodChange
from ..filters.taint_toleration import tolerates
from .interface import NodeCounts, RelativeScore, ScoresByPart, normalised

PREFER_NO_SCHEDULE = "PreferNoSchedule"


def pre_score(pod: Pod) -> RelativeScore:
    """Return the score that is lower for a node with more such taints."""
    return _TaintTolerationScore(pod)


class _TaintTolerationScore:
    nodes_with_counts: Collection[str] = ()

    def __init__(self, pod: Pod) -> None:
        self._tolerations = pod.spec.tolerations or ()
        self.signature = encode_json(self._tolerations)

    def copy(self) -> _TaintTolerationScore:
        return self  # it counts nothing

    def node_part(self, node: Node, /) -> int:
        """Return the number of taints that the pod does not tolerate."""
        taints = node.spec.taints
        if not taints:
            return 0
        return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerates(self._tolerations, taint) for taint in taints)

    part_without_pods = node_part

    def scores(self, nodes: NodeCounts, /) -> ScoresByPart:
        return normalised({count: count for count in nodes}, reverse=True)

    def apply_changes(self, _changes: Sequence[PodChange], /) -> bool:
        return False
