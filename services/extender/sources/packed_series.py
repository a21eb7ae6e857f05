# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The series of a refresh in arrays.

A cluster of 5,000 nodes has 100,000 series and more. As objects in a dictionary of each node they need 25 MB, and two refreshes exist at
the same time. In arrays a series needs 24 bytes. Its object is made when an agent reads it.
"""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan, nan

from ..interface import Query, Series

Numbers = dict[str, int]
"""The numbers of the nodes. The queries of one refresh share it, because most nodes have series of each query."""

ByNode = Mapping[str, Sequence[Series]]
"""The series of one query by node."""

ABSENT = -1

MAX_LAYOUTS = 8
"""Different layouts that are compared in a refresh."""


class Layout(t.NamedTuple):
    """The place and the number of the series of each node, by its number, and the labels of the series."""

    starts: array[int]
    ends: array[int]
    labels: list[Mapping[str, str]]


class LayoutBuilder:
    """Makes a layout, one node after another. ``numbers`` receives the nodes that it does not have yet."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self.layout = Layout(array("i", [ABSENT]) * len(numbers), array("i", [ABSENT]) * len(numbers), [])

    def add(self, node: str, labels: Iterable[Mapping[str, str]]) -> None:
        """Add a node with the labels of its series."""
        starts, ends, every = self.layout
        number = self._numbers.setdefault(node, len(self._numbers))
        while number >= len(starts):
            starts.append(ABSENT)
            ends.append(ABSENT)
        starts[number] = len(every)
        every.extend(labels)
        ends[number] = len(every)


class Layouts:
    """Keeps equal layouts once. Most queries have the same layout in each refresh, and two refreshes exist at the same time."""

    def __init__(self) -> None:
        self._used: list[Layout] = []
        self._before: list[Layout] = []

    def only(self, layout: Layout) -> Layout:
        """Return the first layout of this refresh or the one before that is equal to this one."""
        for known in self._used:
            if known == layout:
                return known
        found = next((known for known in self._before if known == layout), layout)
        if len(self._used) < MAX_LAYOUTS:
            self._used.append(found)
        return found

    def end_refresh(self) -> None:
        """Forget the layouts that this refresh did not use."""
        self._before, self._used = self._used, []


class PackedSeries(Mapping[str, Sequence[Series]]):
    """The series of one query by node, in the order of the layout. ``numbers``: those of the nodes. A time is NaN if it is not known."""

    __slots__ = ("_ends", "_labels", "_numbers", "_starts", "_times", "_values")

    def __init__(self, layout: Layout, numbers: Numbers, values: array[float], times: array[float]) -> None:
        self._starts, self._ends, self._labels = layout
        self._numbers, self._values, self._times = numbers, values, times

    @classmethod
    def of_nodes(cls, by_node: Iterable[tuple[str, Sequence[Series]]], numbers: Numbers, layouts: Layouts | None = None) -> PackedSeries:
        """Pack the series of nodes. ``numbers`` receives the nodes that it does not have yet."""
        builder, values, times = LayoutBuilder(numbers), array("d"), array("d")
        for node, found in by_node:
            builder.add(node, (series.labels for series in found))
            for series in found:
                values.append(series.value)
                times.append(nan if series.measured_at_s is None else series.measured_at_s)
        layout = builder.layout
        return cls(layouts.only(layout) if layouts is not None else layout, numbers, values, times)

    def __getitem__(self, node: str) -> Sequence[Series]:
        """Return the series of a node. Raises KeyError if it has none."""
        found: Sequence[Series] | None = self.get(node)
        if found is None:
            raise KeyError(node)
        return found

    def get(self, key: str, default: t.Any = None) -> t.Any:
        """Return the series of a node, or ``default``. The agents call it 100,000 times in a refresh."""
        starts, number = self._starts, self._numbers.get(key)
        if number is None or number >= len(starts):
            return default
        start, end = starts[number], self._ends[number]
        if end - start == 1:  # most queries
            at_s = self._times[start]
            return (Series(self._labels[start], self._values[start], None if isnan(at_s) else at_s),)
        return tuple(map(self._series, range(start, end))) if start != ABSENT else default

    def __contains__(self, node: object) -> bool:
        """Return whether the node has series."""
        number = self._numbers.get(node, len(self._starts)) if isinstance(node, str) else len(self._starts)
        return number < len(self._starts) and self._starts[number] != ABSENT

    def __iter__(self) -> Iterator[str]:
        """Return the nodes that have series."""
        # The other queries of the refresh may add nodes meanwhile, which have greater numbers.
        return (node for node, start in zip(tuple(self._numbers), self._starts, strict=False) if start != ABSENT)

    def __len__(self) -> int:
        """Return the number of nodes that have series."""
        return len(self._starts) - self._starts.count(ABSENT)

    def has_nodes_of(self, other: ByNode) -> bool:
        """Return true if both have the same layout, and so the same nodes. A comparison of each node takes much longer."""
        if not isinstance(other, PackedSeries) or self._starts is not other._starts:
            return False
        return self._numbers is other._numbers or self._numbers == other._numbers

    def _series(self, row: int) -> Series:
        at_s = self._times[row]
        return Series(self._labels[row], self._values[row], None if isnan(at_s) else at_s)


class NodeSeries(Mapping[Query, Sequence[Series]]):
    """The series of one node by query. ``annotated`` has those of annotations of the node."""

    __slots__ = ("_annotated", "_node", "_values")

    def __init__(self, values: Mapping[Query, ByNode], node: str, annotated: Mapping[Query, Sequence[Series]]) -> None:
        self._values, self._node, self._annotated = values, node, annotated

    def __getitem__(self, query: Query) -> Sequence[Series]:
        """Return the series of a query. Raises KeyError if there are none."""
        found: Sequence[Series] | None = self.get(query)
        if found is None:
            raise KeyError(query)
        return found

    def get(self, key: Query, default: t.Any = None) -> t.Any:
        """Return the series of a query, or ``default``."""
        by_node = self._values.get(key)
        return self._annotated.get(key, default) if by_node is None else by_node.get(self._node, default)

    def __iter__(self) -> Iterator[Query]:
        """Return the queries that have series."""
        yield from (query for query, by_node in self._values.items() if self._node in by_node)
        yield from self._annotated

    def __len__(self) -> int:
        """Return the number of queries that have series."""
        return len(self._annotated) + sum(self._node in by_node for by_node in self._values.values())
