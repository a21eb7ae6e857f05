# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rows of an answer that are used, with the node and the time of each. Of several series that measure the same, one is used."""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Callable
from math import isnan, nan

from ...pauses import Pause, no_pause, with_pauses
from ..clock import Clock
from ..packed_series import Layout, Numbers, PackedSeries, in_order
from .label_sets import LabelSet, SeriesLabels
from .node_mapping import NodeMapper
from .target_parts import Rows

STALE_DUPLICATE_S = 60.0
"""Seconds by which one of two series that measure the same must be newer to be preferred for this reason."""

WEAK = "a series with the name or address of the node {node} in its own label is used instead"

TimeRow = Callable[[LabelSet, str], int | None]
"""Returns the row with the time of a series of a node, or None if the raw series does not exist any more."""

Rejected = list[tuple[t.Mapping[str, str], str]]
"""The labels of series that are not used, each with the reason."""


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
    clock = Clock(rows.sent_at_s, rows.evaluated_at_s or 0.0)
    found = list(map(clock.monotonic, with_pauses(rows.values, pause)))
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
    rejected: Rejected
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


def select(
    labels: list[LabelSet], times: Times, mapper: NodeMapper, numbers: Numbers, pause: Pause = no_pause, *, by_node: bool
) -> Selection:
    """Return the rows of series with these labels. ``numbers``: those of the nodes. ``by_node``: a series has the newest time of its node.

    Of several series of a node that measure the same, one is used. Two servers or two jobs that read the same exporter give such series. If
    a series has the name or address of the node, the series of weak rules (see ``node_mapping.py``) are not used, so that a scraped pod
    cannot change the values of a node.
    """
    time_row, is_fixed = _time_rows(times, mapper, pause, by_node=by_node)
    rejected, of_nodes = Rejected(), dict[str, list[_Row]]()
    for number, one in with_pauses(enumerate(labels), pause):
        node = mapper.node_of(one)
        if node is None:
            rejected.append((one.labels, one.why))
            continue
        # A rate still has a value for the length of its window after the raw series has ended. Such a value is not used.
        at = time_row(one, node)
        if at is not None:
            of_nodes.setdefault(node, []).append(_Row(one, number, at))
    needs_nodenames = any(map(mapper.needs_nodenames, with_pauses([*labels, *times.labels] if by_node else labels, pause)))
    layout, rows, time_rows, has_weak_nodes = Layout(array("i", [0]), []), array("i"), array("i"), False
    for node in with_pauses(in_order(of_nodes, numbers), pause):
        # The objects are freed one node after another. One step for 5,000 nodes takes 2 ms and more, and a request would wait for it.
        found = of_nodes.pop(node)
        own = [row for row in found if row.labels.is_own]
        if own:
            rejected += [(row.labels.labels, WEAK.format(node=node)) for row in found if not row.labels.is_own]
        used = _one_of_each(node, own or found, times, rejected)
        has_weak_nodes, is_fixed = has_weak_nodes or not own, is_fixed and len(used) == len(own or found)
        layout.add(numbers[node], [row.labels.labels for row in used])
        rows.extend(row.number for row in used)
        time_rows.extend(row.time_row for row in used)
    made_for = mapper.version, by_node, labels, times.labels
    return Selection(made_for, layout, rows, time_rows, rejected, is_fixed, has_weak_nodes, needs_nodenames)


def _time_rows(times: Times, mapper: NodeMapper, pause: Pause, *, by_node: bool) -> tuple[TimeRow, bool]:
    """Return the rows with the times, and whether they are the same in all answers with the same label sets."""
    if times is NO_TIMES:
        return lambda _labels, _node: 0, True
    values, is_fixed = times.values, not times.early
    rows = {one: row for row, one in enumerate(times.labels) if not isnan(values[row])}
    if not by_node:
        return lambda labels, _node: rows.get(labels), is_fixed
    own, weak = dict[str, int](), dict[str, int]()
    for labels, row in with_pauses(rows.items(), pause):
        node = mapper.node_of(labels)
        if node is not None:
            newest = own if labels.is_own else weak
            other = newest.setdefault(node, row)
            is_fixed = is_fixed and other == row
            newest[node] = max(row, other, key=values.__getitem__)
    newest = weak | own
    return lambda _labels, node: newest.get(node), is_fixed


def _one_of_each(node: str, rows: list[_Row], times: Times, rejected: Rejected) -> list[_Row]:
    """Return the rows of a node, one of those that measure the same. The others are added to ``rejected``."""
    found: dict[tuple[str, ...], _Row] = {}
    for row in rows:
        subject = row.labels.subject
        other = found.setdefault(subject, row)
        if other is not row:
            used, unused = (row, other) if _is_preferred(row, other, times) else (other, row)
            found[subject] = used
            rejected.append((unused.labels.labels, f"another series of the node {node} measures the same: {_text_of(used.labels)}"))
    return list(found.values())


def _is_preferred(row: _Row, other: _Row, times: Times) -> bool:
    """Return whether the row is used and not the other. Only a great difference of their times counts, so that the choice is stable."""
    newer_s = times.values[row.time_row] - times.values[other.time_row]
    if abs(newer_s) > STALE_DUPLICATE_S:  # false for two series of unknown time
        return newer_s > 0
    return sorted(row.labels.labels.items()) < sorted(other.labels.labels.items())


def _text_of(labels: LabelSet) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.labels.items()))
