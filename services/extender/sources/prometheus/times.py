# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The times of the newest samples, from an answer to ``timestamp()``."""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Callable
from math import isnan, nan

from ...pauses import Pause, no_pause, with_pauses
from ..clock import measured_at
from ..node_mapping import NodeMapper
from .client import VectorRows
from .label_sets import LabelSet
from .row_orders import NO_ROWS, RowOrder


class Finder(t.NamedTuple):
    """Finds the row with the time of a series.

    ``row_of`` receives the labels and the node of the series. It returns None if the series does not exist any more. ``is_fixed``: the
    result does not depend on the times.
    """

    row_of: Callable[[LabelSet, str], int | None]
    is_fixed: bool = True


class Times:
    """The monotonic times by row. A time in the future cannot be right and is NaN. ``early``: the number of series with such a time.

    ``is_complete``: every row has a time.
    """

    def __init__(self, order: RowOrder, values: array[float], *, is_complete: bool = True) -> None:
        self.order, self.values, self.is_complete = order, values, is_complete
        self._by_labels: dict[LabelSet, int] | None = None

    @classmethod
    def of(cls, rows: VectorRows, pause: Pause = no_pause) -> Times:
        """Return the times of an answer."""
        values, is_complete = array("d"), True
        evaluated_at_s = rows.evaluated_at_s
        if evaluated_at_s is not None:
            for at_s in with_pauses(rows.values, pause):
                measured_at_s = measured_at(at_s, evaluated_at_s, rows.sent_at_s)
                is_complete = is_complete and measured_at_s is not None
                values.append(nan if measured_at_s is None else measured_at_s)
        return cls(rows.order, values, is_complete=is_complete)

    @property
    def early(self) -> int:
        """Return the number of series whose time cannot be right."""
        return 0 if self.is_complete else len(set(self.order.labels)) - len(self._rows())

    def finder(self, mapper: NodeMapper, pause: Pause = no_pause, *, of_nodes: bool) -> Finder:
        """Return the finder of rows.

        ``of_nodes``: the time is the newest one of the node, because the series has other labels than those with the times.
        """
        if self is NO_TIMES:
            return Finder(lambda _labels, _node: 0)
        rows = self._rows()
        if not of_nodes:
            return Finder(lambda labels, _node: rows.get(labels), self.is_complete)
        own: dict[str, int] = {}
        weak: dict[str, int] = {}
        is_fixed = self.is_complete
        for labels, row in with_pauses(rows.items(), pause):
            node = mapper.node_of(labels)
            if node is None:
                continue
            newest = own if labels.is_own else weak
            other = newest.setdefault(node, row)
            if other != row:
                is_fixed = False
                newest[node] = row if self.values[row] > self.values[other] else other
        newest = weak | own
        return Finder(lambda _labels, node: newest.get(node), is_fixed)

    def _rows(self) -> dict[LabelSet, int]:
        if self._by_labels is None:
            self._by_labels = {labels: row for row, labels in enumerate(self.order.labels) if not isnan(self.values[row])}
        return self._by_labels


NO_TIMES = Times(NO_ROWS, array("d", [nan]))
"""The times of a query for which nothing tells the time. All rows have the first one."""
