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
from .arrays import Floats
from .safe.arguments import RESOURCES, SafeArgs
from .safe.beta import overload_risk, overload_risk_of_one
from .safe.model import SafeAgent, Utilisation


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

    def judge_one(self, resources: Sequence[Utilisation], measured_at_s: float | None) -> Judgement:
        """Return the judgement by the resource with the lowest score."""
        risks = [overload_risk_of_one(one.mean, one.deviation, self._threshold) for one in resources]
        scores = [self._score(column, risk) for column, risk in enumerate(risks)]
        # Of equal scores the resource with the larger mean is shown.
        worst = min(range(len(scores)), key=lambda column: (scores[column], -resources[column].mean))
        utilisation = f"{RESOURCES[worst]} {resources[worst].mean:.0%} ± {resources[worst].deviation:.0%}"
        explanation = f"{utilisation}, {risks[worst]:.1%} risk to exceed {self._threshold:.0%}"
        return Judgement(scores[worst], risks[worst], explanation, measured_at_s, self._rejection(risks))

    def score_rows(self, mean: Floats, deviation: Floats) -> tuple[Floats, dict[int, str]]:
        """Return the lowest score of each node, and the reasons of the rejected nodes."""
        risk = overload_risk(mean.ravel(), deviation.ravel(), self._threshold).reshape(mean.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(risk > 0, np.minimum(risk / self._accepted, 1.0), 0.0)
        scores = BEST_SCORE * (1.0 - np.sqrt(share)).min(axis=1)
        rejected = np.flatnonzero((risk > self._accepted).any(axis=1)).tolist()
        return scores, {row: self._rejection(risk[row].tolist()) for row in rejected}

    def _score(self, column: int, risk: float) -> float:
        """Return the score of a resource. With an accepted risk of 0, each risk has the score 0."""
        if risk <= 0:
            return BEST_SCORE
        accepted = self._accepted[column]
        return BEST_SCORE * (1.0 - math.sqrt(risk / accepted)) if risk < accepted else 0.0

    def _rejection(self, risks: Sequence[float]) -> str:
        """Return the reason to reject a node, or an empty text."""
        return "; ".join(
            f"{resource}: the risk to exceed {self._threshold:.0%} is {risk:.1%}, and percentile is {accepted:.0%}"
            for resource, risk, accepted in zip(RESOURCES, risks, self._accepted, strict=True)
            if risk > accepted
        )
