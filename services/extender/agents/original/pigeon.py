# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``pigeon``: places pods so that an objective over all nodes improves.

Source: the package pigeon of IBM/kube-safe-scheduler. Unlike there, requests and the variation of demands come from the pods on the nodes:
no annotator is needed, and nothing is lost at a restart. All nodes count, not only those that the scheduler still considers.
"""

from __future__ import annotations

import typing as t
from collections.abc import Hashable, Sequence

import numpy as np

from .....plugins.module_utils.model.codec import Struct
from ....common.kinds import whole
from ...interface import BEST_SCORE, Agent, Judgement, NodeView, PodView, Scores
from ..arrays import Booleans, Floats
from .packing.objectives import binpack, consolidate, load_balance
from .packing.placements import NewestPlacements, PigeonReader, Placements

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

    num_resources: t.Annotated[int, whole(1, 5)] = 2
    policy_objective: t.Literal["A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE"] = "A_BINPACK"
    policy_resource_index: t.Annotated[int, whole(0, 4)] = 0
    gpu_resource: str = "nvidia.com/gpu"

    def __post_init__(self) -> None:
        if self.policy_resource_index >= self.num_resources:
            raise ValueError(f"policy_resource_index is {self.policy_resource_index}: it must be below num_resources, {self.num_resources}")


class Pigeon(Agent):
    """Scores nodes by the objective with the pod on each of them.

    Each binding changes the objective for all nodes, and with it the scale of the scores. So all nodes are judged again after a binding.
    """

    name = "pigeon"
    args_type = PigeonArgs
    per_demand = True
    compares_nodes = True

    def __init__(self, args: PigeonArgs) -> None:
        super().__init__(args)
        self._reader = PigeonReader(args.num_resources, args.gpu_resource, args.policy_resource_index)

    def prepare(self, nodes: Sequence[NodeView], now_s: float) -> NewestPlacements:
        """Return the requests of all nodes."""
        return NewestPlacements(self._reader, nodes)

    def demand_key(self, pod: PodView) -> Hashable:
        """Return the requests of the resources that count."""
        return self._reader.key(pod.demand)

    def score_all(self, prepared: NewestPlacements, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
        """Return the judgements on all nodes, computed for all of them at the same time."""
        placements = prepared.of(nodes)
        values, fits = self._values(placements, pod)
        objective = self.args.policy_objective
        judgements = (
            Judgement(score, value, f"{objective} {value:.6g}" if fit else "the requests do not fit")
            for score, value, fit in zip(scores_of_objective(values, fits).tolist(), values.tolist(), fits.tolist(), strict=True)
        )
        return [next(judgements) if known else _unknown(node) for known, node in zip(placements.is_known.tolist(), nodes, strict=True)]

    def scores(self, prepared: NewestPlacements, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Scores:
        """Return the same without texts."""
        placements = prepared.of(nodes)
        scores = np.full(len(nodes), np.nan)
        scores[placements.is_known] = scores_of_objective(*self._values(placements, pod))
        return Scores(scores.tolist())

    def _values(self, placements: Placements, pod: PodView) -> tuple[Floats, Booleans]:
        """Return the objective with the pod on each of the known nodes, and whether the pod fits there."""
        demand = self._reader.demand(pod.demand)
        fits: Booleans = np.all(placements.requested + demand <= placements.capacity, axis=1)
        before, after = placements.points, placements.points + demand / placements.divisor
        if self.args.policy_objective == LOAD_BALANCE:
            return load_balance(placements.shares, before, after), fits
        if self.args.policy_objective == CONSOLIDATE:
            return consolidate(placements.shares, before, after), fits
        return binpack(placements.shares, before, after, placements.variation_with(demand)), fits


def _unknown(node: NodeView) -> Judgement:
    missing = [resource for resource in ("cpu", "memory") if node.allocatable.get(resource, 0) <= 0]
    return Judgement(None, explanation=f"no value of allocatable {' and '.join(missing)} is known")


def scores_of_objective(values: Floats, fits: Booleans) -> Floats:
    """Return 1 to 10 from the largest to the smallest value of the nodes on which the pod fits, and 0 where it does not fit."""
    fitting = values[fits]
    if not fitting.size:
        return np.zeros_like(values)
    smallest, largest = fitting.min(), fitting.max()
    if largest - smallest <= EQUAL * max(1.0, abs(largest)):
        return np.where(fits, BEST_SCORE, 0.0)
    return np.where(fits, WORST_FITTING + (BEST_SCORE - WORST_FITTING) * (largest - values) / (largest - smallest), 0.0)
