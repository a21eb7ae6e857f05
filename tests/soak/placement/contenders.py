# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The formulas that are compared with this extender. Each gives a node 0 to 100 points.

A plugin gives integers from 0 to 100, and needs a scheduler binary of its own. An extender gives integers from 0 to 10, times 10.

All have the same values: the rate of the received bytes over five minutes, and the speed of the link. No pod declares its bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from tests.soak.placement.cluster import RECEIVED, Cluster
from tests.soak.placement.virtual_prometheus import rate
from tests.soak.placement.workload import MBIT_S, SPEED, Integers, Numbers, Pod

BEST = 100
LEVEL = 10
"""The points for one point of an extender."""
WINDOW_S = 300
PUBLISHED_WINDOW_S = 3600


class Contender:
    """Points of nodes beside those of the scheduler's own plugins. Here they are 0, and the events have no effect.

    ``refresh_s``: the seconds between two calls of ``refresh``; 0 if there are none.
    """

    name: ClassVar[str]
    refresh_s: ClassVar[int] = 0

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def refresh(self) -> None:
        """Read the values."""

    def on_bound(self, pod: Pod, node: int) -> None:
        """Take over a binding, as a watch shows it."""

    def points(self, pod: Pod) -> Integers:
        """Return the points of each node for a pod."""
        return np.zeros(len(self.cluster.names), dtype=np.int64)


Make = Callable[[Cluster], Contender]


class StockScheduler(Contender):
    """The stock scheduler: it adds nothing to the scores of its own plugins."""

    name = "stock kube-scheduler"


class OriginalFormula(Contender):
    """The formula of the original plugin with the rate as its value, which is to its advantage.

    Like the original it asks Prometheus for each pod, so that its values are newer than
    those of all others.
    """

    name = "the original's formula with rates, as a plugin"

    def points(self, pod: Pod) -> Integers:
        return _share_of_largest(_rates(self.cluster))


class OriginalPlugin(Contender):
    """The plugin NetworkTraffic of cylonchau/customScheduler as it was published: 100 − value · 100 / max (``pkg/networktraffic.go``).

    The value is the sum of the samples of the counter over one hour (``pkg/prometheus.go``). A counter grows with the uptime,
    so it says little about the present traffic.
    """

    name = "the original plugin as published"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._second = -1
        self._points = np.zeros(len(cluster.names), dtype=np.int64)

    def points(self, pod: Pod) -> Integers:
        # Samples have whole seconds, so that the sums change only with a new second.
        if self._second != math.floor(self.cluster.now_s):
            self._second = math.floor(self.cluster.now_s)
            sums = np.array([sum(value for _at_s, value in found) for found in _samples(self.cluster, PUBLISHED_WINDOW_S)])
            self._points = _share_of_largest(sums)
        return self._points


class OriginalExtender(OriginalFormula):
    """The original's formula as an extender: the scheduler accepts integers from 0 to 10 of one, so the points are rounded down."""

    name = "the original's formula with rates, as an extender"

    def points(self, pod: Pod) -> Integers:
        return super().points(pod) // LEVEL * LEVEL


class RiskBalancing(Contender):
    """Trimaran's LoadVariationRiskBalancing: (1 − (μ + σ) / 2) · 100, with its defaults, margin 1 and sensitivity 1.

    It is the plugin of Trimaran that balances nodes. Source: kubernetes-sigs/scheduler-plugins,
    ``pkg/trimaran/loadvariationriskbalancing/analysis.go``, computeScore. μ and σ are those of the network's utilisation, in place of CPU
    and memory: the mean over the window, and the deviation of the rates between two scrapes in it. They are read every 30 s
    (``pkg/trimaran/collector.go``).
    """

    name = "Trimaran LoadVariationRiskBalancing as a plugin"
    refresh_s = 30
    level: ClassVar[int] = 1

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._points = np.zeros(len(cluster.names), dtype=np.int64)

    def refresh(self) -> None:
        mean = np.clip(_rates(self.cluster) / SPEED, 0.0, 1.0)
        deviation = np.clip(_deviations(self.cluster) / SPEED, 0.0, 1.0)
        score = (1.0 - (mean + deviation) / 2) * BEST
        self._points = self.level * np.floor(score / self.level + 0.5).astype(np.int64)

    def points(self, pod: Pod) -> Integers:
        return self._points


class RiskBalancingExtender(RiskBalancing):
    """The same formula as an extender: rounded to the integers from 0 to 10."""

    name = "Trimaran LoadVariationRiskBalancing as an extender"
    level = LEVEL


class TargetLoadPacking(Contender):
    """Trimaran's TargetLoadPacking: the points rise up to a utilisation of 40 %, its default, and fall above it.

    It is for packing, so it shows another aim. It adds an estimate for the pod and for each pod that was bound less than 60 s before the
    values were read. Source: kubernetes-sigs/scheduler-plugins, ``pkg/trimaran/targetloadpacking/targetloadpacking.go``, Score, and
    ``pkg/trimaran/handler.go``. The estimate is 10 Mbit/s, the least one of this extender.
    """

    name = "Trimaran TargetLoadPacking as a plugin"
    refresh_s = 30
    target, reporting_s, estimate = 40.0, 60.0, 10 * MBIT_S

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._rates = np.zeros(len(cluster.names))
        self._read_at_s = 0.0
        self._bound: list[tuple[float, int]] = []

    def refresh(self) -> None:
        self._rates, self._read_at_s = _rates(self.cluster), self.cluster.now_s

    def on_bound(self, pod: Pod, node: int) -> None:
        self._bound.append((self.cluster.now_s, node))

    def points(self, pod: Pod) -> Integers:
        self._bound = [entry for entry in self._bound if self._read_at_s - entry[0] < self.reporting_s]
        new = np.bincount([node for _at_s, node in self._bound], minlength=len(self._rates))
        predicted = BEST * (self._rates + self.estimate * (1 + new)) / SPEED
        rising = (BEST - self.target) * predicted / self.target + self.target
        falling = self.target * (BEST - predicted) / (BEST - self.target)
        found = np.where(predicted <= self.target, rising, np.maximum(falling, 0.0))
        return np.floor(found + 0.5).astype(np.int64)


class ExactKnowledge(Contender):
    """A plugin that knows the mean traffic of each pod and of each node exactly, as soon as a pod is bound. Nothing can measure this.

    It shows how much of a maximum no score for the present traffic can avoid. Like all others it does not know what the next pod will need.
    """

    name = "exact knowledge of all present traffic, as a plugin"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._rates = cluster.scenario.background.copy()

    def on_bound(self, pod: Pod, node: int) -> None:
        self._rates[node] += pod.traffic

    def points(self, pod: Pod) -> Integers:
        return np.floor((1.0 - np.minimum(self._rates / SPEED, 1.0)) * BEST + 0.5).astype(np.int64)


def _share_of_largest(values: Numbers) -> Integers:
    """Return 100 − value · 100 / max, calculated with integers."""
    integers = values.astype(np.int64)
    return BEST - integers * BEST // max(1, int(integers.max()))


def _rates(cluster: Cluster) -> Numbers:
    """Return the rate of each node now."""
    return np.array([rate(found, WINDOW_S, cluster.now_s) or 0.0 for found in _samples(cluster)])


def _deviations(cluster: Cluster) -> Numbers:
    """Return the standard deviation of the rates between two scrapes, for each node."""
    found = []
    for samples in _samples(cluster):
        at_s, values = np.array(samples).T
        found.append(float(np.std(np.diff(values) / np.diff(at_s))))
    return np.array(found)


def _samples(cluster: Cluster, window_s: float = WINDOW_S) -> list[list[tuple[float, float]]]:
    return [cluster.prometheus.samples(RECEIVED, labels, window_s, cluster.now_s) for labels in cluster.labels]
