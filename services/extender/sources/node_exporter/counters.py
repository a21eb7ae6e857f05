# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Rates of counters from the samples of earlier scrapes."""

from __future__ import annotations

from array import array

MAX_SAMPLES = 128
"""Samples of one counter that are kept. More samples of a long window do not change its rate, only the places of its resets."""


class CounterHistory:
    """The samples of one counter within the longest window. Times are monotonic seconds."""

    __slots__ = ("_times", "_values")

    def __init__(self) -> None:
        self._times = array("d")
        self._values = array("d")

    @property
    def newest_s(self) -> float:
        """Return the time of the newest sample. There is at least one after the first ``add``."""
        return self._times[-1]

    def add(self, at_s: float, value: float, window_s: float) -> None:
        """Add a sample, and remove the samples that are older than the window."""
        times, values = self._times, self._values
        times.append(at_s)
        values.append(value)
        first = 0
        while times[first] < at_s - window_s and first < len(times) - 1:
            first += 1
        if first:
            del times[:first], values[:first]
        if len(times) > MAX_SAMPLES:
            # The first sample, which limits the window, and the newest ones stay.
            del times[1], values[1]

    def rate(self, window_s: float) -> float | None:
        """Return the increase per second within the last ``window_s``, or None if there are fewer than two samples.

        A smaller value than before means that the counter was reset to 0 (Prometheus' ``rate()`` has the same rule). Unlike in Prometheus
        the increase is divided by the time between the first and the last sample, and not extrapolated to the window.
        """
        times, values = self._times, self._values
        first = next((index for index, at_s in enumerate(times) if at_s >= times[-1] - window_s), len(times))
        if len(times) - first < 2:
            return None
        increase = sum(
            values[index] - values[index - 1] if values[index] >= values[index - 1] else values[index]
            for index in range(first + 1, len(values))
        )
        elapsed_s = times[-1] - times[first]
        return increase / elapsed_s if elapsed_s > 0 else None
