# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``congestion``: nodes with a smaller congestion factor get higher scores.

Score: 10·(1 − min(factor, max) / max), as in IBM/kube-safe-scheduler. There a node without a factor has the best score. Here it is unknown,
as for all agents, so that a node without data does not attract all pods.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ....common.kinds import positive
from ...interface import BEST_SCORE, Agent, Annotation, Expression, Judgement, NodeView, PodView, Query
from ..arguments import ValueAgeArgs
from ..measurements import read_value


class CongestionArgs(ValueAgeArgs, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``annotation``: the annotation of nodes with the factor. ``query``: a PromQL expression that replaces it.

    ``max``: factors from this value on have the score 0. ``timestamp_of``: the selector of the raw series behind ``query``.
    """

    annotation: str = "congestion-factor"
    query: str = ""
    timestamp_of: str = ""
    max: t.Annotated[float, positive()] = 100.0

    def __post_init__(self) -> None:
        if not (self.annotation or self.query):
            raise ValueError("annotation is empty: give an annotation or a query")


class Congestion(Agent):
    """Scores nodes by a factor that other programs measure."""

    name = "congestion"
    args_type = CongestionArgs

    @property
    def queries(self) -> Sequence[Query]:
        """Return the query for the factor."""
        return (self._query,)

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the score of the node's factor."""
        found = read_value(node, self._query, now_s, self.args.max_age_s)
        if found.value is None:
            return Judgement(None, explanation=found.problem, measured_at_s=found.measured_at_s)
        if found.value < 0:
            return Judgement(None, found.value, f"the factor is {found.value:g}, and at least 0 is expected", found.measured_at_s)
        score = BEST_SCORE * (1.0 - min(found.value, self.args.max) / self.args.max)
        return Judgement(score, found.value, f"factor {found.value:g} of {self.args.max:g}", found.measured_at_s)

    @property
    def _query(self) -> Query:
        if self.args.query:
            return Expression(self.args.query, self.args.timestamp_of)
        return Annotation(self.args.annotation)
