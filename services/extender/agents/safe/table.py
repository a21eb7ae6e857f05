# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Capacity, use and deviation of CPU and memory of all nodes, as arrays."""

from __future__ import annotations

import math
import operator
import typing as t
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...interface import Annotation, NodeView, Query
from ..arrays import Floats
from ..measurements import Reading, name_of, oldest, read_value
from ..new_pods import unmeasured_share
from .arguments import RESOURCES, ResourceQueries, SafeArgs, resource_queries


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


Problems = tuple[str, ...]
"""The problem of each of ``RESOURCES``, or an empty text."""

NO_PROBLEMS: Problems = ("",) * len(RESOURCES)


class LoadNote(t.NamedTuple):
    """The time of the values of a load, and its problem."""

    measured_at_s: float | None
    problem: str


@dataclass(frozen=True)
class SafeTable:
    """The loads of nodes. The arrays have a row for each node and a column for each of ``RESOURCES``.

    ``times``: NaN if the time is not known. ``problems``: those of the rows that have some.
    """

    nodes: Sequence[NodeView]
    index: dict[str, int]
    problems: Mapping[int, Problems]
    capacity: Floats
    used: Floats
    deviation: Floats
    times: Floats
    replaced: dict[str, tuple[NodeView, Loads]] = field(default_factory=dict, init=False, compare=False, repr=False)
    """The loads of nodes that have changed since the table was made."""

    @cached_property
    def oldest_s(self) -> float | None:
        """Return the time of the oldest value of the nodes that are known."""
        found = self.times[(self.capacity > 0).all(axis=1)]
        found = found[~np.isnan(found)]
        return float(found.min()) if found.size else None

    def notes(self, row: int) -> tuple[LoadNote, ...]:
        """Return the parts of the loads of a row that are no amounts."""
        problems = self.problems.get(row, NO_PROBLEMS)
        times = (None if math.isnan(at_s) else at_s for at_s in self.times[row].tolist())
        return tuple(LoadNote(at_s, problem) for at_s, problem in zip(times, problems, strict=True))

    def changed_rows(self, nodes: Sequence[NodeView]) -> list[int] | None:
        """Return the rows in which other nodes are. None if the number of nodes differs."""
        if len(nodes) != len(self.nodes):
            return None
        return [row for row, same in enumerate(map(operator.is_, nodes, self.nodes)) if not same]

    def with_rows(self, nodes: Sequence[NodeView], rows: Sequence[int], loads: Sequence[Loads]) -> SafeTable:
        """Return the table with new loads in some rows. The names of the nodes are the same."""
        new = make_table([nodes[row] for row in rows], loads)
        arrays = [values.copy() for values in self._arrays]
        for values, of_rows in zip(arrays, new._arrays, strict=True):
            values[rows] = of_rows
        problems = {row: texts for row, texts in self.problems.items() if row not in set(rows)}
        problems |= {rows[number]: texts for number, texts in new.problems.items()}
        return SafeTable(tuple(nodes), self.index, problems, *arrays)

    @property
    def _arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.capacity, self.used, self.deviation, self.times

    def load_of(self, node: NodeView) -> Loads | None:
        """Return the loads of a node that has not changed since. None for another node."""
        row = self.index.get(node.name)
        if row is None or self.nodes[row] is not node:
            return None
        columns = (values[row].tolist() for values in (self.capacity, self.used, self.deviation))
        return tuple(ResourceLoad(*numbers, *note) for *numbers, note in zip(*columns, self.notes(row), strict=True))


def make_table(nodes: Sequence[NodeView], loads: Iterable[Loads]) -> SafeTable:
    """Return the table of nodes with their loads."""
    numbers, problems = array("d"), {}
    for row, of_node in enumerate(loads):
        for load in of_node:
            numbers.extend((load.capacity, load.used, load.deviation, math.nan if load.measured_at_s is None else load.measured_at_s))
        if any(load.problem for load in of_node):
            problems[row] = tuple(load.problem for load in of_node)
    values = np.array(numbers, dtype=np.float64).reshape(len(nodes), len(RESOURCES), 4)
    index = {node.name: row for row, node in enumerate(nodes)}
    columns = (np.ascontiguousarray(values[:, :, column]) for column in range(4))
    # The caller may replace nodes in its list later.
    return SafeTable(tuple(nodes), index, problems, *columns)


class LoadReader:
    """Reads the loads of nodes from their series, as the arguments require."""

    def __init__(self, args: SafeArgs) -> None:
        self._args = args
        self._queries = tuple((resource, resource_queries(args, resource)) for resource in RESOURCES)
        self.queries = tuple(dict.fromkeys(query for _name, windows in self._queries for one in windows for query in one.all()))

    def table(self, nodes: Sequence[NodeView], now_s: float, known: SafeTable | None = None) -> SafeTable:
        """Return the table of the nodes. ``known`` has loads that were read before."""
        changed = known.changed_rows(nodes) if known is not None else None
        if known is not None and changed is not None and all(nodes[row].name == known.nodes[row].name for row in changed):
            if not changed:
                return known
            return known.with_rows(nodes, changed, [self.loads(nodes[row], now_s, known) for row in changed])
        return make_table(nodes, (self.loads(node, now_s, known) if known is not None else self._loads(node, now_s) for node in nodes))

    def loads(self, node: NodeView, now_s: float, known: SafeTable) -> Loads:
        """Return the loads of one node. They are read one time for each change of the node."""
        found = known.load_of(node)
        if found is None:
            seen, found = known.replaced.get(node.name, (None, None))
            if seen is not node or found is None:
                found = self._loads(node, now_s)
                if node.name in known.index:
                    known.replaced[node.name] = node, found
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
