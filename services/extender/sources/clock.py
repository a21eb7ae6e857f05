# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ages of values, which other machines measure by their own clocks. In this process all times are monotonic."""

from __future__ import annotations

import typing as t

LONGEST_EARLY_S = 60.0
"""Seconds by which a time may be later than the other clock; its age is 0 then. A value whose time is later than this is not used."""


class Clock(t.NamedTuple):
    """One moment by two clocks: ``now_s`` monotonic, ``server_now_s`` by the API server's clock in seconds since the epoch."""

    now_s: float
    server_now_s: float


def measured_at(time_s: float, server_now_s: float, now_s: float) -> float | None:
    """Return the monotonic time of a value, or None if the time cannot be right, because it is in the future.

    ``server_now_s``: the clock of the server that knows ``time_s``, in seconds since the epoch. ``now_s``: the monotonic time of the same
    moment.
    """
    age_s = server_now_s - time_s
    return now_s - max(0.0, age_s) if age_s >= -LONGEST_EARLY_S else None
