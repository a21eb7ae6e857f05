# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The utilisation of the nodes of a table, ready for the objectives of the agent ``pigeon``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....interface import NodeView
from ...arrays import Booleans, Floats
from .objectives import Shares, variation_of_demands
from .table import MEMORY, PigeonReader, PigeonTable


class Placements:
    """The nodes that are known, and the sums over them. A node is known if it has allocatable CPU and memory.

    ``is_known``: for each node of the table. The arrays ``requested``, ``capacity`` and ``points`` have a row for each known node.
    ``points``: the utilisation. ``divisor``: the capacity, or infinity where it is 0.
    """

    def __init__(self, table: PigeonTable, prime: int) -> None:
        self.table = table
        self.is_known: Booleans = np.all(table.capacity[:, : MEMORY + 1] > 0, axis=1)
        self.requested, self.capacity = table.requested[self.is_known], table.capacity[self.is_known]
        self.divisor = np.where(self.capacity > 0, self.capacity, np.inf)
        self.points = self.requested / self.divisor
        count, resources = self.points.shape
        self.shares = Shares.of(self.points if count else np.zeros((1, resources)), prime)
        self._pods, self._demands, self._products = table.pods.sum(), table.demands.sum(axis=0), table.products.sum(axis=0)
        capacity = self.capacity.mean(axis=0) if count else np.zeros(resources)
        self._scale = np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)

    def variation_with(self, demand: Floats) -> float:
        """Return the variation of the demands of all pods on the nodes and of one more, relative to the mean capacity of a node."""
        scale = self._scale
        products = (self._products + np.outer(demand, demand)) * np.outer(scale, scale)
        return variation_of_demands(float(self._pods) + 1.0, (self._demands + demand) * scale, products)


class NewestPlacements:
    """The placements of a refresh, and those of the newest nodes that were asked for.

    The latter are a cache only: placements depend on the nodes, and not on those that were asked for before.
    """

    def __init__(self, reader: PigeonReader, prime: int, nodes: Sequence[NodeView]) -> None:
        self._reader, self._prime = reader, prime
        self.refreshed = self._newest = Placements(reader.table(nodes), prime)

    def of(self, nodes: Sequence[NodeView]) -> Placements:
        """Return the placements of the nodes. Only nodes that have changed since the last call are read again."""
        newest = self._newest
        table = self._reader.updated(newest.table, nodes)
        if table is not newest.table:
            newest = self._newest = Placements(table, self._prime)
        return newest
