# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The balance of the requested resources of a node (kubernetes ``plugins/noderesources/balanced_allocation.go``).

The score compares the balance with the pod and the balance without it: 75 if it stays equal, 50 to 100 otherwise. Before Kubernetes 1.36 it
is the balance with the pod.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .interface import MAX_NODE_SCORE, ResourceUse


def balance_formula(uses: Sequence[ResourceUse]) -> int:
    """Return the score of a node: balancedResourceScorer."""
    with_pod = [_share(requested, allocatable) for _weight, requested, _before, allocatable in uses]
    without_pod = [_share(before, allocatable) for _weight, _requested, before, allocatable in uses]
    half = MAX_NODE_SCORE // 2
    return half + (half + _balance(with_pod) - _balance(without_pod)) // 2


def balance_formula_before_1_36(uses: Sequence[ResourceUse]) -> int:
    """Return the score of a node by kube-scheduler 1.35 and earlier."""
    return _balance([_share(requested, allocatable) for _weight, requested, _before, allocatable in uses])


def _share(requested: int, allocatable: int) -> float:
    # Go converts both numbers before the division.
    return float(requested) / float(allocatable) if requested < allocatable else 1.0


def _balance(shares: Sequence[float]) -> int:
    """Return 100 for equal shares of all resources, and less for a larger standard deviation of the shares."""
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        # The scheduler adds one share after the other. ``sum`` rounds in another way.
        total = squares = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    else:
        deviation = 0.0
    return int((1 - deviation) * MAX_NODE_SCORE)
