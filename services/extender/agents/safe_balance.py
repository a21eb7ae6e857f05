# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``safe_balance``: nodes with a lower and steadier utilisation get higher scores.

Score: 10·(1 − (mean + √deviation) / 2), from the resource with the lowest score (priority safe-balance of IBM/kube-safe-scheduler).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..interface import BEST_SCORE, Judgement
from .arrays import Floats
from .safe.arguments import RESOURCES
from .safe.model import ResourceUtilisation, SafeAgent, Utilisation, measured_at_s
from .safe.table import SafeTable


class SafeBalance(SafeAgent):
    """Scores nodes by mean and deviation of the utilisation."""

    name = "safe_balance"

    def score_rows(self, utilisation: Utilisation) -> tuple[Floats, dict[int, str]]:
        """Return the lowest score of each node. No node is rejected."""
        return _scores(utilisation).min(axis=1), {}

    def judge_one(self, resources: Sequence[ResourceUtilisation], measured_at_s: float | None) -> Judgement:
        """Return the judgement by the resource with the lowest score."""
        scores = [BEST_SCORE * (1.0 - (one.mean + math.sqrt(one.deviation)) / 2.0) for one in resources]
        score = min(scores)
        column = scores.index(score)
        return Judgement(score, resources[column].mean, _explanation(column, *resources[column]), measured_at_s)

    def judge_rows(self, table: SafeTable, utilisation: Utilisation) -> list[Judgement]:
        """Return the judgements by the resource with the lowest score."""
        scores = _scores(utilisation)
        worst = scores.argmin(axis=1)
        rows = np.arange(len(scores))
        columns = zip(
            scores[rows, worst].tolist(),
            worst.tolist(),
            utilisation.mean[rows, worst].tolist(),
            utilisation.deviation[rows, worst].tolist(),
            strict=True,
        )
        return [
            Judgement(score, mean, _explanation(column, mean, deviation), measured_at_s(table, row))
            for row, (score, column, mean, deviation) in enumerate(columns)
        ]

    def original_score(self, judgement: Judgement) -> int:
        """Return the score rounded to the nearest integer, as in the original. An unknown node has 0."""
        return 0 if judgement.score is None else math.floor(judgement.score + 0.5)


def _explanation(column: int, mean: float, deviation: float) -> str:
    return f"{RESOURCES[column]} {mean:.0%} ± {deviation:.0%}"


def _scores(utilisation: Utilisation) -> Floats:
    """Return the score of each resource of each node."""
    return BEST_SCORE * (1.0 - (utilisation.mean + np.sqrt(utilisation.deviation)) / 2.0)
