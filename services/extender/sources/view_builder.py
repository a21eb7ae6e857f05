# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Make the views of nodes from the values of the sources, the nodes of the cluster and their pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..interface import Annotation, NodeView, PodView, Query, Series
from ..pauses import Pause, no_pause, with_pauses
from .clock import Clock, measured_at
from .kubernetes.annotations import parse_annotation
from .kubernetes.node_objects import NodeRecord
from .packed_series import ByNode, NodeSeries

NO_PODS: tuple[PodView, ...] = ()
NO_ANNOTATIONS: Mapping[Query, Sequence[Series]] = {}


def views_without_cluster(values: Mapping[Query, ByNode]) -> dict[str, NodeView]:
    """Return the nodes that have values. It is used if the nodes of the cluster are not known."""
    names = dict.fromkeys(node for by_node in values.values() for node in by_node)
    return {name: NodeView(name, series=NodeSeries(values, name, NO_ANNOTATIONS)) for name in names}


class ClusterViews:
    """Makes the views of the nodes of the cluster.

    ``on_ageless`` receives the key of an annotation whose value has no time, and ``on_wrong_time`` of one whose time is in the future.
    """

    def __init__(self, on_ageless: Callable[[str], None], on_wrong_time: Callable[[str], None], pause: Pause = no_pause) -> None:
        self._on_ageless, self._on_wrong_time, self._pause = on_ageless, on_wrong_time, pause

    def make(
        self,
        values: Mapping[Query, ByNode],
        nodes: Mapping[str, NodeRecord],
        annotations: Iterable[Annotation],
        pods_on: Callable[[str], tuple[PodView, ...]],
        clock: Clock,
    ) -> dict[str, NodeView]:
        """Return the views of all nodes by name. Values of other nodes are ignored."""
        annotations = tuple(annotations)
        views = {}
        for name, record in with_pauses(nodes.items(), self._pause):
            found = ((query, self._annotated(record, query, clock)) for query in annotations)
            annotated: dict[Query, Sequence[Series]] = {query: (one,) for query, one in found if one is not None}
            series = NodeSeries(values, name, annotated or NO_ANNOTATIONS)
            views[name] = NodeView(name, record.labels, record.allocatable, series, pods_on(name) or NO_PODS)
        return views

    def _annotated(self, record: NodeRecord, query: Annotation, clock: Clock) -> Series | None:
        text = record.annotations.get(query.key)
        found = parse_annotation(text) if text is not None else None
        if found is None:
            return None
        if found.time_s is None:
            self._on_ageless(query.key)
            return Series({}, found.value, None)
        measured_at_s = measured_at(found.time_s, clock.server_now_s, clock.now_s)
        if measured_at_s is None:
            self._on_wrong_time(query.key)
            return None
        return Series({}, found.value, measured_at_s)
