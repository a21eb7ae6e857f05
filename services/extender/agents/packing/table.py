# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Capacity and requests of all nodes, and the sums over the requests of pods, as arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...interface import Demand, NodeView, PodView
from ..arrays import Floats

CPU, MEMORY, PODS, GPU, STORAGE = range(5)
DEFAULT_MILLICORES = 10.0
DEFAULT_MEMORY_BYTES = 16.0 * 2**20
"""The demand of a pod that requests no CPU or no memory, as in the original."""


@dataclass(frozen=True, slots=True)
class DemandTotals:
    """The number of pods, the sum of their demands, and the sum of the outer products of each demand with itself."""

    pods: float
    sums: Floats
    products: Floats

    @classmethod
    def of(cls, demands: Floats) -> DemandTotals:
        """Return the totals of demands, which are the rows."""
        return cls(float(len(demands)), demands.sum(axis=0), demands.T @ demands)

    def with_others(self, before: DemandTotals, after: DemandTotals) -> DemandTotals:
        """Return the totals after some pods were replaced by others."""
        sums, products = self.sums - before.sums + after.sums, self.products - before.products + after.products
        return DemandTotals(self.pods - before.pods + after.pods, sums, products)


@dataclass(frozen=True, slots=True)
class PigeonTable:
    """The arrays have a row for each node, and a column for each resource.

    ``totals``: of the pods on all nodes. Demands have the default values, ``requested`` has not.
    """

    nodes: tuple[NodeView, ...]
    index: dict[str, int]
    capacity: Floats
    requested: Floats
    totals: DemandTotals


class PigeonReader:
    """Reads the first ``count`` of the resources cpu, memory, pods, gpu and ephemeral-storage. ``gpu``: the name of the resource."""

    def __init__(self, count: int, gpu: str) -> None:
        self._names = ("cpu", "memory", "pods", gpu, "ephemeral-storage")[:count]

    def table(self, nodes: Sequence[NodeView]) -> PigeonTable:
        """Return the table of the nodes."""
        count = len(self._names)
        capacity = np.array([self._vector(node.allocatable) for node in nodes], dtype=np.float64).reshape(len(nodes), count)
        # Not lists of all pods, which would need ten times the memory of the arrays.
        amounts = (amount for node in nodes for pod in _running(node) for amount in self._vector_of(pod.demand))
        raw = np.fromiter(amounts, dtype=np.float64).reshape(-1, count)
        requested = np.zeros((len(nodes), count))
        np.add.at(requested, np.fromiter((row for row, node in enumerate(nodes) for _pod in _running(node)), dtype=np.intp), raw)
        # The caller may replace nodes in its list later.
        index = {node.name: row for row, node in enumerate(nodes)}
        return PigeonTable(tuple(nodes), index, capacity, requested, DemandTotals.of(with_defaults(raw)))

    def updated(self, table: PigeonTable, nodes: Sequence[NodeView]) -> PigeonTable:
        """Return the table of the nodes. Only the rows of nodes that differ from those of ``table`` are read."""
        if len(nodes) != len(table.nodes):
            return self.table(nodes)
        changed = [row for row, same in enumerate(map(operator.is_, nodes, table.nodes)) if not same]
        if any(nodes[row].name != table.nodes[row].name for row in changed):
            return self.table(nodes)
        return self.with_rows(table, changed, [nodes[row] for row in changed]) if changed else table

    def with_rows(self, table: PigeonTable, rows: Sequence[int], nodes: Sequence[NodeView]) -> PigeonTable:
        """Return the table with other states of some nodes."""
        new, old = self.table(nodes), self.table([table.nodes[row] for row in rows])
        capacity, requested, present = table.capacity.copy(), table.requested.copy(), list(table.nodes)
        capacity[rows], requested[rows] = new.capacity, new.requested
        for row, node in zip(rows, nodes, strict=True):
            present[row] = node
        return replace(
            table,
            nodes=tuple(present),
            capacity=capacity,
            requested=requested,
            totals=table.totals.with_others(old.totals, new.totals),
        )

    def demand(self, demand: Demand) -> Floats:
        """Return the demand of a pod with the default values."""
        vector: Floats = with_defaults(np.array([self._vector_of(demand)], dtype=np.float64))[0]
        return vector

    def key(self, demand: Demand) -> tuple[int, ...]:
        """Return the requests of the resources that count."""
        return self._vector_of(demand)

    def _vector_of(self, demand: Demand) -> tuple[int, ...]:
        return tuple(1 if name == "pods" else demand.requests.get(name, 0) for name in self._names)

    def _vector(self, amounts: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(amounts.get(name, 0) for name in self._names)


def _running(node: NodeView) -> Iterator[PodView]:
    return (pod for pod in node.pods if pod.ended_at_s is None)


def with_defaults(demands: Floats) -> Floats:
    """Return demands in which CPU and memory are not 0."""
    found = demands.copy()
    for column, default in ((CPU, DEFAULT_MILLICORES), (MEMORY, DEFAULT_MEMORY_BYTES)):
        if column < found.shape[1]:
            found[:, column] = np.where(found[:, column] == 0, default, found[:, column])
    return found
