# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Kubernetes resource quantities as exact integers.

Rules of apimachinery's ``pkg/api/resource/quantity.go``: decimal, binary and exponent suffixes, nano precision, rounding up.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

NANO = 10**9
_NANO_PER_MILLI = 10**6

_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction("1e-9"),
    "u": Fraction("1e-6"),
    "m": Fraction("1e-3"),
    "": Fraction(1),
    "k": Fraction("1e3"),
    "M": Fraction("1e6"),
    "G": Fraction("1e9"),
    "T": Fraction("1e12"),
    "P": Fraction("1e15"),
    "E": Fraction("1e18"),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
# The API server caps what does not fit 64 bits.
_LARGEST = (2**63 - 1) * NANO
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|(n|u|m|k|[MGTPE]i?|Ki|))")


LONGEST = 1000
"""Characters. The API server writes at most two dozen, and Python refuses to read numbers of thousands of digits."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> int:
    """Nano-units (10^-9) of a quantity such as ``250m``, ``1.5Gi`` or ``2e3``, rounded up as the API server does.

    Raises QuantityError for anything that the API server would refuse.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise QuantityError(f"{text[:50]!r} is not a Kubernetes quantity: write a number with at most one suffix, such as 250m or 1.5Gi")
    number, exponent, suffix = match.groups()
    # Fractions are exact at any length, which decimals of the default context are not.
    exact = Fraction(number + (exponent or "")) * _SUFFIXES[suffix or ""] * NANO
    return max(-_LARGEST, min(_LARGEST, -(-exact.numerator // exact.denominator)))


def milli_value(nano_units: int) -> int:
    """Thousandths, rounded up (``Quantity.MilliValue``); the scheduler's unit for cpu."""
    return -(-nano_units // _NANO_PER_MILLI)


def value(nano_units: int) -> int:
    """Whole units, rounded up (``Quantity.Value``); the scheduler's unit for everything but cpu."""
    return -(-nano_units // NANO)
