# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Capacity and requests of all nodes, and for each node the sums over the demands of its pods, as arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....interface import Demand, NodeView, PodView
from ...arrays import Floats

CPU, MEMORY, PODS, GPU, STORAGE = range(5)
DEFAULT_MILLICORES = 10.0
DEFAULT_MEMORY_BYTES = 16.0 * 2**20
"""The demand of a pod that requests no CPU or no memory, as in the original."""


@dataclass(frozen=True, slots=True)
class PigeonTable:
    """The arrays have a row for each node. ``capacity``, ``requested`` and ``demands`` have a column for each resource.

    ``pods``: the number of pods of each node. ``demands``: the sum of their requests, in which CPU and memory have the default values.
    ``products``: the sum of the outer products of each of these demands with itself.

    A row depends on its node only. So the table of some nodes is the same, whatever tables it was made from.
    """

    nodes: tuple[NodeView, ...]
    index: dict[str, int]
    capacity: Floats
    requested: Floats
    pods: Floats
    demands: Floats
    products: Floats


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
        requests = np.fromiter(amounts, dtype=np.float64).reshape(-1, count)
        rows = np.fromiter((row for row, node in enumerate(nodes) for _pod in _running(node)), dtype=np.intp)
        demands, products = with_defaults(requests), np.empty((len(nodes), count, count))

        def sums(values: Floats) -> Floats:
            return np.bincount(rows, values, len(nodes)).astype(np.float64, copy=False)

        for one in range(count):
            for other in range(one + 1):
                products[:, one, other] = products[:, other, one] = sums(demands[:, one] * demands[:, other])
        # The caller may replace nodes in its list later.
        index = {node.name: row for row, node in enumerate(nodes)}
        requested, demanded = (np.stack([sums(column) for column in values.T], axis=1) for values in (requests, demands))
        pods = np.bincount(rows, minlength=len(nodes)).astype(np.float64)
        return PigeonTable(tuple(nodes), index, capacity, requested, pods, demanded, products)

    def updated(self, table: PigeonTable, nodes: Sequence[NodeView]) -> PigeonTable:
        """Return the table of the nodes. Only the rows of nodes that differ from those of ``table`` are read."""
        if len(nodes) != len(table.nodes):
            return self.table(nodes)
        changed = [row for row, same in enumerate(map(operator.is_, nodes, table.nodes)) if not same]
        if any(nodes[row].name != table.nodes[row].name for row in changed):
            return self.table(nodes)
        return self._with_rows(table, changed, [nodes[row] for row in changed]) if changed else table

    def _with_rows(self, table: PigeonTable, rows: Sequence[int], nodes: Sequence[NodeView]) -> PigeonTable:
        """Return the table with other states of some nodes."""
        new, present = self.table(nodes), list(table.nodes)
        for row, node in zip(rows, nodes, strict=True):
            present[row] = node

        def merged(before: Floats, after: Floats) -> Floats:
            found = before.copy()
            found[rows] = after
            return found

        return replace(
            table,
            nodes=tuple(present),
            capacity=merged(table.capacity, new.capacity),
            requested=merged(table.requested, new.requested),
            pods=merged(table.pods, new.pods),
            demands=merged(table.demands, new.demands),
            products=merged(table.products, new.products),
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
