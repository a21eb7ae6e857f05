# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The share of the allocatable resources that is requested (kubernetes ``plugins/noderesources/fit.go``).

The strategies are in ``least_allocated.go``, ``most_allocated.go`` and ``requested_to_capacity_ratio.go`` there, and in
``plugins/helper/shape_score.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...model.score_settings import MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO, ScoreSettings, ShapePoint
from .go_numbers import quotient, rounded_half_up
from .interface import MAX_NODE_SCORE, AllocationFormula, ResourceUse

MAX_SHAPE_SCORE = 10
MAX_UTILIZATION = 100


def strategy_formula(settings: ScoreSettings) -> AllocationFormula:
    """Return the formula of the scoring strategy of the profile."""
    if settings.strategy == REQUESTED_TO_CAPACITY_RATIO:
        return _requested_to_capacity_ratio(settings.shape)
    return _most_allocated if settings.strategy == MOST_ALLOCATED else _least_allocated


def _least_allocated(uses: Sequence[ResourceUse]) -> int:
    total = weights = 0
    for weight, requested, _before, allocatable in uses:
        weights += weight
        if requested <= allocatable:
            total += (allocatable - requested) * MAX_NODE_SCORE // allocatable * weight
    return total // weights if weights else 0


def _most_allocated(uses: Sequence[ResourceUse]) -> int:
    total = weights = 0
    for weight, requested, _before, allocatable in uses:
        weights += weight
        # The default requests of other pods can exceed what is allocatable.
        total += min(requested, allocatable) * MAX_NODE_SCORE // allocatable * weight
    return total // weights if weights else 0


def _requested_to_capacity_ratio(shape: Sequence[ShapePoint]) -> AllocationFormula:
    score_at = _broken_linear([ShapePoint(point.utilization, point.score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for point in shape])

    def score(uses: Sequence[ResourceUse]) -> int:
        total = weights = 0
        for weight, requested, _before, allocatable in uses:
            utilization = MAX_UTILIZATION if requested > allocatable else requested * MAX_UTILIZATION // allocatable
            of_resource = score_at(utilization)
            if of_resource > 0:
                total += of_resource * weight
                weights += weight
        return rounded_half_up(total / weights) if weights else 0

    return score


def _broken_linear(shape: Sequence[ShapePoint]) -> Callable[[int], int]:
    """Return the function that is linear between the points, and constant before the first and after the last one."""

    def score(utilization: int) -> int:
        for low, high in zip((None, *shape), shape):
            if utilization <= high.utilization:
                if low is None:
                    return high.score
                rise, run = high.score - low.score, high.utilization - low.utilization
                return low.score + quotient(rise * (utilization - low.utilization), run)
        return shape[-1].score

    return score
