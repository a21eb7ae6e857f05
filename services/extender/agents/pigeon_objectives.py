# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objectives of the agent ``pigeon``: for each node, the value of the whole cluster if the pod is placed there. Smaller is better.

A placement changes one node, so each value follows from sums over all nodes. No objective looks at pairs of nodes.
"""

from __future__ import annotations

import numpy as np

from .beta import Floats


def load_balance(before: Floats, after: Floats) -> Floats:
    """Return the standard deviation of the utilisation over the nodes. ``before`` and ``after``: each node without and with the pod."""
    count = len(before)
    mean = (before.sum() + after - before) / count
    # Relative to a common value, so that squares of nearly equal numbers are not subtracted.
    base = before.mean()
    squares = np.square(before - base)
    mean_square = (squares.sum() - squares + np.square(after - base)) / count
    deviation: Floats = np.sqrt(np.maximum(mean_square - np.square(mean - base), 0.0))
    return deviation


def consolidate(before: Floats, after: Floats) -> Floats:
    """Return 1 − √(mean of d²), d being the distance of a node from the mean, relative to the largest distance on its side.

    That is (mean − x) / mean below the mean, and (x − mean) / (1 − mean) above. It is small if nodes are either full or empty.
    """
    count = len(before)
    mean = (before.sum() + after - before) / count
    ordered = np.sort(before)
    sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in (ordered, np.square(ordered)))
    below = np.searchsorted(ordered, mean)
    low = below * np.square(mean) - 2.0 * mean * sums[below] + squares[below]
    high = (squares[-1] - squares[below]) - 2.0 * mean * (sums[-1] - sums[below]) + (count - below) * np.square(mean)
    total = _scaled(low, mean) + _scaled(high, 1.0 - mean) - _squared_distance(before, mean) + _squared_distance(after, mean)
    return 1.0 - np.sqrt(np.maximum(total, 0.0) / count)


def binpack(before: Floats, after: Floats, demand_variation: float) -> Floats:
    """Return the distance between the variation of the utilisation over the nodes and the variation of the demands.

    The variation of vectors is √(m'Sm) / (m'm) with the mean m and the covariance S (Albert and Zhang 2010). The arrays have a row for each
    node and a column for each resource.
    """
    count = len(before)
    mean = (before.sum(axis=0) + after - before) / count
    length = np.einsum("ir,ir->i", mean, mean)
    # Relative to a common point, so that squares of nearly equal numbers are not subtracted.
    base = before.mean(axis=0)
    products = (before - base).T @ (before - base)
    along_before, along_after, along_mean = (np.einsum("ir,ir->i", mean, points - base) for points in (before, after, mean))
    squares = np.einsum("ir,rs,is->i", mean, products, mean) - np.square(along_before) + np.square(along_after)
    return np.abs(_variation(squares / count - np.square(along_mean), length) - demand_variation)


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
