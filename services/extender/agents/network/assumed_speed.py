# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The speed of links that report none. One node with a wrong speed or rate must not set it for all others."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from statistics import median_low

from .bandwidth import BITS_PER_BYTE

ASSUMED_BYTES_PER_S = 1e9 / BITS_PER_BYTE
"""The speed of a link if no node of the cluster knows its speed: 1 Gbit/s."""

MOST_OF_ONE_NODE = 10e9 / BITS_PER_BYTE
"""The largest speed that is assumed because of one node alone: 10 Gbit/s."""

MOST_ABOVE_NEXT = 2.0
"""The largest rate counts as at most this multiple of the second largest."""


class AssumedSpeed(t.NamedTuple):
    """A speed in bytes per second, and its origin for people."""

    speed: float
    origin: str


def assumed_speed(speeds: Sequence[float], rates: Sequence[float]) -> AssumedSpeed:
    """Return the speed of nodes that report none. ``speeds``: the known ones, ``rates``: the traffic of each node, in bytes per second."""
    if speeds:
        middle = median_low(speeds)
        is_alone = len(speeds) == 1 < len(rates)
        return AssumedSpeed(min(middle, MOST_OF_ONE_NODE) if is_alone else middle, "the median of the other nodes")
    by_size = sorted(rates, reverse=True) or [0.0]
    largest = by_size[0] if len(by_size) == 1 else min(by_size[0], MOST_ABOVE_NEXT * by_size[1])
    return AssumedSpeed(max(ASSUMED_BYTES_PER_S, largest), "no node knows its speed")
