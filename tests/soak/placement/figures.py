# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Means over seeds with their confidence intervals."""

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

    @property
    def is_positive(self) -> bool:
        """Return whether the whole interval is above 0."""
        return self.mean > self.half


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of at least two values, with the interval of Student's t distribution."""
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    return Estimate(statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(len(values)))


def difference(values: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the mean of others − values. The values of one seed belong together, so the interval is that of their differences."""
    return estimate([other - value for value, other in zip(values, others, strict=True)])
