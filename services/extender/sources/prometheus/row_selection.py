# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rows of an answer that are used, with the node and the time of each. Of several series that measure the same, one is used."""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Callable, Iterator
from math import isnan, nan

from ...pauses import Pause, no_pause, with_pauses
from ..clock import measured_at
from ..node_mapping import NodeMapper
from ..packed_series import Layout, Numbers, PackedSeries
from .label_sets import LabelSet, SeriesLabels
from .target_parts import Rows

STALE_DUPLICATE_S = 60.0
"""Seconds by which one of two series that measure the same must be newer to be preferred for this reason."""

WEAK = "a series with the name or address of the node {node} in its own label is used instead"

TimeRow = Callable[[LabelSet, str], int | None]
"""Returns the row with the time of a series of a node, or None if the raw series does not exist any more."""


class Times(t.NamedTuple):
    """The monotonic times of the newest samples, with the label sets of their series. A time in the future cannot be right and is NaN.

    ``early``: the number of these times.
    """

    labels: list[LabelSet]
    values: array[float]
    early: int = 0


NO_TIMES = Times([LabelSet(b"", SeriesLabels((), ()), ("", ""), ())], array("d", [nan]))
"""The times of a query for which nothing tells the time. All rows have the first one."""


def times_of(rows: Rows, pause: Pause = no_pause) -> Times:
    """Return the times of an answer to ``timestamp()``."""
    ages = with_pauses(rows.values, pause)
    found = [measured_at(at_s, rows.evaluated_at_s or 0.0, rows.sent_at_s) for at_s in ages]
    return Times(rows.labels, array("d", (nan if at_s is None else at_s for at_s in found)), found.count(None))


class Selection(t.NamedTuple):
    """The rows of an answer that are used, in the order of ``layout``, and the rows with their times.

    ``made_for``: the version of the mapping of nodes, ``by_node``, the label sets of the rows, and those of the times. ``is_fixed``: the
    selection holds for all answers with these, because the times have not decided which series is used. ``rejected``: the other series,
    with the reasons. ``has_weak_nodes``: a node has only series of weak rules. ``needs_nodenames``: the node of a series may be found by
    ``node_uname_info``.
    """

    made_for: tuple[int, bool, list[LabelSet], list[LabelSet]]
    layout: Layout
    rows: array[int]
    time_rows: array[int]
    rejected: list[tuple[t.Mapping[str, str], str]]
    is_fixed: bool
    has_weak_nodes: bool
    needs_nodenames: bool

    def series(self, rows: Rows, times: Times, numbers: Numbers, pause: Pause) -> PackedSeries:
        """Return the series with the values of an answer and the times of another one."""
        values = array("d", (rows.values[row] for row in with_pauses(self.rows, pause)))
        return PackedSeries(self.layout, numbers, values, array("d", (times.values[row] for row in with_pauses(self.time_rows, pause))))


class _Row(t.NamedTuple):
    labels: LabelSet
    number: int
    time_row: int


class Selector:
    """Selects the rows of one answer. ``by_node``: the time of a series is the newest one of its node, as it has other labels.

    Of several series of a node that measure the same, one is used. Two servers or two jobs that read the same exporter give such series. If
    a series has the name or address of the node, the series of weak rules (see ``node_mapping.py``) are not used, so that a scraped pod
    cannot change the values of a node.
    """

    def __init__(self, times: Times, mapper: NodeMapper, pause: Pause = no_pause, *, by_node: bool) -> None:
        self._times, self._mapper, self._pause, self._by_node = times, mapper, pause, by_node
        self._nodes: dict[str, dict[tuple[str, ...], _Row]] = {}
        self._own: set[str] = set()
        """The nodes of which a series was mapped by a rule that is not weak."""
        self._rejected: list[tuple[t.Mapping[str, str], str]] = []
        self._is_fixed, self._needs_nodenames = not times.early, False
        self._time_row = self._made_time_row()

    def select(self, labels: list[LabelSet], numbers: Numbers) -> Selection:
        """Return the rows of series with these labels. ``numbers``: those of the nodes."""
        for number, one in with_pauses(enumerate(labels), self._pause):
            node = self._node_of(one)
            if node is None:
                self._rejected.append((one.labels, one.why))
                continue
            # A rate still has a value for the length of its window after the raw series has ended. Such a value is not used.
            time_row = self._time_row(one, node)
            if time_row is not None:
                self._add(node, _Row(one, number, time_row))
        has_weak_nodes, rows, time_rows = len(self._nodes) > len(self._own), array("i"), array("i")
        layout = Layout.of(self._labels_of_nodes(rows, time_rows), numbers)
        made_for = self._mapper.version, self._by_node, labels, self._times.labels
        return Selection(made_for, layout, rows, time_rows, self._rejected, self._is_fixed, has_weak_nodes, self._needs_nodenames)

    def _node_of(self, labels: LabelSet) -> str | None:
        self._needs_nodenames = self._needs_nodenames or self._mapper.needs_nodenames(labels)
        return self._mapper.node_of(labels)

    def _labels_of_nodes(self, rows: array[int], time_rows: array[int]) -> Iterator[tuple[str, list[t.Mapping[str, str]]]]:
        """Return the nodes with the labels of their rows, whose numbers are added.

        The objects are freed one node after another: in one step this takes 2 ms and more for 5,000 nodes, and a request would wait for it.
        """
        for node in with_pauses(list(self._nodes), self._pause):
            found = self._nodes.pop(node).values()
            rows.extend(row.number for row in found)
            time_rows.extend(row.time_row for row in found)
            yield node, [row.labels.labels for row in found]

    def _made_time_row(self) -> TimeRow:
        if self._times is NO_TIMES:
            return lambda _labels, _node: 0
        values = self._times.values
        rows = {one: row for row, one in enumerate(self._times.labels) if not isnan(values[row])}
        if not self._by_node:
            return lambda labels, _node: rows.get(labels)
        own: dict[str, int] = {}
        weak: dict[str, int] = {}
        for labels, row in with_pauses(rows.items(), self._pause):
            node = self._node_of(labels)
            if node is not None:
                newest = own if labels.is_own else weak
                other = newest.setdefault(node, row)
                self._is_fixed = self._is_fixed and other == row
                newest[node] = max(row, other, key=values.__getitem__)
        newest = weak | own
        return lambda _labels, node: newest.get(node)

    def _add(self, node: str, row: _Row) -> None:
        labels = row.labels
        if labels.is_own and node not in self._own:
            self._own.add(node)
            weak = self._nodes.pop(node, {}).values()
            self._rejected += [(one.labels.labels, WEAK.format(node=node)) for one in weak]
        elif not labels.is_own and node in self._own:
            self._rejected.append((labels.labels, WEAK.format(node=node)))
            return
        subjects = self._nodes.setdefault(node, {})
        other = subjects.setdefault(labels.subject, row)
        if other is not row:
            self._is_fixed = False
            used, unused = (row, other) if self._is_preferred(row, other) else (other, row)
            subjects[labels.subject] = used
            self._rejected.append((unused.labels.labels, f"another series of the node {node} measures the same: {_text_of(used.labels)}"))

    def _is_preferred(self, row: _Row, other: _Row) -> bool:
        """Return whether the row is used and not the other. Only a great difference of their times counts, so that the choice is stable."""
        newer_s = self._times.values[row.time_row] - self._times.values[other.time_row]
        if abs(newer_s) > STALE_DUPLICATE_S:  # false for two series of unknown time
            return newer_s > 0
        return sorted(row.labels.labels.items()) < sorted(other.labels.labels.items())


def _text_of(labels: LabelSet) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.labels.items()))
