# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read the values of all nodes from Prometheus: one vector query for each metric, and one for the times of its samples.

An instant vector has the time of its evaluation, so the value of a dead exporter looks new for as long as the window of the rate. The age
of a value is therefore the time of the evaluation minus ``timestamp()`` of the raw series. Both are by Prometheus' clock.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterable, Sequence

from .....plugins.module_utils.model.values.shown import shown_value
from ...interface import Expression, Gauge, Query, Rate
from ...pauses import Pause, no_pause, with_pauses
from ..http_reader import SourceError
from ..node_mapping import NodeMapper, NodeTable, nodenames_of
from ..packed_series import ByNode, Layouts, Numbers, PackedSeries
from ..readings import Readings
from ..settings import PrometheusSettings
from .client import PrometheusClient, VectorRows
from .label_sets import LabelSets
from .promql import shown_promql, time_text, uname_text, value_text
from .row_orders import RowOrder, RowOrders
from .row_selection import RowCollector, RowSelection, picked
from .times import NO_TIMES, Times

UNSELECTED = (
    "sources.prometheus has no selector, and the nodes of some series are known only from node_uname_info or from a short name: a pod that"
    " Prometheus scrapes can claim the name of a node; set selector to the job of the node_exporters"
)

SHOWN_LABELS = 20
"""The names of labels in an error text."""

PrometheusQuery = Rate | Gauge | Expression


class _SelectionKey(t.NamedTuple):
    order: RowOrder
    times: RowOrder
    mapping: int
    numbers: Numbers


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
        self._layouts, self._orders = Layouts(), RowOrders()
        self._mapper = NodeMapper(settings.node_label, settings.node_rules)
        self._client = PrometheusClient(
            settings, self._label_sets, self._orders, node_of=self._mapper.node_of, on_warning=on_warning, pause=pause, clock=clock
        )
        self._node_label, self._selector = settings.node_label, settings.selector
        self._on_warning = on_warning
        self._numbers: Numbers = {}
        self._selections: dict[PrometheusQuery, tuple[_SelectionKey, RowSelection]] = {}
        """The rows that the last refresh has used."""
        self._times: tuple[str, Times] = ("", NO_TIMES)
        """The last times that were read, with their query."""
        self._asked_nodenames = False

    def read(self, queries: Iterable[Query], nodes: NodeTable) -> Readings:
        """Return the values of the queries by node. Errors are in the result. Queries for annotations are ignored.

        If a server answers all queries without a row, the next server is asked: the first may have lost its data or its targets.
        """
        self._mapper.use(nodes)
        self._numbers = nodes.numbers if nodes.is_known else {}
        self._client.nodes = len(nodes.nodes) if nodes.is_known else None
        asked = [query for query in queries if isinstance(query, (Rate, Gauge, Expression))]
        readings = Readings()
        for _server in range(self._client.servers):
            rows_before = self._client.rows_read
            readings = self._read_all(asked)
            if self._client.rows_read > rows_before or not readings.values:
                break
            self._client.prefer_next()
        self._note_missing_label(readings)
        self._label_sets.end_refresh(with_pauses(self._orders.used(), self._pause))
        self._orders.end_refresh()
        self._layouts.end_refresh()
        self._selections = {query: self._selections[query] for query in asked if query in self._selections}
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
        self._times = ("", NO_TIMES)
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
        self._learn_nodenames(rows.order, readings)
        self._note_crowded(query, rows, readings)
        times = self._times_of(query, readings)
        if isinstance(query, Expression):
            self._learn_nodenames(times.order, readings)
        # If all of these are the same objects as in the last refresh, the same rows are used.
        key = _SelectionKey(rows.order, times.order, self._mapper.version, self._numbers)
        known_key, selection = self._selections.get(query, (None, None))
        if selection is None or known_key != key or not times.is_complete:
            selection, is_fixed = self._selected(query, rows.order, times)
            self._selections.pop(query, None)
            if is_fixed:
                self._selections[query] = key, selection
        readings.unmapped.add_all(selection.unmapped)
        if not self._selector and selection.has_weak_nodes:
            self._on_warning(UNSELECTED)
        values, at_s = picked(rows.values, selection.rows, self._pause), picked(times.values, selection.time_rows, self._pause)
        return PackedSeries(self._layouts.only(selection.layout), self._numbers, values, at_s)

    def _selected(self, query: PrometheusQuery, order: RowOrder, times: Times) -> tuple[RowSelection, bool]:
        """Return the rows that are used, and whether other values and times would not change them."""
        collector = RowCollector(query, PrometheusSource.name, len(order), times.values)
        node_of, finder = self._mapper.node_of, times.finder(self._mapper, self._pause, of_nodes=isinstance(query, Expression))
        for number, labels in with_pauses(enumerate(order.labels), self._pause):
            node = node_of(labels)
            if node is None:
                collector.add_unmapped(labels)
                continue
            # A rate still has a value for the length of its window after the raw series has ended. Such a value is not used.
            time_row = finder.row_of(labels, node)
            if time_row is not None:
                collector.add(node, labels, number, time_row)
        return collector.selection(self._numbers, self._layouts, self._pause), collector.is_fixed and finder.is_fixed

    def _times_of(self, query: PrometheusQuery, readings: Readings) -> Times:
        """Return the times of the newest samples. The last ones that were read are kept, because several queries have the same."""
        text = time_text(query, self._node_label, self._selector)
        if not text:
            return NO_TIMES
        if self._times[0] != text:
            rows = self._client.query(text)
            self._note_crowded(query, rows, readings)
            self._times = text, Times.of(rows, self._pause)
            early = self._times[1].early
            if early > 0:
                problem = f"{early} series of {shown_promql(text)} are not used: their times are after the time of Prometheus"
                readings.problems.append(problem)
        return self._times[1]

    def _note_crowded(self, query: PrometheusQuery, rows: VectorRows, readings: Readings) -> None:
        """Add a problem for each target of which no row is used."""
        for labels, why in rows.crowded:
            node, target = self._mapper.node_of(labels), self._label_sets.target_of(labels)
            name = f"node {node}" if node else f"{self._node_label} {shown_value(target.node or target.instance)}"
            readings.problems.append(f"{name} has no values of {shown_promql(query[0])}: {why}")

    def _learn_nodenames(self, order: RowOrder, readings: Readings) -> None:
        """Read ``node_uname_info`` if one of the label sets may need it, at most one time in a refresh."""
        if self._asked_nodenames or order.mapped_by == self._mapper.version:
            return
        if not any(map(self._mapper.needs_nodenames, with_pauses(order.labels, self._pause))):
            order.mapped_by = self._mapper.version
            return
        self._asked_nodenames = True
        try:
            rows = self._client.query(uname_text(self._selector))
        except SourceError as error:
            readings.problems.append(str(error))
        else:
            self._mapper.use_nodenames(nodenames_of(rows.order.labels))
