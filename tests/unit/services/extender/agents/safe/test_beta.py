# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The risk of overload agrees with scipy, also for narrow distributions, for which the original's result is a step."""

from __future__ import annotations

import numpy as np
import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.safe.beta import (
    POINTS,
    WEIGHTS,
    overload_risk,
    overload_risk_of_one,
    upper_tail,
    upper_tail_of_one,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

VECTORS = [
    (0.5, 0.1, 4.7e-7),
    (0.7, 0.1, 0.00859),
    (0.8, 0.1, 0.1584),
    (0.85, 0.05, 0.1573),
    (0.85, 0.1, 0.3716),
    (0.88, 0.05, 0.3858),
    (0.3, 0.2, 0.00164),
    (0.6, 0.0, 0.0),
    (0.95, 0.0, 1.0),
    (0.5, 0.5, 1.0),
]
"""Mean, deviation, and the risk at a threshold of 0.9, from the original."""
NARROW = [(0.897, 0.004, 0.228), (0.905, 0.005, 0.841)]
"""Cases in which the original's Beta function underflows."""


def risk(mean: float, deviation: float, threshold: float = 0.9) -> float:
    found = float(overload_risk(np.array([mean]), np.array([deviation]), threshold)[0])
    assert overload_risk_of_one(mean, deviation, threshold) == pytest.approx(found, abs=1e-12)
    return found


@pytest.mark.parametrize(("mean", "deviation", "expected"), [*VECTORS, *NARROW])
def test_risk_is_that_of_the_original_or_the_true_one(mean: float, deviation: float, expected: float) -> None:
    assert risk(mean, deviation) == pytest.approx(expected, rel=6e-3, abs=1e-12)


def test_an_empty_node_has_no_risk() -> None:
    assert risk(0.0, 0.3) == 0.0


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9, 0.99])
def test_risk_agrees_with_scipy(threshold: float) -> None:
    random = np.random.default_rng(7)
    deviation = 10 ** random.uniform(-6, -0.3, 2000)
    near = np.clip(threshold + 2 * deviation * random.normal(size=2000), 0.001, 0.999)
    mean = np.concatenate((near, random.uniform(0.001, 0.999, 2000)))
    deviation = np.concatenate((deviation, deviation))
    fits = np.square(deviation) < mean * (1 - mean)
    mean, deviation = mean[fits], deviation[fits]
    size = mean * (1 - mean) / np.square(deviation) - 1
    expected = special.betaincc(mean * size, (1 - mean) * size, threshold)
    found = overload_risk(mean, deviation, threshold)
    assert np.abs(found - expected).max() < 1e-9
    one_by_one = [overload_risk_of_one(*pair, threshold) for pair in zip(mean[::20].tolist(), deviation[::20].tolist(), strict=True)]
    assert np.abs(one_by_one - expected[::20]).max() < 1e-9


@given(
    alpha=st.floats(1e-3, 1e7),
    beta=st.floats(1e-3, 1e7),
    x=st.floats(0.01, 0.99),
)
@settings(max_examples=50, deadline=None)
def test_tail_of_any_parameters_agrees_with_scipy(alpha: float, beta: float, x: float) -> None:
    found = float(upper_tail(x, np.array([alpha]), np.array([beta]))[0])
    assert found == pytest.approx(float(special.betaincc(alpha, beta, x)), abs=1e-8)
    assert upper_tail_of_one(x, alpha, beta) == pytest.approx(found, abs=1e-8)


def test_no_utilisation_is_above_1() -> None:
    two = np.array([2.0])
    assert upper_tail(1.0, two, two).tolist() == [0.0]
    assert upper_tail_of_one(1.0, 2.0, 2.0) == 0.0


def test_points_of_the_quadrature_are_those_of_numpy() -> None:
    points, weights = np.polynomial.legendre.leggauss(24)
    assert np.abs(POINTS - points).max() < 1e-15
    assert np.abs(WEIGHTS - weights).max() < 1e-15
