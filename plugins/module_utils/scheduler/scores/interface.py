# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The interface of the score plugins that compare the feasible nodes, and the normalisation that several of them share.

The score of the other plugins depends on the node alone. It is a function of the NodeInfo.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Hashable, Mapping, Sequence

from ...model.api.node import Node
from ..filters.interface import PodChange

MAX_NODE_SCORE = 100

NodeCounts = Mapping[t.Any, int]
"""The number of feasible nodes with each node part."""

ScoresByPart = Mapping[t.Any, int]
"""The score, 0 to 100, of the nodes with each node part."""


ResourceUse = tuple[int, int, int, int]
"""The weight of a resource, its requests on the node with the pod and without it, and its allocatable, which is not 0."""

AllocationFormula = t.Callable[[Sequence[ResourceUse]], int]
"""Returns the score of a node, 0 to 100."""


class RelativeScore(t.Protocol):
    """The score of one plugin for one pod. All nodes with equal node parts have the same score."""

    @property
    def signature(self) -> Hashable:
        """A key that is equal for pods with the same node parts on nodes without pods."""

    @property
    def nodes_with_counts(self) -> Collection[str]:
        """The nodes whose node part may differ from that of the node without pods."""

    def copy(self) -> RelativeScore:
        """Return a score with the same counts. Later changes of one do not affect the other."""

    def node_part(self, node: Node, /) -> Hashable:
        """Return the part of the score that depends only on the node and the pods on it."""

    def part_without_pods(self, node: Node, /) -> Hashable:
        """Return the node part of the node without pods."""

    def scores(self, nodes: NodeCounts, /) -> ScoresByPart:
        """Return the scores of the feasible nodes."""

    def apply_changes(self, changes: Sequence[PodChange], /) -> bool:
        """Count the new entries of ``ClusterState.changes``. Return whether node parts of unchanged nodes may have changed."""


def normalised(raw: Mapping[t.Any, int], *, reverse: bool) -> ScoresByPart:
    """Return raw scores of at least 0 in proportion to the largest one; ``reverse``: the largest one gets 0.

    Source: kubernetes ``plugins/helper/normalize_score.go`` (DefaultNormalizeScore).
    """
    largest = max(raw.values(), default=0)
    if largest == 0:
        return dict.fromkeys(raw, MAX_NODE_SCORE) if reverse else raw
    scaled = {part: MAX_NODE_SCORE * score // largest for part, score in raw.items()}
    return {part: MAX_NODE_SCORE - score for part, score in scaled.items()} if reverse else scaled
