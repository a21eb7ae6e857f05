# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The number and the times of the answered requests.

The objects of prometheus_client take a lock for each of their numbers, which is 5 % of a request. All requests are counted in one thread,
so the numbers here are plain, and the objects are made when Prometheus reads them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

PREFIX = "kube_scheduling_extender_"
LABELS = ("profile", "verb")

BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
NAMES = [*(str(float(limit)) for limit in BUCKETS_S), "+Inf"]


class _Times:
    """The times of one kind of request. ``counts``: the requests in each bucket."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts, self.sum_s = [0] * len(NAMES), 0.0


class AnsweredRequests(Collector):
    """Counts requests. ``count`` is called in one thread, and ``collect`` in any."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], _Times] = {}

    def count(self, profile: str, verb: str, seconds: float) -> None:
        """Count an answered request."""
        times = self._times.get((profile, verb))
        if times is None:
            times = self._times[profile, verb] = _Times()
        times.counts[bisect_left(BUCKETS_S, seconds)] += 1
        times.sum_s += seconds

    def collect(self) -> Iterator[Metric]:
        """Return the metrics for Prometheus."""
        requests = CounterMetricFamily(f"{PREFIX}requests", "Answered requests of the scheduler.", labels=LABELS)
        seconds = HistogramMetricFamily(f"{PREFIX}request_seconds", "Seconds from the end of the request to its answer.", labels=LABELS)
        for labels, times in list(self._times.items()):
            sums = list(accumulate(times.counts))
            requests.add_metric(labels, sums[-1])
            seconds.add_metric(labels, list(zip(NAMES, sums, strict=True)), times.sum_s)
        yield requests
        yield seconds
