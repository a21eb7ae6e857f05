# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Make the views of nodes from the values of the sources, the nodes of the cluster and their pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..interface import Annotation, NodeView, PodView, Query, Series
from ..pauses import Pause, with_pauses
from .clock import Clock, measured_at
from .kubernetes.node_objects import NodeRecord
from .packed_series import ByNode, NodeSeries
from .source_log import SourceLog

NO_ANNOTATIONS: Mapping[Query, Sequence[Series]] = {}


def views_without_cluster(values: Mapping[Query, ByNode]) -> dict[str, NodeView]:
    """Return the nodes that have values. It is used if the nodes of the cluster are not known."""
    names = dict.fromkeys(node for by_node in values.values() for node in by_node)
    return {name: NodeView(name, series=NodeSeries(values, name, NO_ANNOTATIONS)) for name in names}


def views_of_cluster(
    values: Mapping[Query, ByNode],
    nodes: Mapping[str, NodeRecord],
    annotations: Sequence[Annotation],
    pods_on: Callable[[str], tuple[PodView, ...]],
    clock: Clock,
    log: SourceLog,
    pause: Pause,
) -> dict[str, NodeView]:
    """Return the views of all nodes of the cluster by name. Values of other nodes are ignored."""
    views = {}
    for name, record in with_pauses(nodes.items(), pause):
        found = ((query, _annotated(record, query, clock, log)) for query in annotations)
        annotated: dict[Query, Sequence[Series]] = {query: (one,) for query, one in found if one is not None}
        series = NodeSeries(values, name, annotated or NO_ANNOTATIONS)
        views[name] = NodeView(name, record.labels, record.allocatable, series, pods_on(name))
    return views


def _annotated(record: NodeRecord, query: Annotation, clock: Clock, log: SourceLog) -> Series | None:
    found = record.annotations.get(query.key)
    if found is None:
        return None
    if found.time_s is None:
        log.once("the annotation has no time, so the age of its values is unknown; write value,time", annotation=query.key)
        return Series({}, found.value, None)
    measured_at_s = measured_at(found.time_s, clock.server_now_s, clock.now_s)
    if measured_at_s is None:
        log.once("the time of the annotation is in the future, so its value is not used; check the clock", annotation=query.key)
        return None
    return Series({}, found.value, measured_at_s)
