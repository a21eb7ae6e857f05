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
from .safe.model import SafeAgent, Utilisation


class SafeBalance(SafeAgent):
    """Scores nodes by mean and deviation of the utilisation."""

    name = "safe_balance"

    def judge_one(self, resources: Sequence[Utilisation], measured_at_s: float | None) -> Judgement:
        """Return the judgement by the resource with the lowest score."""
        scores = [BEST_SCORE * (1.0 - (one.mean + math.sqrt(one.deviation)) / 2.0) for one in resources]
        score = min(scores)
        worst = scores.index(score)
        mean, deviation = resources[worst]
        return Judgement(score, mean, f"{RESOURCES[worst]} {mean:.0%} ± {deviation:.0%}", measured_at_s)

    def score_rows(self, mean: Floats, deviation: Floats) -> tuple[Floats, dict[int, str]]:
        """Return the lowest score of each node. No node is rejected."""
        scores: Floats = BEST_SCORE * (1.0 - (mean + np.sqrt(deviation)) / 2.0)
        return scores.min(axis=1), {}
