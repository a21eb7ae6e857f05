# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read the values of all nodes from Prometheus: one vector query for each metric, and one for the times of its samples.

An instant vector has the time of its evaluation, so the value of a dead exporter looks new for as long as the window of the rate. The age
of a value is therefore the time of the evaluation minus ``timestamp()`` of the raw series. Both are by Prometheus' clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from .....plugins.module_utils.model.values.shown import shown_value
from ...interface import Expression, Gauge, Query, Rate
from ...pauses import Pause, no_pause, with_pauses
from ..http_reader import SourceError
from ..kubernetes.node_objects import NodeRecord
from ..packed_series import ByNode, Numbers
from ..settings import PrometheusSettings
from ..view import Readings
from .client import PrometheusClient
from .label_sets import LabelSet, LabelSets
from .node_mapping import NodeMapper, nodenames_of
from .promql import shown_promql, time_text, uname_text, value_text
from .row_selection import NO_TIMES, Selection, Times, select, times_of
from .target_parts import Rows

UNSELECTED = (
    "sources.prometheus has no selector, and the nodes of some series are known only from node_uname_info or from a short name: a pod that"
    " Prometheus scrapes can claim the name of a node; set selector to the job of the node_exporters"
)

SHOWN_LABELS = 20
"""The names of labels in an error text."""

PrometheusQuery = Rate | Gauge | Expression


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
        self._mapper = NodeMapper(settings.node_label, settings.node_rules)
        self._client = PrometheusClient(
            settings, self._label_sets, node_of=self._mapper.node_of, on_warning=on_warning, pause=pause, clock=clock
        )
        self._urls, self._node_label, self._selector = settings.urls, settings.node_label, settings.selector
        self._on_warning = on_warning
        self._numbers: Numbers = {}
        self._selections: list[Selection] = []
        self._used: list[Selection] = []
        """The selections of the last refresh, and those of this one. Selecting again in each refresh of 5,000 nodes would take 0.5 s."""
        self._times: tuple[str, Times] = ("", NO_TIMES)
        """The last times that were read, with their query."""
        self._asked_nodenames = False

    def read(self, queries: Iterable[Query], nodes: Mapping[str, NodeRecord] | None) -> Readings:
        """Return the values of the queries by node. Errors are in the result. Queries for annotations are ignored.

        If a server answers all queries without a row, the next server is asked: the first may have lost its data or its targets.
        """
        self._mapper.use([record.identity for record in nodes.values()] if nodes is not None else None)
        # Without the nodes of the cluster, any number of names can come and go.
        self._numbers = self._mapper.numbers if nodes is not None else {}
        self._client.nodes = len(nodes) if nodes is not None else None
        asked = [query for query in queries if isinstance(query, (Rate, Gauge, Expression))]
        readings = Readings()
        for _server in self._urls:
            rows_before = self._client.rows_read
            readings = self._read_all(asked)
            if self._client.rows_read > rows_before or not readings.values:
                break
            self._client.prefer_next()
        self._note_missing_label(readings)
        self._label_sets.end_refresh()
        self._selections = self._used if nodes is not None else []
        return readings

    def _read_all(self, asked: Sequence[PrometheusQuery]) -> Readings:
        readings = Readings()
        self._asked_nodenames, self._used = False, []
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
        self._note_crowded(query, rows, readings)
        times = self._times_of(query, readings)
        selection = self._selection(query, rows.labels, times, readings)
        readings.add_unmapped(PrometheusSource.name, query, selection.rejected)
        if not self._selector and selection.has_weak_nodes:
            self._on_warning(UNSELECTED)
        return selection.series(rows, times, self._numbers, self._pause)

    def _selection(self, query: PrometheusQuery, labels: list[LabelSet], times: Times, readings: Readings) -> Selection:
        """Return the rows that are used. Queries about the same series, and the next refresh, have the same."""
        by_node = isinstance(query, Expression)
        selection = self._known_selection(labels, times, by_node=by_node)
        if selection is None or selection.needs_nodenames:
            self._learn_nodenames([*labels, *times.labels] if by_node else labels, readings)
            selection = self._known_selection(labels, times, by_node=by_node)
        if selection is None:
            selection = select(labels, times, self._mapper, self._numbers, self._pause, by_node=by_node)
        if selection.is_fixed and not any(one is selection for one in self._used):
            self._used.append(selection)
        return selection

    def _known_selection(self, labels: list[LabelSet], times: Times, *, by_node: bool) -> Selection | None:
        wanted = self._mapper.version, by_node, labels, times.labels
        return next((one for one in (*self._used, *self._selections) if one.made_for == wanted and not times.early), None)

    def _times_of(self, query: PrometheusQuery, readings: Readings) -> Times:
        """Return the times of the newest samples. The last ones that were read are kept, because several queries have the same."""
        text = time_text(query, self._node_label, self._selector)
        if not text:
            return NO_TIMES
        if self._times[0] != text:
            rows = self._client.query(text)
            self._note_crowded(query, rows, readings)
            self._times = text, times_of(rows, self._pause)
            early = self._times[1].early
            if early:
                problem = f"{early} series of {shown_promql(text)} are not used: their times are after the time of Prometheus"
                readings.problems.append(problem)
        return self._times[1]

    def _note_crowded(self, query: PrometheusQuery, rows: Rows, readings: Readings) -> None:
        """Add a problem for each target of which no row is used."""
        for (label, instance), (labels, why) in rows.crowded.items():
            node = self._mapper.node_of(labels)
            name = f"node {node}" if node else f"{self._node_label} {shown_value(label or instance)}"
            readings.problems.append(f"{name} has no values of {shown_promql(query[0])}: {why}")

    def _learn_nodenames(self, label_sets: Iterable[LabelSet], readings: Readings) -> None:
        """Read ``node_uname_info`` if one of the label sets may need it, at most one time in a refresh."""
        if self._asked_nodenames or not any(map(self._mapper.needs_nodenames, with_pauses(label_sets, self._pause))):
            return
        self._asked_nodenames = True
        try:
            rows = self._client.query(uname_text(self._selector))
        except SourceError as error:
            readings.problems.append(str(error))
        else:
            self._mapper.use_nodenames(nodenames_of(rows.labels))
