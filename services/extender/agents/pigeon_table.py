# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Capacity and requests of all nodes, and the sums over the requests of pods, as arrays."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..interface import Demand, NodeView
from .beta import Floats

CPU, MEMORY, PODS, GPU, STORAGE = range(5)
DEFAULT_MILLICORES = 10.0
DEFAULT_MEMORY_BYTES = 16.0 * 2**20
"""The demand of a pod that requests no CPU or no memory, as in the original."""


@dataclass(frozen=True, slots=True)
class PigeonTable:
    """The arrays have a row for each node, and a column for each resource.

    ``pods``, ``sums`` and ``products``: the number of pods on the node, the sum of their demands, and the sum of the outer products of each
    demand with itself. Demands have the default values, ``requested`` has not. The totals are over all nodes.
    """

    nodes: tuple[NodeView, ...]
    index: dict[str, int]
    capacity: Floats
    requested: Floats
    pods: Floats
    sums: Floats
    products: Floats
    total_pods: float
    total_sums: Floats
    total_products: Floats


class PigeonReader:
    """Reads the first ``count`` of the resources cpu, memory, pods, gpu and ephemeral-storage. ``gpu``: the name of the resource."""

    def __init__(self, count: int, gpu: str) -> None:
        self._names = ("cpu", "memory", "pods", gpu, "ephemeral-storage")[:count]

    def table(self, nodes: Sequence[NodeView]) -> PigeonTable:
        """Return the table of the nodes."""
        count = len(self._names)
        capacity = np.array([self._vector(node.allocatable) for node in nodes], dtype=np.float64).reshape(len(nodes), count)
        found = [(row, self._vector_of(pod.demand)) for row, node in enumerate(nodes) for pod in node.pods if pod.ended_at_s is None]
        owners = np.array([row for row, _vector in found], dtype=np.intp)
        raw = np.array([vector for _row, vector in found], dtype=np.float64).reshape(len(found), count)
        demands = with_defaults(raw)
        sums = np.zeros((len(nodes), count))
        requested, products = np.zeros_like(sums), np.zeros((len(nodes), count, count))
        np.add.at(requested, owners, raw)
        np.add.at(sums, owners, demands)
        np.add.at(products, owners, demands[:, :, None] * demands[:, None, :])
        pods = np.bincount(owners, minlength=len(nodes)).astype(np.float64)
        # The caller may replace nodes in its list later.
        index = {node.name: row for row, node in enumerate(nodes)}
        totals = float(pods.sum()), sums.sum(axis=0), products.sum(axis=0)
        return PigeonTable(tuple(nodes), index, capacity, requested, pods, sums, products, *totals)

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
        new = self.table(nodes)
        parts = {}
        for name in ("capacity", "requested", "pods", "sums", "products"):
            parts[name] = getattr(table, name).copy()
            parts[name][rows] = getattr(new, name)
        present = list(table.nodes)
        for row, node in zip(rows, nodes, strict=True):
            present[row] = node
        return replace(
            table,
            nodes=tuple(present),
            total_pods=table.total_pods - float(table.pods[rows].sum()) + new.total_pods,
            total_sums=table.total_sums - table.sums[rows].sum(axis=0) + new.total_sums,
            total_products=table.total_products - table.products[rows].sum(axis=0) + new.total_products,
            **parts,
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


def with_defaults(demands: Floats) -> Floats:
    """Return demands in which CPU and memory are not 0."""
    found = demands.copy()
    for column, default in ((CPU, DEFAULT_MILLICORES), (MEMORY, DEFAULT_MEMORY_BYTES)):
        if column < found.shape[1]:
            found[:, column] = np.where(found[:, column] == 0, default, found[:, column])
    return found
