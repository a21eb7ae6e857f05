# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The views of the cluster: made from the values of the sources, the nodes and their pods, and delivered to the listener.

The thread of the refresh delivers views. The threads of the watch deliver the nodes whose pods have changed. A node that changes while a
view is made is delivered immediately, and its newest state is in the view.
"""

from __future__ import annotations

import itertools
import threading
import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..interface import Annotation, NodeView, PodView, Query, Series
from ..pauses import Pause, with_pauses
from .clock import Clock
from .kubernetes.kubernetes import ClusterWatch
from .kubernetes.node_objects import NodeRecord
from .kubernetes.pod_tracker import PodChanges, PodTracker
from .packed_series import ByNode, NodeSeries, Numbers, PackedSeries
from .source_log import SourceLog
from .view import ClusterView, ViewListener

T = t.TypeVar("T")

KEPT_S = 600.0
"""Seconds for which the last values of a node are kept. Their age grows meanwhile, and an agent's ``max_age_s`` ends their use earlier."""

KEPT_WITHOUT_AGE_S = 90.0
"""Seconds for which values of unknown age are kept after their query was last answered. Nothing else could end their use."""

VERSIONS = itertools.count(1)
"""The versions of views. They also grow when other settings replace the sources, so that no version occurs twice in a process."""

NO_ANNOTATIONS: Mapping[Query, Sequence[Series]] = {}


class Views:
    """Makes the views and calls the listener, until ``stop``. ``lock`` guards the watch and the nodes that were delivered."""

    def __init__(self, listener: ViewListener, log: SourceLog, lock: threading.RLock, pause: Pause) -> None:
        self._listener, self._log, self._lock, self._pause = listener, log, lock, pause
        self._known = KnownValues()
        self._nodes: dict[str, NodeView] | None = None
        """The nodes of the last view, in their newest state."""
        self._changed: dict[str, tuple[PodView, ...]] = {}
        """The pods on the nodes that have changed since a refresh began to make its view."""
        self._delivering = threading.Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Do not call the listener any more. A call that had begun before has ended when this returns."""
        self._is_stopped = True
        with self._delivering, self._lock:
            return

    def deliver(
        self, view: ClusterView, queries: Sequence[Query], values: Mapping[Query, ByNode], watch: ClusterWatch | None
    ) -> ClusterView:
        """Deliver a view, and return it with its version and nodes. ``values``: those of this refresh. Last ones are added to them."""
        self._known.update(queries, values, view.refreshed_at_s)
        with self._lock:
            self._changed = {}
        nodes = self._made_nodes(queries, watch)
        with self._lock:
            for name in self._changed.keys() & nodes.keys():
                nodes[name] = replace(nodes[name], pods=self._changed[name])
            self._nodes = nodes
            view = replace(view, version=next(VERSIONS), nodes=nodes)
        with self._delivering:
            self._call("a new view could not be used", self._listener.on_view, view)
        return view

    def on_pods(self, changes: PodChanges) -> None:
        """Deliver the nodes whose pods have changed, and the outcomes. The watch calls it under the lock.

        Before the first view there is nothing to change.
        """
        self._changed |= changes.nodes
        if self._nodes is None:
            return
        for name in changes.nodes.keys() & self._nodes.keys():
            # First in the view: the listener may not have begun to take it over.
            node = self._nodes[name] = replace(self._nodes[name], pods=changes.nodes[name])
            self._call(f"the change of the pods on node {name} could not be used", self._listener.on_node, node)
        for outcome in changes.outcomes:
            self._call(f"the outcome of pod {outcome.pod.name} could not be used", self._listener.on_outcome, outcome)

    def _made_nodes(self, queries: Sequence[Query], watch: ClusterWatch | None) -> dict[str, NodeView]:
        """Return the nodes of a view. Values of nodes that are not in the cluster are ignored, unless the nodes are not known.

        The lock is held for short times only, because the watches wait for it.
        """
        if watch is not None:
            with self._lock:
                nodes, clock = watch.nodes(), watch.moment()
                watch.tracker.forget_ended(clock.now_s)
            if nodes is not None:
                annotations = [query for query in queries if isinstance(query, Annotation)]
                records = with_pauses(nodes.values(), self._pause)
                return {record.name: self._made_node(record, annotations, watch.tracker, clock) for record in records}
        values = self._known.by_query
        names = dict.fromkeys(node for by_node in values.values() for node in by_node)
        return {name: NodeView(name, series=NodeSeries(values, name, NO_ANNOTATIONS)) for name in names}

    def _made_node(self, record: NodeRecord, annotations: Sequence[Annotation], tracker: PodTracker, clock: Clock) -> NodeView:
        found = ((query, _annotated(record, query, clock, self._log)) for query in annotations)
        annotated: dict[Query, Sequence[Series]] = {query: (one,) for query, one in found if one is not None}
        series = NodeSeries(self._known.by_query, record.name, annotated or NO_ANNOTATIONS)
        with self._lock:
            pods = tracker.pods_on(record.name)
        return NodeView(record.name, record.labels, record.allocatable, series, pods)

    def _call(self, what: str, method: Callable[[T], None], argument: T) -> None:
        """Call the listener. An error in it, or in an agent, must not end the thread of a source."""
        if self._is_stopped:
            return
        try:
            method(argument)
        except Exception as error:
            self._log.failed(what, error)


class KnownValues:
    """The newest values of each query by node, with those that are no longer read but not too old yet."""

    def __init__(self) -> None:
        self.by_query: dict[Query, ByNode] = {}
        self._read_at_s: dict[Query, float] = {}

    def update(self, queries: Iterable[Query], values: Mapping[Query, ByNode], now_s: float) -> None:
        """Take over the values of a refresh. Nodes and queries that have no new values keep the last ones for some time.

        The values of other queries than ``queries`` are forgotten.
        """
        before, read_at_s = self.by_query, {**self._read_at_s, **dict.fromkeys(values, now_s)}
        self.by_query, self._read_at_s = {}, {query: read_at_s[query] for query in queries if query in read_at_s}
        numbers: Numbers = {}
        for query, at_s in self._read_at_s.items():
            found = values.get(query)
            # An answer without a value of unknown age means that the value is unknown.
            keeps_ageless = found is None and now_s - at_s < KEPT_WITHOUT_AGE_S
            kept = _kept(before.get(query, {}), found, now_s, keeps_ageless=keeps_ageless)
            self.by_query[query] = PackedSeries.of_nodes({**kept, **(found or {})}, numbers) if kept or found is None else found


def _kept(before: ByNode, found: ByNode | None, now_s: float, *, keeps_ageless: bool) -> dict[str, Sequence[Series]]:
    """Return the nodes without new values, with their last ones that are not too old."""
    if isinstance(found, PackedSeries) and found.has_nodes_of(before):
        return {}

    def is_kept(one: Series) -> bool:
        return keeps_ageless if one.measured_at_s is None else one.measured_at_s > now_s - KEPT_S

    kept = {node: list(filter(is_kept, series)) for node, series in before.items() if found is None or node not in found}
    return {node: series for node, series in kept.items() if series}


def _annotated(record: NodeRecord, query: Annotation, clock: Clock, log: SourceLog) -> Series | None:
    found = record.annotations.get(query.key)
    if found is None:
        return None
    if found.time_s is None:
        log.once("the annotation has no time, so the age of its values is unknown; write value,time", annotation=query.key)
        return Series({}, found.value, None)
    measured_at_s = clock.monotonic(found.time_s)
    if measured_at_s is None:
        log.once("the time of the annotation is in the future, so its value is not used; check the clock", annotation=query.key)
        return None
    return Series({}, found.value, measured_at_s)
