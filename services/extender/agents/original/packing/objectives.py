# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objectives of the agent ``pigeon``: for each node, the value of the whole cluster if the pod is placed there. Smaller is better.

A placement changes one node, so each value follows from sums over all nodes. No objective reads pairs of nodes.

Source: the package pigeon of IBM/kube-safe-scheduler. The utilisation of a resource is the sum of the requests divided by the capacity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Floats


@dataclass(frozen=True, slots=True)
class Shares:
    """The utilisation of all nodes, as sums. ``prime``: the resource of the objectives that have only one.

    ``products``: the sum of the outer products of each node's distance from ``base``, the mean of all nodes. Distances are used so that
    squares of nearly equal numbers are not subtracted. ``ordered``: the utilisation of the prime resource in rising order. ``sums`` and
    ``squares``: the sums of its first values and of their squares.
    """

    count: int
    prime: int
    total: Floats
    base: Floats
    products: Floats
    ordered: Floats
    sums: Floats
    squares: Floats

    @classmethod
    def of(cls, points: Floats, prime: int) -> Shares:
        """Return the sums of points, which have a row for each node and a column for each resource."""
        total = points.sum(axis=0)
        base = total / len(points)
        distances = points - base
        ordered = np.sort(points[:, prime])
        sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in (ordered, np.square(ordered)))
        return cls(len(points), prime, total, base, distances.T @ distances, ordered, sums, squares)


def load_balance(nodes: Shares, before: Floats, after: Floats) -> Floats:
    """Return the standard deviation of the utilisation of the prime resource over all nodes.

    ``before`` and ``after``: the nodes that are judged without and with the pod, a row for each.
    """
    x, y = before[:, nodes.prime] - nodes.base[nodes.prime], after[:, nodes.prime] - nodes.base[nodes.prime]
    mean = (y - x) / nodes.count
    mean_square = (nodes.products[nodes.prime, nodes.prime] - np.square(x) + np.square(y)) / nodes.count
    deviation: Floats = np.sqrt(np.maximum(mean_square - np.square(mean), 0.0))
    return deviation


def consolidate(nodes: Shares, before: Floats, after: Floats) -> Floats:
    """Return 1 − √(mean of d²), d being the distance of a node from the mean, relative to the largest distance on its side.

    That is (mean − x) / mean below the mean, and (x − mean) / (1 − mean) above. It is small if nodes are either full or empty.
    """
    x, y = before[:, nodes.prime], after[:, nodes.prime]
    mean = (nodes.total[nodes.prime] + y - x) / nodes.count
    below = np.searchsorted(nodes.ordered, mean)
    low = below * np.square(mean) - 2.0 * mean * nodes.sums[below] + nodes.squares[below]
    sums, squares = nodes.sums[-1] - nodes.sums[below], nodes.squares[-1] - nodes.squares[below]
    high = squares - 2.0 * mean * sums + (nodes.count - below) * np.square(mean)
    total = _scaled(low, mean) + _scaled(high, 1.0 - mean) - _squared_distance(x, mean) + _squared_distance(y, mean)
    return 1.0 - np.sqrt(np.maximum(total, 0.0) / nodes.count)


def binpack(nodes: Shares, before: Floats, after: Floats, demand_variation: float) -> Floats:
    """Return the distance between the variation of the utilisation over the nodes and the variation of the demands.

    The variation of vectors is √(m'Sm) / (m'm) with the mean m and the covariance S (Albert and Zhang 2010).
    """
    mean = (nodes.total + after - before) / nodes.count
    length = np.einsum("ir,ir->i", mean, mean)
    along_before, along_after, along_mean = (np.einsum("ir,ir->i", mean, points - nodes.base) for points in (before, after, mean))
    squares = np.einsum("ir,rs,is->i", mean, nodes.products, mean) - np.square(along_before) + np.square(along_after)
    return np.abs(_variation(squares / nodes.count - np.square(along_mean), length) - demand_variation)


def variation_of_demands(count: float, sums: Floats, products: Floats) -> float:
    """Return the variation of demands from their number, their sum, and the sum of their outer products."""
    mean = sums / count
    length = mean @ mean
    variance = mean @ products @ mean / count - length * length
    return float(_variation(np.array([variance]), np.array([length]))[0])


def _variation(variance: Floats, length: Floats) -> Floats:
    """Return √(m'Sm) / (m'm). ``variance`` is m'Sm, and ``length`` is m'm."""
    spread = np.sqrt(np.maximum(variance, 0.0))
    return np.divide(spread, length, out=np.zeros_like(spread), where=length > 0)


def _squared_distance(x: Floats, mean: Floats) -> Floats:
    squared = np.square(x - mean)
    return np.where(x < mean, _scaled(squared, mean), _scaled(squared, 1.0 - mean))


def _scaled(squared: Floats, largest: Floats) -> Floats:
    return np.divide(squared, np.square(largest), out=np.zeros_like(squared), where=largest > 0)
