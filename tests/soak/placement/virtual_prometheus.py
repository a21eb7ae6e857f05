# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A store of samples in virtual time, which answers the queries of an agent as Prometheus would.

It knows no PromQL: it has the texts that the extender asks for given queries, and the function behind each. ``rate()`` follows
``extrapolatedRate`` of Prometheus (``promql/functions.go``). Times are compared in whole milliseconds, as Prometheus keeps them: a sample
on the edge of a window is then in it or not, as there. A series ends when it has no sample for five minutes, because there are no markers
of stale series here.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from ansible_collections.onprem.kube_scheduling.services.extender.interface import Gauge, LabelMatch, Query, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.promql import time_text, value_text

LOOKBACK_S = 300.0
"""Prometheus' default lookback: an older sample is no value."""
KEPT_S = 3600.0
EDGE = 1.1
"""A rate is extrapolated to the edge of the window if the edge is nearer than this many mean distances of samples."""

Labels = dict[str, str]
Samples = deque[tuple[float, float]]
"""Time in seconds and value."""


class Row(NamedTuple):
    """One series of a vector."""

    labels: Labels
    value: float


class VirtualPrometheus:
    """The samples of all series."""

    def __init__(self, queries: Iterable[Query], node_label: str = "instance") -> None:
        self._series: dict[str, list[tuple[Labels, Samples]]] = {}
        self._by_labels: dict[tuple[str, frozenset[tuple[str, str]]], Samples] = {}
        self._answers: dict[str, Callable[[float], Iterator[Row]]] = {}
        for query in queries:
            if isinstance(query, Rate | Gauge):
                self._answers[value_text(query)] = partial(self._values, query)
                self._answers[time_text(query, node_label)] = partial(self._times, query)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the texts of the queries that it can answer."""
        return tuple(self._answers)

    def add(self, metric: str, labels: Mapping[str, str], at_s: float, value: float) -> None:
        """Add a sample that is newer than all samples of its series."""
        key = (metric, frozenset(labels.items()))
        samples = self._by_labels.get(key)
        if samples is None:
            samples = self._by_labels[key] = deque()
            self._series.setdefault(metric, []).append((dict(labels), samples))
        samples.append((at_s, value))
        while samples[0][0] < at_s - KEPT_S:
            samples.popleft()

    def answer(self, text: str, now_s: float) -> list[Row]:
        """Return the vector of a query. Raises KeyError for a text that is not known."""
        return list(self._answers[text](now_s))

    def samples(self, metric: str, labels: Mapping[str, str], window_s: float, now_s: float) -> list[tuple[float, float]]:
        """Return the samples of one series in a window."""
        return _within(self._by_labels[metric, frozenset(labels.items())], window_s, now_s)

    def _values(self, query: Rate | Gauge, now_s: float) -> Iterator[Row]:
        for labels, samples in self._matching(query.metric, query.conditions):
            if isinstance(query, Rate):
                value = rate(_within(samples, query.window_s, now_s), query.window_s, now_s)
            else:
                value = next((value for _at_s, value in reversed(_within(samples, LOOKBACK_S, now_s))), None)
            if value is not None:
                yield Row(labels, value)

    def _times(self, query: Rate | Gauge, now_s: float) -> Iterator[Row]:
        for labels, samples in self._matching(query.metric, query.conditions):
            found = _within(samples, LOOKBACK_S, now_s)
            if found:
                yield Row(labels, found[-1][0])

    def _matching(self, metric: str, conditions: tuple[LabelMatch, ...]) -> Iterator[tuple[Labels, Samples]]:
        for labels, samples in self._series.get(metric, []):
            if all((re.fullmatch(one.pattern, labels.get(one.label, "")) is None) is one.negative for one in conditions):
                yield labels, samples


def rate(samples: list[tuple[float, float]], window_s: float, now_s: float) -> float | None:
    """Return Prometheus' rate of a counter, or None for fewer than two samples."""
    if len(samples) < 2:
        return None
    (first_s, first), (last_s, last) = samples[0], samples[-1]
    increase = last - first
    before = first
    for _at_s, value in samples[1:]:
        if value < before:  # The counter began again at 0.
            increase += before
        before = value
    covered_s = _milliseconds(last_s - first_s) / 1000
    mean_s = covered_s / (len(samples) - 1)
    start_s, end_s = _milliseconds(first_s - now_s + window_s) / 1000, _milliseconds(now_s - last_s) / 1000
    if start_s >= mean_s * EDGE:
        start_s = mean_s / 2
    if increase > 0 and first >= 0:
        # A counter cannot have been below 0.
        start_s = min(start_s, covered_s * (first / increase))
    if end_s >= mean_s * EDGE:
        end_s = mean_s / 2
    return increase * ((covered_s + start_s + end_s) / covered_s) / window_s


def _within(samples: Samples, window_s: float, now_s: float) -> list[tuple[float, float]]:
    """Return the samples in the window. Since Prometheus 3 its start does not belong to it."""
    start_ms, end_ms = _milliseconds(now_s - window_s), _milliseconds(now_s)
    newest = itertools.takewhile(lambda sample: _milliseconds(sample[0]) > start_ms, reversed(samples))
    return [sample for sample in newest if _milliseconds(sample[0]) <= end_ms][::-1]


def _milliseconds(time_s: float) -> int:
    return round(time_s * 1000)
