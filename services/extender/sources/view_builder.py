# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Make the views of nodes from the values of the sources, the nodes of the cluster and their pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..interface import Annotation, NodeView, PodView, Query, Series
from .annotations import measured_at, parse_annotation
from .node_objects import NodeRecord
from .pod_tracker import Clock
from .readings import ByNode

NO_PODS: tuple[PodView, ...] = ()


def series_by_node(values: Mapping[Query, ByNode]) -> dict[str, dict[Query, Sequence[Series]]]:
    """Return the values of each node by query."""
    found: dict[str, dict[Query, Sequence[Series]]] = {}
    for query, by_node in values.items():
        for node, series in by_node.items():
            found.setdefault(node, {})[query] = series
    return found


def views_without_cluster(values: Mapping[Query, ByNode]) -> dict[str, NodeView]:
    """Return the nodes that have values. It is used if the nodes of the cluster are not known."""
    return {name: NodeView(name, series=series) for name, series in series_by_node(values).items()}


class ClusterViews:
    """Makes the views of the nodes of the cluster.

    ``on_ageless`` receives the key of an annotation whose value has no time, and ``on_wrong_time`` of one whose time is in the future.
    """

    def __init__(self, on_ageless: Callable[[str], None], on_wrong_time: Callable[[str], None]) -> None:
        self._on_ageless, self._on_wrong_time = on_ageless, on_wrong_time

    def make(
        self,
        values: Mapping[Query, ByNode],
        nodes: Mapping[str, NodeRecord],
        annotations: Iterable[Annotation],
        pods_on: Callable[[str], tuple[PodView, ...]],
        clock: Clock,
    ) -> dict[str, NodeView]:
        """Return the views of all nodes by name. Values of other nodes are ignored."""
        measured, annotations = series_by_node(values), tuple(annotations)
        views = {}
        for name, record in nodes.items():
            series = measured.get(name, {})
            for query in annotations:
                annotated = self._annotated(record, query, clock)
                if annotated is not None:
                    series[query] = (annotated,)
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
