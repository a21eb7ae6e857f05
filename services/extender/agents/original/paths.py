# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The paths of the original systems, each for one agent, and the rounding of its scores there."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Callable

from ...interface import BEST_SCORE, Judgement

PREDICATES, PRIORITIES = "/scheduler/predicates/", "/scheduler/priorities/"


def nearest(score: float) -> int:
    """Return the nearest integer, as Go rounds."""
    return math.floor(score + 0.5)


class OriginalPath(t.NamedTuple):
    """The agent of a path. ``rounded`` returns the integer of a score, and ``unknown`` is that of a node without a score.

    ``by_value``: the value of the judgement counts, from 0 to 1, in place of the score. The original has no bonus for nodes with few
    observations, and gives 0 to nodes without one.
    """

    agent: str
    rounded: Callable[[float], int] = int
    unknown: int = 0
    by_value: bool = False

    def score(self, score: float) -> int:
        """Return the integer for a score, which is NaN if it is unknown."""
        return self.unknown if math.isnan(score) else self.rounded(score)

    def score_by_value(self, judgement: Judgement) -> int:
        """Return the integer for the value of a judgement."""
        return self.unknown if judgement.value is None else self.rounded(BEST_SCORE * judgement.value)


ORIGINAL_PATHS = {
    "safe-overload": OriginalPath("safe_overload"),
    "safe-balance": OriginalPath("safe_balance", nearest),
    "congestion": OriginalPath("congestion", nearest, unknown=int(BEST_SCORE)),
    "pigeon-holing": OriginalPath("pigeon", nearest),
    "rl-priority": OriginalPath("reward", by_value=True),
    "foo": OriginalPath("template"),
}
"""By the last part of the path."""
