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
from itertools import pairwise
from math import isnan, nan

from ..interface import Query, Series

Numbers = dict[str, int]
"""The numbers of the nodes. The queries of one refresh share it, because most nodes have series of each query."""

ByNode = Mapping[str, Sequence[Series]]
"""The series of one query by node."""


class Layout(t.NamedTuple):
    """The place of the series of each node, and the labels of the series. Most queries have one layout.

    The series of the node with the number N begin at the place ``starts[N]`` and end before ``starts[N + 1]``. If each query had its own
    layout, 5,000 nodes would need 2 MB more.
    """

    starts: array[int]
    labels: list[Mapping[str, str]]

    def add(self, number: int, labels: Sequence[Mapping[str, str]]) -> None:
        """Add a node with the labels of its series. The nodes are added in the order of their numbers."""
        self.starts.extend([len(self.labels)] * (number + 1 - len(self.starts)))
        self.labels.extend(labels)
        self.starts.append(len(self.labels))


def in_order(nodes: Iterable[str], numbers: Numbers) -> list[str]:
    """Return the nodes in the order of their numbers. ``numbers`` receives the nodes that it does not have yet."""
    return sorted(nodes, key=lambda node: numbers.setdefault(node, len(numbers)))


class PackedSeries(Mapping[str, Sequence[Series]]):
    """The series of one query by node, in the order of the layout. ``numbers``: those of the nodes. A time is NaN if it is not known."""

    __slots__ = ("_labels", "_numbers", "_starts", "_times", "_values")

    def __init__(self, layout: Layout, numbers: Numbers, values: array[float], times: array[float]) -> None:
        self._starts, self._labels = layout
        self._numbers, self._values, self._times = numbers, values, times

    @classmethod
    def of_nodes(cls, by_node: Mapping[str, Sequence[Series]], numbers: Numbers) -> PackedSeries:
        """Pack the series of nodes. ``numbers`` receives the nodes that it does not have yet."""
        nodes = in_order(by_node, numbers)
        every = [series for node in nodes for series in by_node[node]]
        layout = Layout(array("i", [0]), [])
        for node in nodes:
            layout.add(numbers[node], [series.labels for series in by_node[node]])
        times = array("d", (nan if series.measured_at_s is None else series.measured_at_s for series in every))
        return cls(layout, numbers, array("d", (series.value for series in every)), times)

    def __getitem__(self, node: str) -> Sequence[Series]:
        """Return the series of a node. Raises KeyError if it has none."""
        starts, number = self._starts, self._numbers[node]
        if number + 1 >= len(starts) or starts[number] == starts[number + 1]:
            raise KeyError(node)
        start, end = starts[number], starts[number + 1]
        if end - start == 1:  # most queries
            return (self._series(start),)
        return tuple(map(self._series, range(start, end)))

    def __iter__(self) -> Iterator[str]:
        """Return the nodes that have series."""
        # The other queries of the refresh may add nodes meanwhile, which have greater numbers.
        return (node for node, (start, end) in zip(tuple(self._numbers), pairwise(self._starts), strict=False) if start != end)

    def __len__(self) -> int:
        """Return the number of nodes that have series."""
        return sum(1 for _node in self)

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
        by_node = self._values.get(query)
        return self._annotated[query] if by_node is None else by_node[self._node]

    def __iter__(self) -> Iterator[Query]:
        """Return the queries that have series."""
        yield from (query for query, by_node in self._values.items() if self._node in by_node)
        yield from self._annotated

    def __len__(self) -> int:
        """Return the number of queries that have series."""
        return sum(1 for _query in self)
