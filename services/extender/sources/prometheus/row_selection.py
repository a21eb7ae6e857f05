# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rows of an answer that are used, and the node of each. Of several series that measure the same, one is used.

A selection holds for the next answer too, if the series and their order, those of the times, and the nodes are the same.
"""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Iterator

from ...interface import Query
from ...pauses import Pause, no_pause, with_pauses
from ..packed_series import Layout, LayoutBuilder, Layouts, Numbers
from ..readings import Unmapped
from ..view import UnmappedSeries
from .label_sets import LabelSet

STALE_DUPLICATE_S = 60.0
"""Seconds by which one of two series that measure the same must be newer to be preferred for this reason."""

WEAK = "a series with the name or address of the node {node} in its own label is used instead"

Rows: t.TypeAlias = "array[int] | None"
"""Numbers of rows, or None for all rows in their order. It is a text, because Python 3.11 has no subscript of array."""


class RowSelection(t.NamedTuple):
    """The rows of the series in a layout, and those of their times in the answer with the times.

    ``has_weak_nodes``: a node has only series of weak rules.
    """

    layout: Layout
    rows: Rows
    time_rows: Rows
    unmapped: Unmapped
    has_weak_nodes: bool


class _Row(t.NamedTuple):
    labels: LabelSet
    number: int
    time_row: int


class RowCollector:
    """Collects the rows of one query by node. Of several series of a node that measure the same, one is used.

    Two servers or two jobs that read the same exporter give such series. The others count as unmapped. If a series has the name or address
    of the node, the series of weak rules (see ``node_mapping.py``) are not used, so that a scraped pod cannot change the values of a node.

    ``rows``: the number of rows in the answer. ``times``: monotonic, by the number of the row with the time.
    ``is_fixed``: the times have not decided which of two series is used.
    """

    def __init__(self, query: Query, source: str, rows: int, times: array[float]) -> None:
        self._query, self._source, self._rows, self._times = query, source, rows, times
        self._unmapped = Unmapped()
        self._nodes: dict[str, dict[tuple[str, ...], _Row]] = {}
        self._own: set[str] = set()
        """The nodes of which a series was mapped by a rule that is not weak."""
        self.is_fixed = True

    def add(self, node: str, labels: LabelSet, number: int, time_row: int) -> None:
        """Add a row of a node."""
        row = _Row(labels, number, time_row)
        if labels.is_own and node not in self._own:
            self._own.add(node)
            for weak in self._nodes.pop(node, {}).values():
                self._reject(weak.labels, WEAK.format(node=node))
        elif not labels.is_own and node in self._own:
            self._reject(labels, WEAK.format(node=node))
            return
        subjects = self._nodes.setdefault(node, {})
        other = subjects.setdefault(labels.subject, row)
        if other is not row:
            self.is_fixed = False
            used, unused = (row, other) if self._is_preferred(row, other) else (other, row)
            subjects[labels.subject] = used
            self._reject(unused.labels, f"another series of the node {node} measures the same: {_text_of(used.labels)}")

    def add_unmapped(self, labels: LabelSet) -> None:
        """Count a series that belongs to no node. The reason is in the label set."""
        self._reject(labels, labels.why)

    def selection(self, numbers: Numbers, layouts: Layouts, pause: Pause = no_pause) -> RowSelection:
        """Return the selected rows. ``numbers``: those of the nodes. ``layouts``: those of the source.

        The collector is empty afterwards. The objects are freed one node after another: in one step this takes 2 ms and more for
        5,000 nodes, and a request would wait for it.
        """
        has_weak_nodes = len(self._nodes) > len(self._own)
        selected, of_times, builder = array("i"), array("i"), LayoutBuilder(numbers)
        for node, found in self._emptied(pause):
            builder.add(node, [row.labels.labels for row in found])
            for row in found:
                selected.append(row.number)
                of_times.append(row.time_row)
        layout = layouts.only(builder.layout)
        rows, time_rows = _all_or(selected, self._rows), _all_or(of_times, len(self._times))
        return RowSelection(layout, rows, time_rows, self._unmapped, has_weak_nodes)

    def _emptied(self, pause: Pause) -> Iterator[tuple[str, list[_Row]]]:
        return ((node, list(self._nodes.pop(node).values())) for node in with_pauses(list(self._nodes), pause))

    def _reject(self, labels: LabelSet, why: str) -> None:
        self._unmapped.add(UnmappedSeries(self._source, self._query, labels.labels, why))

    def _is_preferred(self, row: _Row, other: _Row) -> bool:
        """Return whether the row is used and not the other. Only a great difference of their times counts, so that the choice is stable."""
        newer_s = self._times[row.time_row] - self._times[other.time_row]
        if abs(newer_s) > STALE_DUPLICATE_S:  # false for two series of unknown time
            return newer_s > 0
        return sorted(row.labels.labels.items()) < sorted(other.labels.labels.items())


def picked(values: array[float], rows: Rows, pause: Pause = no_pause) -> array[float]:
    """Return the values of rows."""
    return values if rows is None else array("d", (values[row] for row in with_pauses(rows, pause)))


def _all_or(rows: array[int], count: int) -> Rows:
    return None if len(rows) == count and rows == array("i", range(count)) else rows


def _text_of(labels: LabelSet) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.labels.items()))
