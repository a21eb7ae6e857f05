# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes, the pods and their traffic: drawn once for a seed, so that all contenders place the same pods.

Rates are bytes per second, times are virtual seconds since the start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

STEADY, BURSTY, HOT_NODE = PATTERNS = ("steady", "bursty", "one hot node")

SPEED = 1.25e9
"""10 Gbit/s in bytes per second: the link of each node."""
MBIT_S = 125_000.0
GIB = 1 << 30
NODE_CPU, NODE_MEMORY = 32_000, 128 * GIB

NODES, PODS, BURST, REPLICAS = 50, 500, 100, 10
"""Pods come as Deployments of REPLICAS pods. One Deployment in the middle has BURST pods."""

WARM_UP_S = 600
"""Before the first pod, so that all windows are full."""
GAP_S = 60.0
"""The mean time between two Deployments."""
MEASURED_S = 300
"""Utilisation is the mean over this time."""
SETTLED_S = 30
"""The measured time begins so long after the last pod has arrived. All pods run then."""

MEDIAN_TRAFFIC, WORKLOAD_SPREAD, POD_SPREAD, MOST_TRAFFIC = 200 * MBIT_S, 1.0, 0.5, 3_000 * MBIT_S
"""The traffic of a pod: the median of all, the deviations of its logarithm between Deployments and within one, and the largest."""
BACKGROUND = (0.02, 0.12)
HOT_BACKGROUND = 0.5
"""The traffic of a node without the pods, as a share of its speed. A much hotter node would have the maximum with each contender."""
OTHERS = (5, 21)
"""The number of pods on each node at the start, from the first to before the second."""
UPTIME_S = (86_400.0, 60 * 86_400.0)
"""The time for which a node has run at the start. Its counter shows it."""
ON_S, OFF_S = 20.0, 60.0
"""The mean times for which a pod with bursts sends and does not send. Its mean traffic is that of a steady pod."""


@dataclass(frozen=True)
class Pod:
    """A pod. ``traffic``: its mean traffic. ``peak``: the most that it receives in a second. ``cpu``: millicores."""

    number: int
    workload: int
    arrives_at_s: float
    cpu: int
    memory: int
    traffic: float
    peak: float


@dataclass(frozen=True)
class Scenario:
    """One draw. ``rates``: the traffic of each pod in each second. ``background``: that of each node without the pods.

    ``counters``: the bytes that each node has received before the start. ``cpu``, ``memory``: what other pods on the nodes request.
    ``others``: their number. ``burst``: the workload of the Deployment in the middle. ``end_s``: the end of the measured time.
    """

    pods: tuple[Pod, ...]
    rates: Numbers
    background: Numbers
    cpu: Integers
    memory: Integers
    others: Integers
    counters: Numbers
    burst: int
    end_s: int

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.background)


def draw(pattern: str, seed: int, *, nodes: int = NODES, pods: int = PODS, burst: int = BURST) -> Scenario:
    """Return the scenario of a pattern and a seed."""
    rng = np.random.default_rng([PATTERNS.index(pattern), seed])
    sizes = _sizes(pods, burst)
    arrivals_s = WARM_UP_S + np.cumsum(rng.exponential(GAP_S, len(sizes)))
    end_s = int(arrivals_s[-1]) + SETTLED_S + MEASURED_S
    typical = MEDIAN_TRAFFIC * np.exp(WORKLOAD_SPREAD * rng.standard_normal(len(sizes)))
    typical[sizes.index(burst)] = MEDIAN_TRAFFIC
    cpu = rng.choice([100, 250, 500, 1000], len(sizes))
    memory = rng.choice([GIB // 8, GIB // 4, GIB // 2, GIB], len(sizes))
    workloads = np.repeat(np.arange(len(sizes)), sizes)
    # The mean of exp(d · N) is exp(d² / 2).
    factors = np.exp(POD_SPREAD * rng.standard_normal(pods) - POD_SPREAD**2 / 2)
    traffic = np.minimum(typical[workloads] * factors, MOST_TRAFFIC)
    shares = _bursts(rng, pods, end_s) if pattern == BURSTY else np.ones((pods, end_s))
    rates = traffic[:, None] * shares
    peaks = rates.max(axis=1)
    background = rng.uniform(*BACKGROUND, nodes)
    if pattern == HOT_NODE:
        background[0] = HOT_BACKGROUND
    return Scenario(
        pods=tuple(
            Pod(number, int(w), float(arrivals_s[w]), int(cpu[w]), int(memory[w]), float(traffic[number]), float(peaks[number]))
            for number, w in enumerate(workloads)
        ),
        rates=rates,
        background=background * SPEED,
        cpu=rng.integers(0, int(0.3 * NODE_CPU), nodes),
        memory=rng.integers(0, int(0.3 * NODE_MEMORY), nodes),
        others=rng.integers(*OTHERS, nodes),
        counters=background * SPEED * rng.uniform(*UPTIME_S, nodes),
        burst=sizes.index(burst),
        end_s=end_s,
    )


def burst_deviation(window_s: float) -> float:
    """Return the standard deviation of the rate of a pod with bursts over a window, as a share of its mean.

    The two states have exponential times, so the correlation falls with exp(−t / τ), 1 / τ = 1 / ON_S + 1 / OFF_S. For a window that is
    much longer than τ, the variance of the mean is the variance of one moment, times 2 · τ / window.
    """
    correlation_s = ON_S * OFF_S / (ON_S + OFF_S)
    return math.sqrt(OFF_S / ON_S * 2 * correlation_s / window_s)


def _sizes(pods: int, burst: int) -> list[int]:
    """Return the replicas of each Deployment, in the order of their arrival."""
    small = [REPLICAS] * ((pods - burst) // REPLICAS)
    middle = len(small) // 2
    return [*small[:middle], burst, *small[middle:]]


def _bursts(rng: np.random.Generator, pods: int, seconds: int) -> Numbers:
    """Return the share of its mean that each pod sends in each second: 0, or the inverse of the share of the time in which it sends."""
    sending = ON_S / (ON_S + OFF_S)
    on = rng.random(pods) < sending
    shares = np.empty((pods, seconds))
    for second in range(seconds):
        shares[:, second] = on / sending
        on ^= rng.random(pods) < np.where(on, 1 / ON_S, 1 / OFF_S)
    return shares
