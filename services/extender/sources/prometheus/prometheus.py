# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read the values of all nodes from Prometheus: one vector query for each metric, and one for the times of its samples.

An instant vector has the time of its evaluation, so the value of a dead exporter looks new for as long as the window of the rate. The age
of a value is therefore the time of the evaluation minus ``timestamp()`` of the raw series. Both are by Prometheus' clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from ...interface import Expression, Gauge, Query, Rate
from ...pauses import Pause, no_pause, with_pauses
from ..clock import measured_at
from ..http_reader import SourceError
from ..node_mapping import NodeMapper, NodeTable, nodenames_of
from ..packed_series import ByNode, Layouts
from ..readings import Readings, SeriesCollector
from ..settings import PrometheusSettings
from .client import PrometheusClient
from .label_sets import LabelSet, LabelSets
from .promql import shown_promql, time_text, uname_text, value_text

UNSELECTED = (
    "sources.prometheus has no selector, and the nodes of some series are known only from node_uname_info or from a short name: a pod that"
    " Prometheus scrapes can claim the name of a node; set selector to the job of the node_exporters"
)

SHOWN_LABELS = 20
"""The names of labels in an error text."""

PrometheusQuery = Rate | Gauge | Expression
Times = dict[LabelSet, float]
"""The monotonic time of the newest sample of each label set. A time that cannot be right is left out."""


class PrometheusSource:
    """Reads queries from Prometheus. Used by one thread.

    ``on_warning`` receives the warnings of Prometheus, and one if a scraped pod could claim to be a node.
    """

    name = "prometheus"

    def __init__(
        self,
        settings: PrometheusSettings,
        *,
        on_warning: Callable[[str], None] = lambda _text: None,
        pause: Pause = no_pause,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pause = pause
        self._label_sets = LabelSets(settings.node_label)
        self._layouts = Layouts()
        self._client = PrometheusClient(settings, self._label_sets, on_warning=on_warning, pause=pause, clock=clock)
        self._node_label, self._selector = settings.node_label, settings.selector
        self._mapper = NodeMapper(settings.node_label, settings.node_rules)
        self._on_warning = on_warning
        self._times: tuple[str, Times] = ("", {})
        """The last times that were read, with their query."""
        self._asked_nodenames = False

    def read(self, queries: Iterable[Query], nodes: NodeTable) -> Readings:
        """Return the values of the queries by node. Errors are in the result. Queries for annotations are ignored.

        If a server answers all queries without a row, the next server is asked: the first may have lost its data or its targets.
        """
        self._mapper.use(nodes)
        asked = [query for query in queries if isinstance(query, (Rate, Gauge, Expression))]
        readings = Readings()
        for _server in range(self._client.servers):
            rows_before = self._client.rows_read
            readings = self._read_all(asked)
            if self._client.rows_read > rows_before or not readings.values:
                break
            self._client.prefer_next()
        self._note_missing_label(readings)
        self._label_sets.end_refresh()
        self._layouts.end_refresh()
        return readings

    def _read_all(self, asked: Sequence[PrometheusQuery]) -> Readings:
        readings = Readings()
        self._asked_nodenames = False
        # Queries with the same times follow each other, so that the times are read once and only one set of them needs memory.
        for query in sorted(asked, key=lambda query: time_text(query, self._node_label, self._selector)):
            try:
                readings.values[query] = self._by_node(query, readings)
            except SourceError as error:
                readings.problems.append(str(error))
                if error.unreachable:
                    break  # The other queries would only wait for the same timeout.
        self._times = ("", {})
        return readings

    def _note_missing_label(self, readings: Readings) -> None:
        """Add a problem if no series has the label of the node. This is a problem too if other labels name the nodes."""
        names = self._label_sets.names_without(self._node_label)
        if names is None:
            return
        label = self._node_label
        found = f"they have {', '.join(sorted(names)[:SHOWN_LABELS])}" if names else f"sum by ({label}) in a query keeps it"
        readings.problems.append(f"sources.prometheus.node_label is {label}, and no series has this label: {found}")

    def _by_node(self, query: PrometheusQuery, readings: Readings) -> ByNode:
        rows = self._client.query(value_text(query, self._selector))
        self._learn_nodenames((labels for labels, _value in with_pauses(rows.values, self._pause)), readings)
        time_of = self._time_of(query, readings)
        collector = SeriesCollector(query, PrometheusSource.name, readings.unmapped)
        node_of = self._mapper.node_of
        for labels, value in with_pauses(rows.values, self._pause):
            node = node_of(labels)
            if node is None:
                collector.add_unmapped(labels)
                continue
            measured_at_s, is_known = time_of(labels, node)
            if is_known:
                collector.add(node, labels, value, measured_at_s)
        if not self._selector and collector.has_weak_nodes:
            self._on_warning(UNSELECTED)
        return collector.by_node(readings.numbers, self._layouts, self._pause)

    def _time_of(self, query: PrometheusQuery, readings: Readings) -> Callable[[LabelSet, str], tuple[float | None, bool]]:
        """Return a function of a label set and a node. It returns the time of the newest sample, and whether the series still exists.

        A rate still has a value for the length of its window after the raw series has ended. Such a value is not used.
        """
        text = time_text(query, self._node_label, self._selector)
        if not text:
            return lambda _labels, _node: (None, True)
        if self._times[0] != text:
            self._times = (text, self._read_times(text, readings))
        times = self._times[1]
        if not isinstance(query, Expression):
            return lambda labels, _node: (times.get(labels), labels in times)
        self._learn_nodenames(with_pauses(times, self._pause), readings)
        own: dict[str, float] = {}
        weak: dict[str, float] = {}
        for labels, at_s in with_pauses(times.items(), self._pause):
            node = self._mapper.node_of(labels)
            if node is not None:
                newest = own if labels.is_own else weak
                newest[node] = max(at_s, newest.get(node, at_s))
        newest = weak | own
        return lambda _labels, node: (newest.get(node), node in newest)

    def _read_times(self, text: str, readings: Readings) -> Times:
        """Return the monotonic time of each sample. Times in the future are left out, and are a problem of the readings."""
        rows = self._client.query(text)
        evaluated_at_s = rows.evaluated_at_s
        if evaluated_at_s is None:
            return {}
        times = {}
        monotonic: dict[float, float | None] = {}  # the series of one target have the same time, and it is kept once
        for labels, at_s in with_pauses(rows.values, self._pause):
            if at_s not in monotonic:
                monotonic[at_s] = measured_at(at_s, evaluated_at_s, rows.sent_at_s)
            measured_at_s = monotonic[at_s]
            if measured_at_s is not None:
                times[labels] = measured_at_s
        early = len({labels for labels, _at_s in rows.values}) - len(times)
        if early > 0:
            readings.problems.append(f"{early} series of {shown_promql(text)} are not used: their times are after the time of Prometheus")
        return times

    def _learn_nodenames(self, label_sets: Iterable[LabelSet], readings: Readings) -> None:
        """Read ``node_uname_info`` if one of the label sets may need it, at most one time in a refresh."""
        if self._asked_nodenames or not any(map(self._mapper.needs_nodenames, label_sets)):
            return
        self._asked_nodenames = True
        try:
            rows = self._client.query(uname_text(self._selector))
        except SourceError as error:
            readings.problems.append(str(error))
        else:
            self._mapper.use_nodenames(nodenames_of(labels for labels, _value in rows.values))
