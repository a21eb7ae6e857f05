# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler in virtual time: it places the pods of a scenario one after the other, by the stock scores and those of a contender."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import NamedTuple

import numpy as np

from tests.soak.placement.cluster import Cluster
from tests.soak.placement.contenders import Contender, Make
from tests.soak.placement.own_extender import own_queries
from tests.soak.placement.stock_scores import StockScores
from tests.soak.placement.workload import NODE_CPU, NODE_MEMORY, WARM_UP_S, Pod, Scenario

WEIGHT = 5
"""The weight of each contender: the one that docs/network-aware-scheduling.md begins with."""
CYCLE_S = 0.02
"""The time for one pod: 50 pods each second."""
WATCH_S = 0.1
"""The time from a binding to the moment when a contender's watch shows it. The scheduler itself knows it immediately."""


class Outcome(NamedTuple):
    """The result of a run. ``variation``: the coefficient of variation of the utilisation. ``maximum``: that of the node with the most.

    ``herding``: the largest share of the burst on one node.
    """

    variation: float
    maximum: float
    herding: float


def run(scenario: Scenario, make: Make, seed: int) -> Outcome:
    """Place all pods of a scenario, and return the result. ``seed``: for the choice among equal nodes."""
    simulation = Simulation(scenario, make, seed)
    for pod in scenario.pods:
        simulation.place(pod)
    found = simulation.cluster.utilisation()
    in_burst = [node for pod, node in simulation.placed if pod.workload == scenario.burst]
    return Outcome(float(found.std() / found.mean()), float(found.max()), Counter(in_burst).most_common(1)[0][1] / len(in_burst))


class Simulation:
    """One run. ``placed``: each pod with the number of its node."""

    def __init__(self, scenario: Scenario, make: Make, seed: int) -> None:
        self.cluster = Cluster(scenario, own_queries())
        self.placed: list[tuple[Pod, int]] = []
        self._contender: Contender = make(self.cluster)
        requested = list(zip(scenario.cpu.tolist(), scenario.memory.tolist(), strict=True))
        self._stock = StockScores([(NODE_CPU, NODE_MEMORY)] * scenario.nodes, requested, pods=scenario.others.tolist())
        self._choices = random.Random(seed)
        self._unseen: deque[tuple[float, Pod, int]] = deque()
        self._refresh_at_s = float(WARM_UP_S)

    def place(self, pod: Pod) -> None:
        """Let the time pass until it is the pod's turn, and bind it to the node with the most points."""
        requests = (pod.cpu, pod.memory)
        self._advance(max(self.cluster.now_s + CYCLE_S, pod.arrives_at_s))
        workload, nodes = str(pod.workload), self._stock.feasible(requests)
        points = self._stock.total(workload, requests, nodes) + WEIGHT * self._contender.points(pod)[nodes]
        # As the scheduler does, it chooses at random among equal nodes.
        node = self._choices.choice(nodes[points == points.max()].tolist())
        self._stock.bind(workload, requests, node)
        self.cluster.start(pod, node)
        self.placed.append((pod, node))
        self._unseen.append((self.cluster.now_s + WATCH_S, pod, node))

    def _advance(self, now_s: float) -> None:
        """Let the time pass, with the refreshes and the events of the watch that are due, in their order.

        A refresh replaces all values of the one before. Only the last of several without an event between them is therefore done.
        """
        while True:
            refresh_at_s = self._refresh_at_s if self._contender.refresh_s else np.inf
            seen_at_s = self._unseen[0][0] if self._unseen else np.inf
            if min(refresh_at_s, seen_at_s) > now_s:
                break
            if seen_at_s <= refresh_at_s:
                _at_s, pod, node = self._unseen.popleft()
                self.cluster.advance(seen_at_s)
                self._contender.on_bound(pod, node)
            else:
                self._refresh_at_s += self._contender.refresh_s
                if self._refresh_at_s > min(seen_at_s, now_s):
                    self.cluster.advance(refresh_at_s)
                    self._contender.refresh()
        self.cluster.advance(now_s)
