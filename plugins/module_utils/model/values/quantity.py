# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Kubernetes resource quantities as exact integers.

The rules are those of apimachinery's ``pkg/api/resource/quantity.go``: decimal, binary and exponent suffixes, nano precision, rounding up.
"""

from __future__ import annotations

import re
from functools import lru_cache

NANO_DIGITS = 9
NANO = 10**9
_NANO_PER_MILLI = 10**6

_SUFFIXES = {
    "n": (-9, 0),
    "u": (-6, 0),
    "m": (-3, 0),
    "": (0, 0),
    "k": (3, 0),
    "M": (6, 0),
    "G": (9, 0),
    "T": (12, 0),
    "P": (15, 0),
    "E": (18, 0),
    "Ki": (0, 10),
    "Mi": (0, 20),
    "Gi": (0, 30),
    "Ti": (0, 40),
    "Pi": (0, 50),
    "Ei": (0, 60),
}
"""The power of ten and the power of two of each suffix."""
# The API server limits larger values to 64 bits.
_LARGEST = (2**63 - 1) * NANO
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|(n|u|m|k|[MGTPE]i?|Ki|))")


LONGEST = 1000
"""Characters. The API server writes at most two dozen, and Python rejects numbers of thousands of digits."""


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> int:
    """Return the nano-units (10^-9) of a quantity such as ``250m``, ``1.5Gi`` or ``2e3``, rounded up as in the API server.

    Raises QuantityError for a text that the API server rejects.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise QuantityError(f"{text[:50]!r} is not a Kubernetes quantity: write a number with at most one suffix, such as 250m or 1.5Gi")
    number, exponent, suffix = match.groups()
    # Integers are exact at any length. ``fractions`` would need less code, but its import takes longer than most runs spend here.
    whole, _point, decimals = number.partition(".")
    power_of_ten, power_of_two = _SUFFIXES[suffix or ""]
    power_of_ten += int(exponent[1:] if exponent else 0) - len(decimals) + NANO_DIGITS
    exact = int(whole + decimals) << power_of_two
    factor: int = 10 ** abs(power_of_ten)
    nano_units = exact * factor if power_of_ten >= 0 else -(-exact // factor)
    return max(-_LARGEST, min(_LARGEST, nano_units))


def milli_value(nano_units: int) -> int:
    """Return the value in thousandths, rounded up (``Quantity.MilliValue``). The scheduler uses this unit for cpu."""
    return -(-nano_units // _NANO_PER_MILLI)


def value(nano_units: int) -> int:
    """Return the value in whole units, rounded up (``Quantity.Value``). The scheduler uses this unit for all resources but cpu."""
    return -(-nano_units // NANO)
