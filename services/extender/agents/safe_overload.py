# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``safe_overload``: nodes with a smaller risk of overload get higher scores, and a filter rejects nodes with a large risk.

The risk is the probability that the utilisation exceeds the threshold. Score: 10·(1 − √(risk / accepted risk)), from the resource with the
lowest score (predicate and priority safe-overload of IBM/kube-safe-scheduler).
"""

from __future__ import annotations

import numpy as np

from ..interface import BEST_SCORE, Judgement
from .beta import Booleans, Floats, overload_risk
from .safe_arguments import RESOURCES, SafeArgs
from .safe_model import SafeAgent, Utilisation, measured_at_s
from .safe_table import SafeTable


class SafeOverload(SafeAgent):
    """Scores nodes by the risk of overload, and rejects those above the accepted risk."""

    name = "safe_overload"
    can_filter = True

    def __init__(self, args: SafeArgs) -> None:
        super().__init__(args)
        self._threshold = args.utilisation / 100.0
        self._accepted = np.array([args.accepted_risk(resource) for resource in RESOURCES])

    def scored(self, utilisation: Utilisation) -> tuple[Floats, dict[int, str]]:
        """Return the lowest score of each node, and the reasons of the rejected nodes."""
        scores, risk, rejected = self._of_resources(utilisation)
        rows = np.flatnonzero(rejected.any(axis=1)).tolist()
        return scores.min(axis=1), {row: _rejection(row, risk, self._accepted, self._threshold, rejected) for row in rows}

    def _of_resources(self, utilisation: Utilisation) -> tuple[Floats, Floats, Booleans]:
        """Return score, risk and whether the risk is too large, of each resource of each node. The score of an unknown one is infinite."""
        risk = overload_risk(utilisation.mean.ravel(), utilisation.deviation.ravel(), self._threshold).reshape(utilisation.mean.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(risk > 0, np.minimum(risk / self._accepted, 1.0), 0.0)
        scores = np.where(utilisation.known, BEST_SCORE * (1.0 - np.sqrt(share)), np.inf)
        return scores, risk, utilisation.known & (risk > self._accepted)

    def judgements(self, table: SafeTable, utilisation: Utilisation) -> list[Judgement]:
        """Return the judgements by the resource with the lowest score."""
        threshold, accepted = self._threshold, self._accepted
        scores, risk, rejected = self._of_resources(utilisation)
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
            explanation = f"{RESOURCES[column]} {mean:.0%} ± {deviation:.0%}, {node_risk:.1%} risk to exceed {threshold:.0%}"
            rejection = _rejection(row, risk, accepted, threshold, rejected) if is_rejected else ""
            found.append(Judgement(score, node_risk, explanation, measured_at_s(table, row), rejection))
        return found


def _rejection(row: int, risk: Floats, accepted: Floats, threshold: float, rejected: Booleans) -> str:
    return "; ".join(
        f"{resource}: the risk to exceed {threshold:.0%} is {risk[row, column]:.1%}, and the maximum is {accepted[column]:.0%}"
        for column, resource in enumerate(RESOURCES)
        if rejected[row, column]
    )
