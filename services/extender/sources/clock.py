# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ages of values, which other machines measure by their own clocks. In this process all times are monotonic."""

from __future__ import annotations

import typing as t

LONGEST_EARLY_S = 60.0
"""Seconds by which a time may be later than the other clock; its age is 0 then. A value whose time is later than this is not used."""


class Clock(t.NamedTuple):
    """One moment by two clocks: ``now_s`` monotonic, ``server_now_s`` by the clock of another machine in seconds since the epoch."""

    now_s: float
    server_now_s: float

    def monotonic(self, time_s: float) -> float | None:
        """Return the monotonic time of a time by the other clock, or None if it cannot be right, because it is in the future."""
        age_s = self.server_now_s - time_s
        return self.now_s - max(0.0, age_s) if age_s >= -LONGEST_EARLY_S else None
