# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Rates of counters from the samples of earlier scrapes."""

from __future__ import annotations

from array import array
from bisect import bisect_left

MAX_SAMPLES = 128
"""Samples of one counter that are kept. More samples of a long window do not change its rate, only the places of its resets."""


class CounterHistory:
    """The increase of one counter since its first sample, at the times of its samples within the longest window, in monotonic seconds.

    A smaller value than before means that the counter was reset to 0 (Prometheus' ``rate()`` has the same rule).
    """

    __slots__ = ("_increases", "_times", "_value")

    def __init__(self) -> None:
        self._times, self._increases, self._value = array("d"), array("d"), 0.0

    @property
    def newest_s(self) -> float:
        """Return the time of the newest sample. There is at least one after the first ``add``."""
        return self._times[-1]

    def add(self, at_s: float, value: float, window_s: float) -> None:
        """Add a sample, and remove the samples that are older than the window."""
        times, increases = self._times, self._increases
        step = value - self._value if value >= self._value else value
        increases.append(increases[-1] + step if increases else 0.0)
        times.append(at_s)
        self._value = value
        first = bisect_left(times, at_s - window_s)
        del times[:first], increases[:first]
        if len(times) > MAX_SAMPLES:
            # The first sample, which limits the window, and the newest ones stay.
            del times[1], increases[1]

    def rate(self, window_s: float) -> float | None:
        """Return the increase per second within the last ``window_s``, or None if there are fewer than two samples.

        Unlike in Prometheus the increase is divided by the time between the first and the last sample, and not extrapolated to the window.
        """
        times, increases = self._times, self._increases
        first = bisect_left(times, times[-1] - window_s)
        elapsed_s = times[-1] - times[first]
        return (increases[-1] - increases[first]) / elapsed_s if elapsed_s > 0 else None
