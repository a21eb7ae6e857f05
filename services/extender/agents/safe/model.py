# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The common part of ``safe_overload`` and ``safe_balance``: the utilisation of each node with the pod that is scheduled.

Source: the packages safe and beta of IBM/kube-safe-scheduler.
"""

from __future__ import annotations

import typing as t
from collections.abc import Hashable, Sequence

import numpy as np

from ...interface import Agent, Judgement, NodeView, PodView, Query, Scores
from ..arrays import Booleans, Floats
from ..measurements import oldest
from .arguments import RESOURCES, SafeArgs
from .table import LoadNote, LoadReader, ResourceLoad, SafeTable

FEW = 8
"""Nodes that are judged one by one, because 8 nodes take as long as in arrays: 24 to 190 µs. One node takes 8 to 21 µs."""


class Utilisation(t.NamedTuple):
    """Mean and deviation of the utilisation, 0 to 1, with a row for each node and a column for each of ``RESOURCES``.

    ``known``: all resources of the node are known.
    """

    mean: Floats
    deviation: Floats
    known: Booleans


class ResourceUtilisation(t.NamedTuple):
    """The same for one resource of one node."""

    mean: float
    deviation: float


class SafeAgent(Agent):
    """An agent that judges nodes by mean and deviation of CPU and memory.

    A subclass has its formula in three forms with the same results: ``judge_one`` for one node, ``judge_rows`` for many, and ``score_rows``
    for many without the texts and values that only people need.
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
        loads = self._reader.loads(node, now_s, prepared)
        if any(load.capacity <= 0 for load in loads):
            return _unknown_judgement(loads)
        resources = [_resource_utilisation(load, amount) for load, amount in zip(loads, _demand(pod), strict=True)]
        return self.judge_one(resources, _oldest(loads))

    def score_all(self, prepared: SafeTable, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
        """Return the judgements on the nodes. Many nodes are computed at the same time."""
        if len(nodes) <= FEW:
            return super().score_all(prepared, nodes, pod, now_s)
        table = self._reader.table(nodes, now_s, prepared)
        utilisation = _utilisation(table, pod)
        found = self.judge_rows(table, utilisation)
        for row in np.flatnonzero(~utilisation.known).tolist():
            found[row] = _unknown_judgement(table.notes(row))
        return found

    def scores(self, prepared: SafeTable, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Scores | None:
        """Return the scores and the rejections of the nodes, or None if they are few."""
        if len(nodes) <= FEW:
            return None
        table = self._reader.table(nodes, now_s, prepared)
        utilisation = _utilisation(table, pod)
        scores, rejections = self.score_rows(utilisation)
        scores[~utilisation.known] = np.nan
        return Scores(scores.tolist(), rejections, table.oldest_s)

    def score_rows(self, utilisation: Utilisation) -> tuple[Floats, dict[int, str]]:
        """Return the score of each row, and the rejections by row. The scores of unknown rows are replaced by the caller."""
        raise NotImplementedError

    def judge_one(self, resources: Sequence[ResourceUtilisation], measured_at_s: float | None) -> Judgement:
        """Return the judgement on one node, which is known. It is the same as that of ``judge_rows``."""
        raise NotImplementedError

    def judge_rows(self, table: SafeTable, utilisation: Utilisation) -> list[Judgement]:
        """Return the judgements on the nodes of the table. Those on unknown nodes are replaced by the caller."""
        raise NotImplementedError


def measured_at_s(table: SafeTable, row: int) -> float | None:
    """Return the time of the oldest value of a node."""
    return _oldest(table.notes(row))


def _oldest(resources: Sequence[LoadNote | ResourceLoad]) -> float | None:
    cpu, memory = resources
    return cpu.measured_at_s if cpu.measured_at_s == memory.measured_at_s else oldest((cpu.measured_at_s, memory.measured_at_s))


def _unknown_judgement(resources: Sequence[LoadNote | ResourceLoad]) -> Judgement:
    return Judgement(None, explanation="; ".join(one.problem for one in resources if one.problem), measured_at_s=_oldest(resources))


def _demand(pod: PodView | None) -> list[int]:
    return [pod.demand.requests.get(resource, 0) if pod is not None else 0 for resource in RESOURCES]


def _utilisation(table: SafeTable, pod: PodView) -> Utilisation:
    known = table.capacity > 0
    capacity = np.where(known, table.capacity, 1.0)
    mean = np.clip((table.used + np.array(_demand(pod), dtype=np.float64)) / capacity, 0.0, 1.0)
    return Utilisation(mean, np.clip(table.deviation / capacity, 0.0, 1.0), np.logical_and.reduce(known, axis=1))


def _resource_utilisation(load: ResourceLoad, demand: int) -> ResourceUtilisation:
    mean = min(1.0, max(0.0, (load.used + demand) / load.capacity))
    return ResourceUtilisation(mean, min(1.0, max(0.0, load.deviation / load.capacity)))
