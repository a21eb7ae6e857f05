# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The view of the sources on the cluster at one moment, and the listener that receives it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....plugins.module_utils.model.cluster_identity import ClusterIdentity
from ..interface import NodeView, Outcome, Query

NO_CLUSTER = ClusterIdentity()


class UnmappedSeries(t.NamedTuple):
    """A series that belongs to no node, or to several. ``why`` is a sentence without a full stop."""

    source: str
    query: Query
    labels: Mapping[str, str]
    why: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The nodes by name after a refresh. Every refresh makes a new view with a greater ``version``, also if every source failed.

    ``nodes`` has the newest state of each node until the next view. ``errors``: the error of each source that failed in this refresh, by
    the name of the source. ``refreshed_at_s``: monotonic seconds. ``unmapped`` lists a limited number of series, and ``unmapped_count``
    counts all of them. ``cluster`` may be empty.
    """

    version: int = 0
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    unmapped: Sequence[UnmappedSeries] = ()
    refreshed_at_s: float = 0.0
    unmapped_count: int = 0
    cluster: ClusterIdentity = NO_CLUSTER


class ViewListener(t.Protocol):
    """Receives what the sources find. The methods are called in the threads of the sources.

    ``on_view`` is called by one thread at a time, and so are the others. They can be called while ``on_view`` runs. Before ``on_node`` is
    called with a node of the newest view, the node is replaced in the view.
    """

    def on_view(self, view: ClusterView) -> None:
        """Take over a new view."""

    def on_node(self, node: NodeView) -> None:
        """Take over one node, because a pod was bound to it, or one of its pods ended."""

    def on_outcome(self, outcome: Outcome) -> None:
        """Take over the outcome of a pod."""
