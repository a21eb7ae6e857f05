# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes in virtual time: their traffic, the counters of their node_exporters, and a Prometheus that scrapes these."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Query

from tests.soak.placement.virtual_prometheus import VirtualPrometheus
from tests.soak.placement.workload import MEASURED_S, SPEED, Numbers, Pod, Scenario

RECEIVED, SPEED_METRIC = "node_network_receive_bytes_total", "node_network_speed_bytes"
SCRAPE_S = 15
START_S = 5
"""A pod has no traffic for so long after its binding."""


class Cluster:
    """The nodes of one run. The time only moves forward."""

    def __init__(self, scenario: Scenario, queries: Sequence[Query]) -> None:
        self.scenario = scenario
        self.names = [f"node-{number:02}" for number in range(scenario.nodes)]
        self.addresses = [f"10.0.0.{number + 1}" for number in range(scenario.nodes)]
        self.labels = [{"device": "eth0", "instance": f"{address}:9100", "job": "node"} for address in self.addresses]
        self.prometheus = VirtualPrometheus(queries)
        self.now_s = 0.0
        self._second = 0
        self._counters = scenario.counters.copy()
        self._offered = np.repeat(scenario.background[:, None], scenario.end_s, axis=1)

    def advance(self, now_s: float) -> None:
        """Let the time pass. Each node is scraped every 15 s, and not all in the same second."""
        while self._second < math.floor(now_s):
            # A link carries no more than its speed.
            self._counters += np.minimum(self._offered[:, self._second], SPEED)
            self._second += 1
            for number in range(self._second % SCRAPE_S, len(self.names), SCRAPE_S):
                self.prometheus.add(RECEIVED, self.labels[number], self._second, float(self._counters[number]))
                self.prometheus.add(SPEED_METRIC, self.labels[number], self._second, SPEED)
        self.now_s = now_s

    def start(self, pod: Pod, node: int) -> None:
        """Add the traffic of a pod that is bound now."""
        first = math.ceil(self.now_s + START_S)
        self._offered[node, first:] += self.scenario.rates[pod.number, first:]

    def utilisation(self) -> Numbers:
        """Return the mean traffic of each node in the measured time, as a share of its speed. A link cannot carry more than 1."""
        shares: Numbers = self._offered[:, self.scenario.end_s - MEASURED_S :].mean(axis=1) / SPEED
        return shares
