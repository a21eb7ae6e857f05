# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scores of the stock kube-scheduler 1.36 for a pod with requests, which a Deployment or ReplicaSet owns.

NodeResourcesFit (LeastAllocated), NodeResourcesBalancedAllocation and PodTopologySpread (its default constraints) are modelled, with their
default weights. The other plugins give all nodes the same points here: the nodes have no taints and no images, and the pods have no
affinity. Source: kubernetes 1.36, ``pkg/scheduler/framework/plugins``, ``noderesources/{least_allocated,balanced_allocation}.go`` and
``podtopologyspread/scoring.go``. ``tests/integration/extender/test_placement_model.py`` compares it with the real scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.soak.placement.workload import Integers

BEST = 100
FIT, BALANCED, SPREAD = "NodeResourcesFit", "NodeResourcesBalancedAllocation", "PodTopologySpread"
SPREAD_WEIGHT = 2
MOST_PODS = 110
"""The pods that a node accepts, a kubelet's default."""
HOST_SKEW, ZONE_SKEW = 3, 5
"""The ``maxSkew`` of the default constraints."""


class StockScores:
    """The nodes as the scheduler's cache has them. ``zones``: the zone of each node, or none for nodes without zones.

    ``pods``: the number of pods on each node.
    """

    def __init__(
        self,
        allocatable: Sequence[tuple[int, int]],
        requested: Sequence[tuple[int, int]],
        zones: Sequence[str] | None = None,
        *,
        pods: Sequence[int] = (),
    ) -> None:
        self._allocatable = np.array(allocatable, dtype=np.int64)
        self._requested = np.array(requested, dtype=np.int64)
        self._pods = np.array(pods or [0] * len(allocatable), dtype=np.int64)
        self._counts: dict[str, Integers] = {}
        self._zones = None if zones is None else np.unique(np.array(zones), return_inverse=True)[1]

    def bind(self, workload: str, requests: tuple[int, int], node: int) -> None:
        """Count a pod on a node, by its number. ``requests``: millicores and bytes."""
        self._requested[node] += requests
        self._counts_of(workload)[node] += 1
        self._pods[node] += 1

    def feasible(self, requests: tuple[int, int]) -> Integers:
        """Return the numbers of the nodes on which a pod fits: the filter of NodeResourcesFit."""
        fits = (self._requested + np.array(requests) <= self._allocatable).all(axis=1)
        return np.flatnonzero(fits & (self._pods < MOST_PODS))

    def scores(self, workload: str, requests: tuple[int, int], nodes: Integers) -> dict[str, Integers]:
        """Return the points of each plugin for these nodes, times its weight."""
        allocatable, before = self._allocatable[nodes], self._requested[nodes]
        after = before + np.array(requests)
        return {
            FIT: ((allocatable - after) * BEST // allocatable).sum(axis=1) // 2,
            BALANCED: BEST // 2 + (BEST // 2 + _balance(after, allocatable) - _balance(before, allocatable)) // 2,
            SPREAD: SPREAD_WEIGHT * self._spread(self._counts_of(workload), nodes),
        }

    def total(self, workload: str, requests: tuple[int, int], nodes: Integers) -> Integers:
        """Return the points of all plugins for these nodes."""
        points: Integers = np.sum(list(self.scores(workload, requests, nodes).values()), axis=0)
        return points

    def _counts_of(self, workload: str) -> Integers:
        return self._counts.setdefault(workload, np.zeros(len(self._allocatable), dtype=np.int64))

    def _spread(self, counts: Integers, nodes: Integers) -> Integers:
        costs = counts[nodes] * np.log(len(nodes) + 2) + (HOST_SKEW - 1)
        if self._zones is not None:
            zones = self._zones[nodes]
            in_zones = np.bincount(self._zones, weights=counts)
            costs = costs + in_zones[zones] * np.log(len(np.unique(zones)) + 2) + (ZONE_SKEW - 1)
        rounded = np.floor(costs + 0.5).astype(np.int64)
        points: Integers = BEST * (rounded.max() + rounded.min() - rounded) // rounded.max()
        return points


def _balance(requested: Integers, allocatable: Integers) -> Integers:
    shares = np.minimum(requested / allocatable, 1.0)
    points: Integers = ((1.0 - np.abs(shares[:, 0] - shares[:, 1]) / 2) * BEST).astype(np.int64)
    return points
