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
from ..interface import BEST_SCORE, Agent, Judgement, NodeView, PodView, Scores
from .arguments import check_range
from .arrays import Booleans, Floats
from .packing.objectives import binpack, consolidate, load_balance
from .packing.placements import Limits, Placements, Rows
from .packing.table import PigeonReader

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

    def __init__(self, args: PigeonArgs) -> None:
        super().__init__(args)
        self._reader = PigeonReader(args.num_resources, args.gpu_resource)

    def prepare(self, nodes: Sequence[NodeView], now_s: float) -> Placements:
        """Return the requests of all nodes."""
        return Placements(self._reader.table(nodes), self.args.policy_resource_index, {})

    def demand_key(self, pod: PodView) -> Hashable:
        """Return the requests of the resources that count."""
        return self._reader.key(pod.demand)

    def judge(self, prepared: Placements, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the judgement on one node. Without a pod there is none, because the score depends on its requests."""
        if pod is None:
            return Judgement(None, explanation="the score depends on the pod")
        return self.judge_demands(prepared, node, [pod], now_s)[0]

    def judge_demands(self, prepared: Placements, node: NodeView, pods: Sequence[PodView], now_s: float) -> Sequence[Judgement]:
        """Return the judgements on one node for several pods.

        The change of the objective is compared with that of the best and the worst node of the last calculation for all nodes.
        """
        row = prepared.table.index.get(node.name)
        if row is None:
            return [_UNKNOWN] * len(pods)
        placements = prepared.newest or prepared
        if placements.table.nodes[row] is not node:
            known = placements.replaced
            if known is None or known[0] is not node:
                table = self._reader.with_rows(placements.table, [row], [node])
                known = placements.replaced = node, Placements(table, self.args.policy_resource_index, prepared.limits)
            placements = known[1]
        return [self._judge_row(placements, row, pod) for pod in pods]

    def score_all(self, prepared: Placements, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
        """Return the judgements on all nodes, computed for all of them at the same time."""
        placements = self._placements(prepared, nodes)
        found = [_UNKNOWN] * len(nodes)
        judgements = self._judgements(self._unchanged(placements, pod), *self._all_values(placements, pod))
        for row, judgement in zip(placements.known.tolist(), judgements, strict=True):
            found[row] = judgement
        return found

    def scores(self, prepared: Placements, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Scores:
        """Return the same without texts."""
        placements = self._placements(prepared, nodes)
        scores = np.full(len(nodes), np.nan)
        scores[placements.known] = _scores(*self._all_values(placements, pod))
        return Scores(scores.tolist())

    def original_score(self, judgement: Judgement) -> int:
        """Return the score rounded to the nearest integer, as in the original. An unknown node has 0."""
        return 0 if judgement.score is None else math.floor(judgement.score + 0.5)

    def _judge_row(self, placements: Placements, row: int, pod: PodView) -> Judgement:
        if not placements.is_known[row]:
            return _UNKNOWN
        key = self.demand_key(pod)
        if key not in placements.limits:
            self._all_values(placements, pod)
        rows = np.array([row])
        values, fits = self._values(placements, rows, pod)
        return self._judgements(self._unchanged(placements, pod), values, fits, placements.limits.get(key))[0]

    def _placements(self, prepared: Placements, nodes: Sequence[NodeView]) -> Placements:
        """Return the placements with the newest state of all nodes."""
        table = self._reader.updated(prepared.table, nodes)
        if table is prepared.table:
            return prepared
        found = Placements(table, self.args.policy_resource_index, prepared.limits)
        if table.index is prepared.table.index:
            prepared.newest = found
        return found

    def _all_values(self, placements: Placements, pod: PodView) -> tuple[Floats, Booleans, Limits | None]:
        """Return the change on each of the known nodes, whether the pod fits there, and the limits, which are noted."""
        values, fits = self._values(placements, placements.known, pod)
        limits = (float(values[fits].min()), float(values[fits].max())) if fits.any() else None
        placements.note(self.demand_key(pod), limits)
        return values, fits, limits

    def _values(self, placements: Placements, rows: Rows, pod: PodView) -> tuple[Floats, Booleans]:
        """Return the change of the objective by the pod on each of the rows, and whether the pod fits there.

        The change hardly depends on the pods that were bound since the limits were noted. The objective itself does.
        """
        table, demand = placements.table, self._reader.demand(pod.demand)
        fits: Booleans = np.all(table.requested[rows] + demand <= table.capacity[rows], axis=1)
        before = placements.points[rows]
        after = before + demand / placements.divisor[rows]
        return self._objective(placements, before, after, demand) - self._unchanged(placements, pod), fits

    def _unchanged(self, placements: Placements, pod: PodView) -> float:
        """Return the objective of the nodes without the pod. The variation of the demands includes it."""
        before = placements.points[placements.known[:1]]
        return float(self._objective(placements, before, before, self._reader.demand(pod.demand))[0]) if len(before) else 0.0

    def _objective(self, placements: Placements, before: Floats, after: Floats, demand: Floats) -> Floats:
        """Return the objective after the change of each of the nodes from ``before`` to ``after``."""
        if self.args.policy_objective == LOAD_BALANCE:
            return load_balance(placements.shares, before, after)
        if self.args.policy_objective == CONSOLIDATE:
            return consolidate(placements.shares, before, after)
        return binpack(placements.shares, before, after, placements.variation_with(demand))

    def _judgements(self, unchanged: float, changes: Floats, fits: Booleans, limits: Limits | None) -> list[Judgement]:
        scores, values = _scores(changes, fits, limits), changes + unchanged
        objective = self.args.policy_objective
        return [
            Judgement(score, value, f"{objective} {value:.6g}" if fit else "the requests do not fit")
            for score, value, fit in zip(scores.tolist(), values.tolist(), fits.tolist(), strict=True)
        ]


_UNKNOWN = Judgement(None, explanation="the allocatable resources are not known")


def _scores(values: Floats, fits: Booleans, limits: Limits | None) -> Floats:
    """Return 1 to 10 from the largest to the smallest value, and 0 where the pod does not fit."""
    smallest, largest = limits or (0.0, 0.0)
    if largest - smallest <= EQUAL * max(1.0, abs(largest)):
        return np.where(fits, BEST_SCORE, 0.0)
    share = np.clip((largest - values) / (largest - smallest), 0.0, 1.0)
    return np.where(fits, WORST_FITTING + (BEST_SCORE - WORST_FITTING) * share, 0.0)
