# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Means with their confidence intervals, and the verdict about a goal that they allow."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from scipy.stats import t

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A mean, and half the width of its confidence interval."""

    mean: float
    half: float

    def verdict(self, limit: float) -> str:
        """Return "met" or "missed" if the whole interval is above or below the limit, and "even" if it contains the limit."""
        if abs(self.mean - limit) <= self.half:
            return "even"
        return "met" if self.mean > limit else "missed"


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of at least two values, with the interval of Student's t distribution."""
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    return Estimate(statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(len(values)))


def difference(values: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the mean of others − values. Values at the same position belong together, so the interval is that of their differences."""
    return estimate([other - value for value, other in zip(values, others, strict=True)])


def ratio(values: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the mean of values / others. Values at the same position belong together, so the interval is that of their ratios."""
    return estimate([value / other for value, other in zip(values, others, strict=True)])
