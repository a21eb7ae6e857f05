# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``pigeon``: places pods so that an objective over all nodes improves.

Source: the package pigeon of IBM/kube-safe-scheduler. Unlike there, requests and the variation of demands come from the pods on the nodes:
no annotator is needed, and nothing is lost at a restart. All nodes count, not only those that the scheduler still considers.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Hashable, Sequence

import numpy as np

from ....plugins.module_utils.model.codec import Struct
from ..interface import BEST_SCORE, Agent, Judgement, NodeView, PodView
from .arguments import check_range
from .beta import Booleans, Floats
from .pigeon_objectives import binpack, consolidate, load_balance, variation_of_demands
from .pigeon_table import PigeonReader, PigeonTable

LOAD_BALANCE, CONSOLIDATE = "LOAD_BALANCE", "CONSOLIDATE"
WORST_FITTING = 1.0
"""The score of the worst node on which the pod fits. A node on which it does not fit has 0."""
EQUAL = 1e-12
"""Objectives that differ by less are equal: the difference is an error of rounding."""


class PigeonArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``pigeon``.

    ``num_resources``: the number of resources that count, in the order cpu, memory, pods, gpu, ephemeral-storage. ``policy_objective``: the
    objective. ``policy_resource_index``: the resource of LOAD_BALANCE and CONSOLIDATE, 0 for cpu. ``gpu_resource``: the name of the
    resource for gpu.
    """

    num_resources: int = 2
    policy_objective: t.Literal["A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE"] = "A_BINPACK"
    policy_resource_index: int = 0
    gpu_resource: str = "nvidia.com/gpu"

    def __post_init__(self) -> None:
        check_range("num_resources", self.num_resources, 1, 5)
        check_range("policy_resource_index", self.policy_resource_index, 0, self.num_resources - 1)


class Pigeon(Agent):
    """Scores nodes by the objective with the pod on each of them."""

    name = "pigeon"
    args_type = PigeonArgs
    per_demand = True
    needs_all_nodes = True

    def __init__(self, args: PigeonArgs) -> None:
        super().__init__(args)
        self._reader = PigeonReader(args.num_resources, args.gpu_resource)

    def prepare(self, nodes: Sequence[NodeView], now_s: float) -> PigeonTable:
        """Return the requests of all nodes."""
        return self._reader.table(nodes)

    def demand_key(self, pod: PodView) -> Hashable:
        """Return the requests of the resources that count."""
        return self._reader.key(pod.demand)

    def judge(self, prepared: PigeonTable, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the judgement on one node. Without a pod there is none, because the score depends on its requests."""
        if pod is None:
            return Judgement(None, explanation="the score depends on the pod")
        nodes = [node if one.name == node.name else one for one in prepared.nodes]
        found = self.score_all(prepared, nodes, pod, now_s)
        return next((judgement for one, judgement in zip(nodes, found, strict=True) if one is node), _UNKNOWN)

    def score_all(self, prepared: PigeonTable, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
        """Return the judgements on all nodes, computed for all of them at the same time."""
        table = self._reader.updated(prepared, nodes)
        known = np.flatnonzero((table.capacity[:, : min(2, self.args.num_resources)] > 0).all(axis=1))
        found = [_UNKNOWN] * len(nodes)
        if not known.size:
            return found
        demand = self._reader.demand(pod.demand)
        capacity, requested = table.capacity[known], table.requested[known]
        values = self._objective(table, capacity, requested, demand)
        fits: Booleans = np.all(requested + demand <= capacity, axis=1)
        scores = _scores(values, fits)
        for row, score, value, fit in zip(known.tolist(), scores.tolist(), values.tolist(), fits.tolist(), strict=True):
            explanation = f"{self.args.policy_objective} {value:.6g}" if fit else "the requests do not fit"
            found[row] = Judgement(score, value, explanation)
        return found

    def original_score(self, judgement: Judgement) -> int:
        """Return the score rounded to the nearest integer, as in the original. An unknown node has 0."""
        return 0 if judgement.score is None else math.floor(judgement.score + 0.5)

    def _objective(self, table: PigeonTable, capacity: Floats, requested: Floats, demand: Floats) -> Floats:
        divisor = np.where(capacity > 0, capacity, np.inf)
        before, after = requested / divisor, (requested + demand) / divisor
        prime = self.args.policy_resource_index
        if self.args.policy_objective == LOAD_BALANCE:
            return load_balance(before[:, prime], after[:, prime])
        if self.args.policy_objective == CONSOLIDATE:
            return consolidate(before[:, prime], after[:, prime])
        mean = capacity.mean(axis=0)
        scale = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
        sums = (table.sums.sum(axis=0) + demand) * scale
        products = (table.products.sum(axis=0) + np.outer(demand, demand)) * np.outer(scale, scale)
        return binpack(before, after, variation_of_demands(table.pods.sum() + 1.0, sums, products))


_UNKNOWN = Judgement(None, explanation="the allocatable resources are not known")


def _scores(values: Floats, fits: Booleans) -> Floats:
    """Return 0 where the pod does not fit, and otherwise 1 to 10 from the largest to the smallest value."""
    if not fits.any():
        return np.zeros_like(values)
    largest, smallest = values[fits].max(), values[fits].min()
    if largest - smallest <= EQUAL * max(1.0, abs(largest)):
        return np.where(fits, BEST_SCORE, 0.0)
    scores = WORST_FITTING + (BEST_SCORE - WORST_FITTING) * (largest - values) / (largest - smallest)
    return np.where(fits, scores, 0.0)
