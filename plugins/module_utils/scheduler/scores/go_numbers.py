# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Numbers as Go computes them."""

from __future__ import annotations

import math


def quotient(dividend: int, divisor: int) -> int:
    """Return the quotient of two integers, rounded towards zero. Python rounds it down."""
    result = abs(dividend) // abs(divisor)
    return result if (dividend < 0) == (divisor < 0) else -result


def rounded_half_up(number: float) -> int:
    """Return the nearest integer of a number of at least 0. A half is rounded up (``math.Round``); Python rounds it to an even number."""
    whole = math.floor(number)
    return whole + 1 if number - whole >= 0.5 else whole
