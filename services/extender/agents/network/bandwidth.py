# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Bandwidths: in bits per second for people and in Kubernetes' annotations, in bytes per second in the counters of node_exporter."""

from __future__ import annotations

from .....plugins.module_utils.model.values.quantity import QuantityError, parse_quantity, value
from .....plugins.module_utils.model.values.shown import shown_value

BITS_PER_BYTE = 8

SPEED_METRIC = "node_network_speed_bytes"
"""The gauge of node_exporter with the speed of a device in bytes per second."""

_UNITS = ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))


def bytes_per_s(name: str, bits: int | str, *, other: str = "") -> float:
    """Return the bytes per second of a quantity in bits per second, such as 10G. Raises ValueError that names the argument.

    ``other``: another value that the argument may have, for the text of the error.
    """
    try:
        found = value(parse_quantity(str(bits)))
    except QuantityError:
        or_other = f", or {other}" if other else ""
        raise ValueError(
            f"{name} is {shown_value(bits)}: bits per second are expected as a number with at most one of the letters k, M, G and T,"
            f" such as 10G, 2.5G or 500M, without bit or bit/s{or_other}"
        ) from None
    if found < 0:
        raise ValueError(f"{name} is {bits}: it must be at least 0")
    return found / BITS_PER_BYTE


def bit_text(rate_bytes_per_s: float) -> str:
    """Return a rate for people, such as 850 Mbit/s."""
    bits = rate_bytes_per_s * BITS_PER_BYTE
    for size, unit in _UNITS:
        if abs(bits) >= size:
            return f"{bits / size:.3g} {unit}"
    return "0 bit/s"
