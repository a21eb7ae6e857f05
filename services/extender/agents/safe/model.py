# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The common part of ``safe_overload`` and ``safe_balance``: the utilisation of each node with the pod that is scheduled.

Source: the packages safe and beta of IBM/kube-safe-scheduler.
"""

from __future__ import annotations

import typing as t
from abc import abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np

from ...interface import Agent, Judgement, NodeView, PodView, Query, Scores
from ..arrays import Floats
from ..measurements import oldest
from .arguments import RESOURCES, SafeArgs
from .table import CAPACITY, DEVIATION, TIME, USED, LoadReader, SafeTable

FEW = 8
"""Nodes that are judged one by one, because 8 nodes take as long as in arrays: 24 to 190 µs. One node takes 8 to 21 µs."""


class Utilisation(t.NamedTuple):
    """Mean and deviation of the utilisation of one resource of one node, 0 to 1."""

    mean: float
    deviation: float


class SafeAgent(Agent):
    """An agent that judges nodes by mean and deviation of CPU and memory.

    A subclass has its formula in two forms with the same results: ``judge_one`` for one node, and ``score_rows`` for many without the texts
    and values that only people need.
    """

    args_type = SafeArgs
    per_demand = True

    def __init__(self, args: SafeArgs) -> None:
        super().__init__(args)
        self._reader = LoadReader(args)

    @property
    def queries(self) -> Sequence[Query]:
        """Return the queries about CPU and memory."""
        return self._reader.queries

    def prepare(self, nodes: Sequence[NodeView], now_s: float) -> SafeTable:
        """Return the loads of all nodes."""
        return self._reader.table(nodes, now_s)

    def demand_key(self, pod: PodView) -> Hashable:
        """Return the requested CPU and memory."""
        return tuple(_demand(pod))

    def judge(self, prepared: SafeTable, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the judgement on one node. Without a pod, the node is judged as it is."""
        loads = self._reader.loads(prepared, node, now_s)
        measured_at_s = oldest(load.measured_at_s for load in loads)
        if any(load.capacity <= 0 for load in loads):
            return Judgement(None, explanation="; ".join(load.problem for load in loads if load.problem), measured_at_s=measured_at_s)
        resources = []
        for load, amount in zip(loads, _demand(pod), strict=True):
            mean = min(1.0, max(0.0, (load.used + amount) / load.capacity))
            resources.append(Utilisation(mean, min(1.0, max(0.0, load.deviation / load.capacity))))
        return self.judge_one(resources, measured_at_s)

    def scores(self, prepared: SafeTable, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Scores | None:
        """Return the scores and the rejections of the nodes, or None if they are few."""
        if len(nodes) <= FEW:
            return None
        numbers = self._reader.numbers(prepared, nodes, now_s)
        rows = np.flatnonzero((numbers[:, :, CAPACITY] > 0).all(axis=1))
        known = numbers[rows]
        capacity = known[:, :, CAPACITY]
        mean = np.clip((known[:, :, USED] + np.array(_demand(pod), dtype=np.float64)) / capacity, 0.0, 1.0)
        scores = np.full(len(nodes), np.nan)
        scores[rows], rejections = self.score_rows(mean, np.clip(known[:, :, DEVIATION] / capacity, 0.0, 1.0))
        times = known[:, :, TIME]
        times = times[~np.isnan(times)]
        by_row = {int(rows[row]): text for row, text in rejections.items()}
        return Scores(scores.tolist(), by_row, float(times.min()) if times.size else None)

    @abstractmethod
    def judge_one(self, resources: Sequence[Utilisation], measured_at_s: float | None) -> Judgement:
        """Return the judgement on a node by its ``RESOURCES``."""

    @abstractmethod
    def score_rows(self, mean: Floats, deviation: Floats) -> tuple[Floats, dict[int, str]]:
        """Return the score of each node, and the rejections by row. There is a row for each node, and a column for each resource."""


def _demand(pod: PodView | None) -> list[int]:
    return [pod.demand.requests.get(resource, 0) if pod is not None else 0 for resource in RESOURCES]
