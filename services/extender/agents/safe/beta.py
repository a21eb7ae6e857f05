# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The probability that a utilisation exceeds a threshold, by a Beta distribution with the measured mean and deviation.

The original computes the Beta function itself, which underflows for deviations below about 0.015; its result is a step then. Here
everything is computed in logarithms, for many nodes at the same time. Methods: the continued fraction 8.17.22 of the NIST Digital Library
of Mathematical Functions (evaluated by Lentz's method), and Gauss-Legendre quadrature for narrow distributions.
"""

from __future__ import annotations

import typing as t

import numpy as np

from ..arrays import Floats

FloatOrFloats = t.TypeVar("FloatOrFloats", float, Floats)
"""One number, or an array of them."""

SMALLEST_DEVIATION = 1e-9
"""Smaller deviations count as 0."""
NARROW_FROM = 100.0
"""If both parameters of the distribution are larger, it has nearly the form of a normal distribution, and quadrature is exact enough."""
REACH = 10.0
"""Standard deviations beyond which the density of a narrow distribution is 0."""
# The points and weights above 0 of the Gauss-Legendre quadrature with 24 points, which numpy.polynomial.legendre.leggauss(24) returns.
# That call loads a library of linear algebra, which keeps 2 MB.
_POSITIVE_POINTS = (
    (0.06405689286260563, 0.12793819534675202),
    (0.1911188674736163, 0.12583745634682825),
    (0.3150426796961634, 0.1216704729278033),
    (0.4337935076260451, 0.11550566805372552),
    (0.5454214713888396, 0.10744427011596556),
    (0.6480936519369755, 0.09761865210411393),
    (0.7401241915785544, 0.0861901615319532),
    (0.820001985973903, 0.07334648141108016),
    (0.8864155270044011, 0.05929858491543636),
    (0.9382745520027328, 0.04427743881741941),
    (0.9747285559713095, 0.02853138862893356),
    (0.9951872199970213, 0.01234122979998869),
)
POINTS: Floats
WEIGHTS: Floats
POINTS, WEIGHTS = np.array([(-point, weight) for point, weight in reversed(_POSITIVE_POINTS)] + list(_POSITIVE_POINTS)).T
MAX_STEPS = 500
TINY = 1e-300
PRECISION = 1e-13
_HALF_LOG_2_PI = 0.5 * float(np.log(2 * np.pi))


def overload_risk(mean: Floats, deviation: Floats, threshold: float) -> Floats:
    """Return P(utilisation > threshold) for each mean and deviation, all of them 0 to 1.

    The rules are those of kube-safe-scheduler: a mean of 0 has no risk. Without a deviation the risk is 0 or 1. If no Beta distribution has
    this mean and deviation, the risk is 1.
    """
    risk = (mean > threshold).astype(np.float64)
    spread = (deviation >= SMALLEST_DEVIATION) & (mean > 0)
    variance = np.square(deviation)
    limit = mean * (1.0 - mean)
    fits = spread & (variance < limit)
    risk[spread & ~fits] = 1.0
    risk[mean <= 0] = 0.0
    if fits.any():
        size = limit[fits] / variance[fits] - 1.0
        risk[fits] = upper_tail(threshold, mean[fits] * size, (1.0 - mean[fits]) * size)
    return risk


def upper_tail(x: float, alpha: Floats, beta: Floats) -> Floats:
    """Return P(X > x) of Beta distributions with positive parameters, 1 − I_x(alpha, beta)."""
    if x >= 1.0:
        return np.zeros_like(alpha)
    if x <= 0.0:
        return np.ones_like(alpha)
    result = np.empty_like(alpha)
    narrow = np.minimum(alpha, beta) > NARROW_FROM
    result[narrow] = _tail_by_quadrature(x, alpha[narrow], beta[narrow])
    result[~narrow] = _tail_by_fraction(x, alpha[~narrow], beta[~narrow])
    return np.clip(result, 0.0, 1.0)


def log_gamma(x: Floats) -> Floats:
    """Return ln Γ(x) for x > 0: Stirling's series (NIST DLMF 5.11.1) from 8 on, below it by the recurrence Γ(x + 1) = xΓ(x)."""
    small = x < 8.0
    shift = np.zeros_like(x)
    if small.any():
        low = x[small]
        product = low.copy()
        for step in range(1, 8):
            product *= low + step
        shift[small] = np.log(product)
    z = np.where(small, x + 8.0, x)
    result: Floats = (z - 0.5) * np.log(z) - z + _HALF_LOG_2_PI + stirling_correction(z) - shift
    return result


def stirling_correction(z: FloatOrFloats) -> FloatOrFloats:
    """Return the sum of Stirling's series for ln Γ(z) (NIST DLMF 5.11.1), for one number or an array."""
    inverse = 1.0 / z
    square = inverse * inverse
    correction: FloatOrFloats = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return correction


def _tail_by_fraction(x: float, alpha: Floats, beta: Floats) -> Floats:
    """Return 1 − I_x(alpha, beta). I_x(a, b) is x^a (1 − x)^b / (a B(a, b)), times the continued fraction (NIST DLMF 8.17.22)."""
    # The fraction converges quickly below the mean. Above it, I_x(a, b) = 1 − I_(1−x)(b, a) is used.
    above = x >= (alpha + 1.0) / (alpha + beta + 2.0)
    a, b = np.where(above, beta, alpha), np.where(above, alpha, beta)
    point = np.where(above, 1.0 - x, x)
    log_front = a * np.log(point) + b * np.log1p(-point) + log_gamma(a + b) - log_gamma(a) - log_gamma(b) - np.log(a)
    integral: Floats = np.exp(log_front) * _continued_fraction(point, a, b)
    return np.where(above, integral, 1.0 - integral)


def _continued_fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    """Return the continued fraction of NIST DLMF 8.17.22, by Lentz's method."""
    numerator = np.ones_like(x)
    denominator = 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1.0))
    result = denominator.copy()
    for m in range(1, MAX_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        denominator = 1.0 / _not_zero(1.0 + even * denominator)
        numerator = _not_zero(1.0 + even / numerator)
        result *= denominator * numerator
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        denominator = 1.0 / _not_zero(1.0 + odd * denominator)
        numerator = _not_zero(1.0 + odd / numerator)
        factor = denominator * numerator
        result *= factor
        if not (np.abs(factor - 1.0) > PRECISION).any():
            break
    return result


def _not_zero(values: Floats) -> Floats:
    return np.where(np.abs(values) < TINY, TINY, values)


def _tail_by_quadrature(x: float, alpha: Floats, beta: Floats) -> Floats:
    """Integrate the density from x away from the mean, over the part that is not 0.

    ln of the density is computed relative to its value at the mean, so that large numbers do not cancel each other.
    """
    size = alpha + beta
    mean = alpha / size
    width = np.sqrt(mean * (1.0 - mean) / (size + 1.0))
    above = x >= mean
    highest = np.minimum(1.0, np.maximum(mean + REACH * width, x + width))
    lowest = np.maximum(0.0, np.minimum(mean - REACH * width, x - width))
    end = np.where(above, highest, lowest)
    half = (end - x) / 2.0
    offset = (x + half - mean)[:, None] + half[:, None] * POINTS
    with np.errstate(divide="ignore"):
        log_density = (alpha - 1.0)[:, None] * np.log1p(offset / mean[:, None]) + (beta - 1.0)[:, None] * np.log1p(
            -offset / (1.0 - mean)[:, None]
        )
    log_at_mean = (
        1.5 * np.log(size)
        - 0.5 * np.log(alpha)
        - 0.5 * np.log(beta)
        - _HALF_LOG_2_PI
        + stirling_correction(size)
        - stirling_correction(alpha)
        - stirling_correction(beta)
    )
    beyond = np.abs(half) * (np.exp(log_density + log_at_mean[:, None]) @ WEIGHTS)
    return np.where(above, beyond, 1.0 - beyond)
