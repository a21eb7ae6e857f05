# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Capacity and requests of all nodes as arrays, and their utilisation, ready for the objectives of the agent ``pigeon``."""

from __future__ import annotations

import operator
import typing as t
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ....interface import Demand, NodeView, PodView
from ...arrays import Booleans, Floats
from .objectives import Shares, variation_of_demands

CPU, MEMORY = range(2)
DEFAULT_MILLICORES = 10.0
DEFAULT_MEMORY_BYTES = 16.0 * 2**20
"""The demand of a pod that requests no CPU or no memory, as in the original."""


class Amounts(t.NamedTuple):
    """Arrays with a row for each node. ``capacity``, ``requested`` and ``demands`` have a column for each resource.

    ``pods``: the number of pods of each node. ``demands``: the sum of their requests, in which CPU and memory have the default values.
    ``products``: the sum of the outer products of each of these demands with itself.

    A row depends on its node only.
    """

    capacity: Floats
    requested: Floats
    pods: Floats
    demands: Floats
    products: Floats


class Placements:
    """The nodes with the sums over those that are known. A node is known if it has allocatable CPU and memory.

    ``is_known``: for each node. The arrays ``requested``, ``capacity`` and ``points`` have a row for each known node. ``points``: the
    utilisation. ``divisor``: the capacity, or infinity where it is 0.
    """

    def __init__(self, nodes: Sequence[NodeView], amounts: Amounts, prime: int) -> None:
        # The caller may replace nodes in its list later.
        self.nodes, self.amounts = tuple(nodes), amounts
        self.is_known: Booleans = np.all(amounts.capacity[:, : MEMORY + 1] > 0, axis=1)
        self.requested, self.capacity = amounts.requested[self.is_known], amounts.capacity[self.is_known]
        self.divisor = np.where(self.capacity > 0, self.capacity, np.inf)
        self.points = self.requested / self.divisor
        count, resources = self.points.shape
        self.shares = Shares.of(self.points if count else np.zeros((1, resources)), prime)
        capacity = self.capacity.mean(axis=0) if count else np.zeros(resources)
        self._scale = np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)
        self._pods, self._demands, self._products = (sums.sum(axis=0) for sums in (amounts.pods, amounts.demands, amounts.products))

    def variation_with(self, demand: Floats) -> float:
        """Return the variation of the demands of all pods on the nodes and of one more, relative to the mean capacity of a node."""
        scale = self._scale
        products = (self._products + np.outer(demand, demand)) * np.outer(scale, scale)
        return variation_of_demands(float(self._pods) + 1.0, (self._demands + demand) * scale, products)


class PigeonReader:
    """Reads the first ``count`` of the resources cpu, memory, pods, gpu and ephemeral-storage. ``gpu``: the name of the resource.

    ``prime``: the number of the resource of the objectives that have only one.
    """

    def __init__(self, count: int, gpu: str, prime: int) -> None:
        self._names = ("cpu", "memory", "pods", gpu, "ephemeral-storage")[:count]
        self._prime = prime

    def placements(self, nodes: Sequence[NodeView], before: Placements | None = None) -> Placements:
        """Return the placements of the nodes. Only the rows of nodes that differ from those of ``before`` are read."""
        if before is None or len(nodes) != len(before.nodes):
            return Placements(nodes, self._amounts(nodes), self._prime)
        rows = [row for row, same in enumerate(map(operator.is_, nodes, before.nodes)) if not same]
        if not rows:
            return before
        merged = [known.copy() for known in before.amounts]
        for known, newest in zip(merged, self._amounts([nodes[row] for row in rows]), strict=True):
            known[rows] = newest
        return Placements(nodes, Amounts(*merged), self._prime)

    def demand(self, demand: Demand) -> Floats:
        """Return the demand of a pod with the default values."""
        vector: Floats = _with_defaults(np.array([self.key(demand)], dtype=np.float64))[0]
        return vector

    def key(self, demand: Demand) -> tuple[int, ...]:
        """Return the requests of the resources that count."""
        return self._vector({**demand.requests, "pods": 1})

    def _amounts(self, nodes: Sequence[NodeView]) -> Amounts:
        count = len(self._names)
        capacity = np.array([self._vector(node.allocatable) for node in nodes], dtype=np.float64).reshape(len(nodes), count)
        # Not lists of all pods, which would need ten times the memory of the arrays.
        amounts = (amount for node in nodes for pod in _running(node) for amount in self.key(pod.demand))
        requests = np.fromiter(amounts, dtype=np.float64).reshape(-1, count)
        rows = np.fromiter((row for row, node in enumerate(nodes) for _pod in _running(node)), dtype=np.intp)
        demands, products = _with_defaults(requests), np.empty((len(nodes), count, count))

        def sums(values: Floats) -> Floats:
            return np.bincount(rows, values, len(nodes)).astype(np.float64, copy=False)

        for one in range(count):
            for other in range(one + 1):
                products[:, one, other] = products[:, other, one] = sums(demands[:, one] * demands[:, other])
        requested, demanded = (np.stack([sums(column) for column in values.T], axis=1) for values in (requests, demands))
        return Amounts(capacity, requested, sums(np.ones(len(rows))), demanded, products)

    def _vector(self, amounts: Mapping[str, int]) -> tuple[int, ...]:
        return tuple([amounts.get(name, 0) for name in self._names])


class NewestPlacements:
    """The placements of the newest nodes that were asked for, at first those of a refresh.

    They are a cache only: placements depend on the nodes, and not on those that were asked for before.
    """

    def __init__(self, reader: PigeonReader, nodes: Sequence[NodeView]) -> None:
        self._reader, self._newest = reader, reader.placements(nodes)

    def of(self, nodes: Sequence[NodeView]) -> Placements:
        """Return the placements of the nodes. Only nodes that have changed since the last call are read again."""
        newest = self._newest = self._reader.placements(nodes, self._newest)
        return newest


def _running(node: NodeView) -> Iterator[PodView]:
    return (pod for pod in node.pods if pod.ended_at_s is None)


def _with_defaults(demands: Floats) -> Floats:
    """Return demands in which CPU and memory are not 0."""
    found = demands.copy()
    for column, default in ((CPU, DEFAULT_MILLICORES), (MEMORY, DEFAULT_MEMORY_BYTES)):
        if column < found.shape[1]:
            found[:, column] = np.where(found[:, column] == 0, default, found[:, column])
    return found
