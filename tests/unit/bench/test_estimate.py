# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Means with their confidence intervals, and the verdict about a goal."""

from __future__ import annotations

import pytest

from tests.bench.estimate import Estimate, difference, estimate, ratio


def test_the_interval_of_a_mean_is_that_of_the_t_distribution() -> None:
    # The quantile for 4 degrees of freedom is 2.776, and the standard deviation is 1.581.
    assert estimate([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx((3.0, 2.776 * 1.581 / 5**0.5), rel=1e-3)


def test_the_interval_of_paired_values_is_narrow() -> None:
    values, others = [1.0, 5.0, 9.0], [1.1, 5.1, 9.11]
    assert difference(values, others).verdict(0) == "met" and not estimate(values).half < 5
    mean, half = ratio([2.0, 10.1, 18.0], values)
    assert mean == pytest.approx(2.0, abs=0.01) and half < 0.05


def test_values_without_a_partner_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("mean", "half", "verdict"),
    [
        pytest.param(1.05, 0.04, "met", id="above"),
        pytest.param(0.95, 0.04, "missed", id="below"),
        pytest.param(1.05, 0.06, "even", id="contained, mean above"),
        pytest.param(0.95, 0.06, "even", id="contained, mean below"),
        pytest.param(1.0, 0.0, "even", id="equal"),
    ],
)
def test_a_goal_is_met_or_missed_only_with_the_whole_interval(mean: float, half: float, verdict: str) -> None:
    assert Estimate(mean, half).verdict(1.0) == verdict
