# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of one agent on all nodes, reduced to what the tables need, and the score of a node that the agent does not know."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..interface import BEST_SCORE, Judgement, NodeView, Scores
from .agent_values import as_number, as_text
from .profile import FILTER, LOW

NEUTRAL = BEST_SCORE / 2
"""The score of all nodes if an agent knows none of them."""

UNKNOWN = math.nan
"""The place of a score that is not known."""

REJECTION_BYTES = 200
"""The estimated bytes of a rejection: its place in the dictionary, and a text of 100 characters."""


@dataclass(slots=True)
class AgentScores:
    """The scores of one agent by the number of the node, and its rejections by the name of the node.

    Scores have single precision, which is far finer than the steps of ``dithering.py`` and halves their memory.
    ``median`` is the median of the known scores, or None if no score is known. ``oldest_s``: the time of the oldest value that was used.
    """

    scores: array[float]
    median: float | None = None
    rejections: dict[str, str] = field(default_factory=dict)
    oldest_s: float | None = None

    @property
    def size_bytes(self) -> int:
        """Return the estimated bytes of the scores and of the rejections with their texts."""
        return self.scores.itemsize * len(self.scores) + REJECTION_BYTES * len(self.rejections)

    def of(self, number: int, policy: str) -> float:
        """Return the score of a node. ``policy`` gives the score of a node that is not known."""
        score = self.scores[number]
        return self.default(policy) if math.isnan(score) else score

    def default(self, policy: str) -> float:
        """Return the score of a node that is not known."""
        if self.median is None:
            return NEUTRAL
        return 0.0 if policy in (LOW, FILTER) else self.median

    def filled(self, policy: str) -> Sequence[float]:
        """Return the scores of all nodes."""
        if not any(map(math.isnan, self.scores)):
            return self.scores
        default = self.default(policy)
        return [default if math.isnan(score) else score for score in self.scores]

    def replace_all(self, newest: AgentScores) -> None:
        """Take over the scores of a new calculation for all nodes."""
        self.scores, self.median, self.rejections, self.oldest_s = newest.scores, newest.median, newest.rejections, newest.oldest_s

    def replace(self, number: int, node: str, judgement: Judgement) -> None:
        """Take over a new judgement on one node. The median stays until the next refresh."""
        self.scores[number] = checked_score(judgement)
        if judgement.rejection:
            self.rejections[node] = judgement.rejection
        else:
            self.rejections.pop(node, None)


def checked_score(judgement: Judgement) -> float:
    """Return the score in 0 to 10, or UNKNOWN. An agent of a third party may return any number."""
    score = judgement.score
    return UNKNOWN if score is None else _in_scale(score)


def _in_scale(score: float) -> float:
    if math.isnan(score):
        return UNKNOWN
    return float(score) if 0.0 <= score <= BEST_SCORE else 0.0 if score < 0.0 else BEST_SCORE


def scores_of(nodes: Sequence[NodeView], judgements: Iterable[Judgement]) -> AgentScores:
    """Return the scores of the judgements, which have the order of the nodes."""
    scores, rejections = array("f"), {}
    # Equal texts are kept once: a full cluster has one for each node and demand.
    texts: dict[str, str] = {}
    oldest_s: float | None = None
    for node, judgement in zip(nodes, judgements, strict=True):
        scores.append(checked_score(judgement))
        rejection, at_s = judgement.rejection, judgement.measured_at_s
        if rejection:
            rejections[node.name] = texts.setdefault(rejection, rejection)
        if at_s is not None and judgement.score is not None and (oldest_s is None or at_s < oldest_s):
            oldest_s = at_s
    known = [score for score in scores if not math.isnan(score)]
    return AgentScores(scores, statistics.median(known) if known else None, rejections, oldest_s)


def reduced(nodes: Sequence[NodeView], found: Scores) -> AgentScores:
    """Return the scores in the form of the tables. Raises an error if the agent returned something else."""
    scores = array("f", found.scores)
    if len(scores) != len(nodes):
        raise ValueError(f"scores returned {len(scores)} scores of {len(nodes)} nodes")
    known = [score for score in scores if not math.isnan(score)]
    if known and not 0.0 <= min(known) <= max(known) <= BEST_SCORE:
        scores = array("f", map(_in_scale, scores))
        known = [score for score in scores if not math.isnan(score)]
    rejections = {nodes[number].name: as_text(reason) for number, reason in found.rejections.items() if reason}
    return AgentScores(scores, statistics.median(known) if known else None, rejections, as_number("oldest_s", found.oldest_s))
