# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Capacity, use and deviation of CPU and memory of all nodes, as an array."""

from __future__ import annotations

import math
import operator
import typing as t
from collections.abc import Iterable, Sequence

import numpy as np

from ...interface import Annotation, NodeView, Query
from ..arrays import Floats
from ..measurements import Reading, name_of, oldest, read_value, unmeasured_share
from .arguments import RESOURCES, ResourceQueries, SafeArgs, resource_queries

CAPACITY, USED, DEVIATION, TIME = range(4)
"""The numbers of one resource in a table. The time is NaN if it is not known."""


class ResourceLoad(t.NamedTuple):
    """The load of one resource of a node, in the unit of requests.

    A ``capacity`` of 0 means that the load is unknown, and ``problem`` says why.
    """

    capacity: float = 0.0
    used: float = 0.0
    deviation: float = 0.0
    measured_at_s: float | None = None
    problem: str = ""


Loads = tuple[ResourceLoad, ...]
"""The loads of ``RESOURCES`` of a node."""


class SafeTable:
    """The numbers of all nodes of a refresh, and the loads of the nodes that have changed since.

    ``numbers``: by the row of the node, the column of ``RESOURCES`` and the number of the resource. Loads of 5,000 nodes as objects would
    need ten times the memory.
    """

    def __init__(self, nodes: Sequence[NodeView], loads: Iterable[Loads]) -> None:
        # The caller may replace nodes in its list later.
        self.nodes = tuple(nodes)
        self.rows = {node.name: row for row, node in enumerate(nodes)}
        self.numbers = numbers_of(loads)
        self.changed: dict[str, tuple[NodeView, Loads]] = {}


def numbers_of(loads: Iterable[Loads]) -> Floats:
    """Return the numbers of nodes with these loads."""
    found = (number for of_node in loads for one in of_node for number in (*one[:TIME], math.nan if one[TIME] is None else one[TIME]))
    return np.fromiter(found, dtype=np.float64).reshape(-1, len(RESOURCES), TIME + 1)


class LoadReader:
    """Reads the loads of nodes from their series, as the arguments require."""

    def __init__(self, args: SafeArgs) -> None:
        self._args = args
        self._queries = tuple((resource, resource_queries(args, resource)) for resource in RESOURCES)
        fields = (field for _resource, windows in self._queries for one in windows for field in one)
        self.queries = tuple(dict.fromkeys(field for field in fields if isinstance(field, Query)))

    def table(self, nodes: Sequence[NodeView], now_s: float) -> SafeTable:
        """Return the table of the nodes."""
        return SafeTable(nodes, (self._loads(node, now_s) for node in nodes))

    def numbers(self, table: SafeTable, nodes: Sequence[NodeView], now_s: float) -> Floats:
        """Return the numbers of the nodes, which are those of the table with changes, or some of them."""
        if len(nodes) != len(table.nodes):
            return numbers_of(self.loads(table, node, now_s) for node in nodes)
        rows = [row for row, same in enumerate(map(operator.is_, nodes, table.nodes)) if not same]
        if not rows:
            return table.numbers
        numbers = table.numbers.copy()
        numbers[rows] = numbers_of(self.loads(table, nodes[row], now_s) for row in rows)
        return numbers

    def loads(self, table: SafeTable, node: NodeView, now_s: float) -> Loads:
        """Return the loads of one node. They are read one time for each change of the node."""
        row = table.rows.get(node.name)
        if row is None or table.nodes[row] is node:
            return self._loads(node, now_s)
        seen, found = table.changed.get(node.name, (None, ()))
        if seen is not node:
            found = self._loads(node, now_s)
            table.changed[node.name] = node, found
        return found

    def _loads(self, node: NodeView, now_s: float) -> Loads:
        return tuple(self._load(node, resource, windows, now_s) for resource, windows in self._queries)

    def _load(self, node: NodeView, resource: str, windows: Sequence[ResourceQueries], now_s: float) -> ResourceLoad:
        queries = next(one for one in windows if one.history is None or self._read(node, one.history, now_s).value is not None)
        readings = [self._mean(node, queries.mean_free, now_s), self._read(node, queries.deviation, now_s)]
        readings += [self._capacity(node, resource, queries.capacity, now_s), *self._forecast(node, queries.forecast_free, now_s)]
        measured_at_s = oldest(one.measured_at_s for one in readings)
        values = [one.value for one in readings if one.value is not None]
        if len(values) < len(readings):
            problems = dict.fromkeys(one.problem for one in readings if one.value is None)
            return ResourceLoad(measured_at_s=measured_at_s, problem=f"{resource}: {'; '.join(problems)}")
        mean, deviation, capacity, *forecasts = values
        weight = self._args.forecast_weight / 100.0 if forecasts else 0.0
        free = queries.scale * ((1.0 - weight) * mean + weight * sum(forecasts))
        amount = queries.scale * capacity
        new = self._new_requests(node, resource, queries.window_s, now_s if measured_at_s is None else measured_at_s)
        used = max(0.0, max(amount - free, 0.0) + new)
        return ResourceLoad(amount, used, queries.scale * max(0.0, deviation), measured_at_s)

    def _forecast(self, node: NodeView, query: Query | None, now_s: float) -> list[Reading]:
        """Return the forecast, if there is one. Not every annotator writes it, as in kube-safe-scheduler."""
        found = [self._read(node, query, now_s)] if query is not None else []
        return [one for one in found if one.value is not None or one.measured_at_s is not None or not isinstance(query, Annotation)]

    def _capacity(self, node: NodeView, resource: str, query: Query | None, now_s: float) -> Reading:
        found = Reading(float(node.allocatable.get(resource, 0))) if query is None else self._read(node, query, now_s)
        if found.value is None or found.value > 0:
            return found
        return Reading(None, problem=f"no capacity above 0 is known from {name_of(query) if query else 'the allocatable resources'}")

    def _mean(self, node: NodeView, query: Query, now_s: float) -> Reading:
        found = self._read(node, query, now_s)
        if found.value is None or found.value >= 0:
            return found
        return Reading(None, found.measured_at_s, f"the value of {name_of(query)} is {found.value:g}, and at least 0 is expected")

    def _read(self, node: NodeView, query: Query, now_s: float) -> Reading:
        return read_value(node, query, now_s, self._args.max_age_s)

    def _new_requests(self, node: NodeView, resource: str, window_s: int, measured_at_s: float) -> float:
        if not self._args.count_new_pods:
            return 0.0
        total = 0.0
        for pod in node.pods:
            share = unmeasured_share(pod, measured_at_s, window_s)
            if share:
                total += share * pod.demand.requests.get(resource, 0)
        return max(0.0, total)
