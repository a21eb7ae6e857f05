# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The utilisation of the nodes of a table, ready for the objectives of the agent ``pigeon``."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from ...interface import NodeView
from ..arrays import Booleans, Floats
from .objectives import Shares, variation_of_demands
from .table import MEMORY, PigeonTable

Rows = npt.NDArray[np.intp]
Limits = tuple[float, float]
"""The smallest and the largest change of the objective by a pod."""
MAX_LIMITS = 1024
"""Demands whose limits are kept."""


class Placements:
    """The nodes with the sums over them. Only nodes with allocatable CPU and memory are known.

    ``points``: the utilisation of each node. ``limits``: the smallest and the largest change of the objective on the nodes on which a pod
    fits, by its demand; None if it fits on none. Tables of the same refresh share it.
    """

    def __init__(self, table: PigeonTable, prime: int, limits: dict[Hashable, Limits | None]) -> None:
        self.table, self.limits = table, limits
        self.newest: Placements | None = None
        """The placements of the last calculation for all nodes after a binding. A node that is bound later is judged on them."""
        self.replaced: tuple[NodeView, Placements] | None = None
        """The node that was replaced last, and the placements with it. The demands of several requests ask for it."""
        self.is_known: Booleans = np.all(table.capacity[:, : MEMORY + 1] > 0, axis=1)
        self.known: Rows = np.flatnonzero(self.is_known)
        self.divisor = np.where(table.capacity > 0, table.capacity, np.inf)
        self.points = table.requested / self.divisor
        known = self.points[self.known]
        self.shares = Shares.of(known if len(known) else np.zeros((1, known.shape[1])), prime)
        capacity = table.capacity[self.known].mean(axis=0) if len(known) else np.zeros(known.shape[1])
        self._scale = np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)

    def variation_with(self, demand: Floats) -> float:
        """Return the variation of the demands of all pods on the nodes and of one more, relative to the mean capacity of a node."""
        totals, scale = self.table.totals, self._scale
        sums = (totals.sums + demand) * scale
        products = (totals.products + np.outer(demand, demand)) * np.outer(scale, scale)
        return variation_of_demands(totals.pods + 1.0, sums, products)

    def note(self, demand: Hashable, limits: Limits | None) -> None:
        """Keep the limits of a demand. The demand that was noted first is dropped if there are too many."""
        if demand not in self.limits and len(self.limits) >= MAX_LIMITS:
            self.limits.pop(next(iter(self.limits)), None)
        self.limits[demand] = limits
