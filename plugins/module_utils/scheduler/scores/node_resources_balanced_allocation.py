# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The balance of the requested resources of a node (kubernetes ``plugins/noderesources/balanced_allocation.go``).

The score compares the balance with the pod and the balance without it: 75 if it stays equal, 50 to 100 otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from .interface import MAX_NODE_SCORE, ResourceUse


def balance_formula(uses: Sequence[ResourceUse]) -> int:
    """Return the score of a node: balancedResourceScorer."""
    with_pod = _balance([float(requested) / float(allocatable) for _weight, requested, _before, allocatable in uses])
    without_pod = _balance([float(before) / float(allocatable) for _weight, _requested, before, allocatable in uses])
    half = MAX_NODE_SCORE // 2
    return half + (half + with_pod - without_pod) // 2


def _balance(shares: Collection[float]) -> int:
    """Return 100 for equal shares of all resources, and less for a larger standard deviation of the shares."""
    fractions = [min(share, 1.0) for share in shares]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        # As in the scheduler, each sum starts at the first fraction, because the order decides the rounding. ``sum`` rounds otherwise.
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * MAX_NODE_SCORE)
