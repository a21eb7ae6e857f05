# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``safe_overload``: nodes with a smaller risk of overload get higher scores, and a filter rejects nodes with a large risk.

The risk is the probability that the utilisation exceeds the threshold. Score: 10·(1 − √(risk / accepted risk)), from the resource with the
lowest score (predicate and priority safe-overload of IBM/kube-safe-scheduler).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..interface import BEST_SCORE, Judgement
from .arrays import Booleans, Floats
from .safe.arguments import RESOURCES, SafeArgs
from .safe.beta import overload_risk
from .safe.beta_of_one import overload_risk_of_one
from .safe.model import ResourceUtilisation, SafeAgent, Utilisation, measured_at_s
from .safe.table import SafeTable


class SafeOverload(SafeAgent):
    """Scores nodes by the risk of overload, and rejects those above the accepted risk."""

    name = "safe_overload"
    can_filter = True

    def __init__(self, args: SafeArgs) -> None:
        super().__init__(args)
        self._threshold = args.utilisation / 100.0
        self._accepted = [args.accepted_risk(resource) for resource in RESOURCES]

    @property
    def ineffective_filter(self) -> str:
        """Return the reason why no node is rejected."""
        return "percentile is 100, which accepts every risk" if min(self._accepted) >= 1.0 else ""

    def score_rows(self, utilisation: Utilisation) -> tuple[Floats, dict[int, str]]:
        """Return the lowest score of each node, and the reasons of the rejected nodes."""
        scores, risk, rejected = self._score_resources(utilisation)
        rows = np.flatnonzero(rejected.any(axis=1)).tolist()
        return scores.min(axis=1), {row: self._rejections(risk[row], rejected[row]) for row in rows}

    def _score_resources(self, utilisation: Utilisation) -> tuple[Floats, Floats, Booleans]:
        """Return score, risk and whether the risk is too large, of each resource of each node. An unknown node is not rejected."""
        risk = overload_risk(utilisation.mean.ravel(), utilisation.deviation.ravel(), self._threshold).reshape(utilisation.mean.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(risk > 0, np.minimum(risk / self._accepted, 1.0), 0.0)
        return BEST_SCORE * (1.0 - np.sqrt(share)), risk, utilisation.known[:, np.newaxis] & (risk > self._accepted)

    def judge_one(self, resources: Sequence[ResourceUtilisation], measured_at_s: float | None) -> Judgement:
        """Return the judgement by the resource with the lowest score."""
        risks = [overload_risk_of_one(one.mean, one.deviation, self._threshold) for one in resources]
        scores = [self._score(column, risk) for column, risk in enumerate(risks)]
        # Of equal scores the resource with the larger mean is shown.
        column = min(range(len(scores)), key=lambda column: (scores[column], -resources[column].mean))
        rejection = "; ".join(self._rejection(column, risk) for column, risk in enumerate(risks) if risk > self._accepted[column])
        explanation = self._explanation(column, resources[column].mean, resources[column].deviation, risks[column])
        return Judgement(scores[column], risks[column], explanation, measured_at_s, rejection)

    def _score(self, column: int, risk: float) -> float:
        """Return the score of a resource. With an accepted risk of 0, each risk has the score 0."""
        if risk <= 0:
            return BEST_SCORE
        accepted = self._accepted[column]
        return BEST_SCORE * (1.0 - math.sqrt(risk / accepted)) if risk < accepted else 0.0

    def _explanation(self, column: int, mean: float, deviation: float, risk: float) -> str:
        return f"{RESOURCES[column]} {mean:.0%} ± {deviation:.0%}, {risk:.1%} risk to exceed {self._threshold:.0%}"

    def _rejection(self, column: int, risk: float) -> str:
        limits = f"the risk to exceed {self._threshold:.0%} is {risk:.1%}, and percentile is {self._accepted[column]:.0%}"
        return f"{RESOURCES[column]}: {limits}"

    def judge_rows(self, table: SafeTable, utilisation: Utilisation) -> list[Judgement]:
        """Return the judgements by the resource with the lowest score."""
        scores, risk, rejected = self._score_resources(utilisation)
        # Of equal scores the resource with the larger mean is shown.
        worst = np.lexsort((-utilisation.mean, scores), axis=1)[:, 0]
        rows = np.arange(len(scores))
        columns = zip(
            scores[rows, worst].tolist(),
            risk[rows, worst].tolist(),
            worst.tolist(),
            utilisation.mean[rows, worst].tolist(),
            utilisation.deviation[rows, worst].tolist(),
            np.any(rejected, axis=1).tolist(),
            strict=True,
        )
        found = []
        for row, (score, node_risk, column, mean, deviation, is_rejected) in enumerate(columns):
            explanation = self._explanation(column, mean, deviation, node_risk)
            rejection = self._rejections(risk[row], rejected[row]) if is_rejected else ""
            found.append(Judgement(score, node_risk, explanation, measured_at_s(table, row), rejection))
        return found

    def _rejections(self, risks: Floats, rejected: Booleans) -> str:
        return "; ".join(self._rejection(column, risk) for column, risk in enumerate(risks.tolist()) if rejected[column])
