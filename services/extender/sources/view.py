# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of one refresh: of a source, and of all sources as the view of the cluster, with the listener that receives it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....plugins.module_utils.model.cluster_identity import ClusterIdentity
from ....plugins.module_utils.model.messages import first_texts
from ..interface import NodeView, Query
from .kubernetes.pod_tracker import Outcome
from .packed_series import ByNode

NO_CLUSTER = ClusterIdentity()

MAX_LISTED = 500
"""Unmapped series that are listed. All are counted."""

MAX_SHOWN_PROBLEMS = 5


class UnmappedSeries(t.NamedTuple):
    """A series that belongs to no node, or to several. ``why`` is a sentence without a full stop."""

    source: str
    query: Query
    labels: Mapping[str, str]
    why: str


@dataclass
class Readings:
    """The values that a source has read in one refresh. A query without a line in ``values`` could not be read.

    ``problems``: the errors, each in one sentence. ``unmapped`` has the first of the series that belong to no node, and ``unmapped_count``
    is the number of all.
    """

    values: dict[Query, ByNode] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unmapped: list[UnmappedSeries] = field(default_factory=list)
    unmapped_count: int = 0

    def add_unmapped(self, source: str, query: Query, series: Sequence[tuple[Mapping[str, str], str]]) -> None:
        """Count the series of a query, and list them until the list is full. ``series``: the labels and the reason of each."""
        self.unmapped_count += len(series)
        self.unmapped += [UnmappedSeries(source, query, labels, why) for labels, why in series[: MAX_LISTED - len(self.unmapped)]]

    @property
    def error(self) -> str:
        """Return the problems in one text, each once and a limited number of them. It is empty if there are none."""
        return "; ".join(first_texts(list(dict.fromkeys(self.problems)), MAX_SHOWN_PROBLEMS, "problems"))


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
