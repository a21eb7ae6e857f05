# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The series of a refresh in arrays.

5,000 nodes with all agents have 110,000 series. As objects in a dictionary of each query they need 20 MB, and in arrays 2 MB. Two refreshes
exist at the same time, and the goal for the whole program is 130 MB. The object of a series is made when an agent reads it.
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


class Layout(t.NamedTuple):
    """The place and the number of the series of each node, by its number, and the labels of the series. Most queries have one layout.

    If each query had its own, 5,000 nodes would need 2 MB more.
    """

    starts: array[int]
    ends: array[int]
    labels: list[Mapping[str, str]]

    @classmethod
    def of(cls, nodes: Iterable[tuple[str, Sequence[Mapping[str, str]]]], numbers: Numbers) -> Layout:
        """Return the layout of nodes with these labels of their series. ``numbers`` receives the nodes that it does not have yet."""
        starts, ends, every = array("i", [ABSENT]) * len(numbers), array("i", [ABSENT]) * len(numbers), list[Mapping[str, str]]()
        for node, labels in nodes:
            number = numbers.setdefault(node, len(numbers))
            while number >= len(starts):
                starts.append(ABSENT)
                ends.append(ABSENT)
            starts[number] = len(every)
            every.extend(labels)
            ends[number] = len(every)
        return cls(starts, ends, every)


class PackedSeries(Mapping[str, Sequence[Series]]):
    """The series of one query by node, in the order of the layout. ``numbers``: those of the nodes. A time is NaN if it is not known."""

    __slots__ = ("_ends", "_labels", "_numbers", "_starts", "_times", "_values")

    def __init__(self, layout: Layout, numbers: Numbers, values: array[float], times: array[float]) -> None:
        self._starts, self._ends, self._labels = layout
        self._numbers, self._values, self._times = numbers, values, times

    @classmethod
    def of_nodes(cls, by_node: Mapping[str, Sequence[Series]], numbers: Numbers) -> PackedSeries:
        """Pack the series of nodes. ``numbers`` receives the nodes that it does not have yet."""
        every = [series for found in by_node.values() for series in found]
        layout = Layout.of(((node, [series.labels for series in found]) for node, found in by_node.items()), numbers)
        times = array("d", (nan if series.measured_at_s is None else series.measured_at_s for series in every))
        return cls(layout, numbers, array("d", (series.value for series in every)), times)

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
