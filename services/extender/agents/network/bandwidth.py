# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Bandwidths: in bits per second for people and in Kubernetes' annotations, in bytes per second in the counters of node_exporter."""

from __future__ import annotations

import contextlib
import typing as t

from .....plugins.module_utils.model.values.quantity import QuantityError, parse_quantity, value

BITS_PER_BYTE = 8

SPEED_METRIC = "node_network_speed_bytes"
"""The gauge of node_exporter with the speed of a device in bytes per second."""

_UNITS = ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))


def bytes_per_s(bits: t.Any) -> float:
    """Return the bytes per second of a quantity in bits per second, such as 10G. Raises ValueError."""
    found = None
    with contextlib.suppress(QuantityError):
        if isinstance(bits, (int, str)) and not isinstance(bits, bool):
            found = value(parse_quantity(str(bits)))
    if found is None or found < 0:
        raise ValueError(
            "bits per second are expected as a number with at most one of the letters k, M, G and T, such as 10G, 2.5G or 500M,"
            " without bit or bit/s"
        )
    return found / BITS_PER_BYTE


def bit_text(rate_bytes_per_s: float) -> str:
    """Return a rate for people, such as 850 Mbit/s."""
    bits = rate_bytes_per_s * BITS_PER_BYTE
    for size, unit in _UNITS:
        if abs(bits) >= size:
            return f"{bits / size:.3g} {unit}"
    return "0 bit/s"
