# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``metric``: scores nodes by the result of any PromQL expression, linearly between a worst and a best value.

Score: 10·(worst − value) / (worst − best), limited to 0 to 10. The bounds do not depend on the other nodes, so that two nodes with nearly
the same value have nearly the same score.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ..interface import BEST_SCORE, Agent, Expression, Judgement, NodeView, PodView, Query
from .arguments import Seconds, ValueAgeArgs
from .measurements import read_value


class MetricArgs(ValueAgeArgs, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``query``: a PromQL expression with one series for each node. ``best`` and ``worst``: the values with the scores 10 and 0.

    ``reject_above`` and ``reject_below``: a filter rejects nodes beyond these values. ``unit`` is shown after values. ``timestamp_of``: the
    selector of the raw series behind the query, from which the age follows.
    """

    query: str
    best: float
    worst: float
    reject_above: float | None = None
    reject_below: float | None = None
    unit: str = ""
    timestamp_of: str = ""
    max_age_s: Seconds = 90

    def __post_init__(self) -> None:
        if not self.query.strip():
            raise ValueError("query is empty: give a PromQL expression")
        if self.best == self.worst:
            raise ValueError(f"best is {self.best} and worst is {self.worst}: they must be different numbers")
        if self.reject_above is not None and self.reject_below is not None and self.reject_above < self.reject_below:
            raise ValueError(f"reject_above is {self.reject_above} and reject_below is {self.reject_below}: every value would be rejected")


class Metric(Agent):
    """Scores nodes by one value, and optionally rejects those beyond a limit."""

    name = "metric"
    args_type = MetricArgs
    can_filter = True

    def __init__(self, args: MetricArgs) -> None:
        super().__init__(args)
        self.value_unit = args.unit

    @property
    def queries(self) -> Sequence[Query]:
        """Return the expression."""
        return (Expression(self.args.query, self.args.timestamp_of),)

    @property
    def ineffective_filter(self) -> str:
        """Return the reason why no node is rejected."""
        return "" if (self.args.reject_above, self.args.reject_below) != (None, None) else "neither reject_above nor reject_below is set"

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the score of the node's value."""
        args = self.args
        found = read_value(node, self.queries[0], now_s, args.max_age_s)
        if found.value is None:
            return Judgement(None, explanation=found.problem, measured_at_s=found.measured_at_s)
        share = (args.worst - found.value) / (args.worst - args.best)
        explanation = f"{self._text(found.value)} (best {self._text(args.best)}, worst {self._text(args.worst)})"
        score = BEST_SCORE * min(1.0, max(0.0, share))
        return Judgement(score, found.value, explanation, found.measured_at_s, self._rejection(found.value))

    def _rejection(self, value: float) -> str:
        above, below = self.args.reject_above, self.args.reject_below
        if above is not None and value > above:
            return f"the metric is {self._text(value)}, and reject_above is {self._text(above)}"
        if below is not None and value < below:
            return f"the metric is {self._text(value)}, and reject_below is {self._text(below)}"
        return ""

    def _text(self, value: float) -> str:
        return f"{value:g} {self.args.unit}".rstrip()
