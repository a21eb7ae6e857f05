# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of one agent on all nodes, and those of all agents of a profile for one demand with their weighted mean."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import add, getitem, mul

from ..interface import BEST_SCORE, Judgement, NodeView, PodView
from .dithering import all_rounded, rounded, step_of
from .fragments import Table
from .nodes import Nodes
from .profile import FILTER, MEDIAN, ConfiguredAgent, Profile

NEUTRAL = BEST_SCORE / 2
"""The score of all nodes if an agent knows none of them."""

UNKNOWN = math.nan
"""The place of a score that is not known."""

REJECTION_BYTES = 200
"""The estimated bytes of a rejection: its place in the dictionary, and a text of 100 characters."""

NO_VALUE = "no fresh value is known for the node ({agent})"


def score_of_unknown_node(median: float | None, policy: str) -> float:
    """Return the score of a node that an agent does not know. ``median``: of the known nodes, or None if the agent knows no node."""
    if median is None:
        return NEUTRAL
    return median if policy == MEDIAN else 0.0


# --- one agent ---


@dataclass(slots=True, weakref_slot=True)
class AgentScores:
    """The scores of one agent by the number of the node, and its rejections by the name of the node.

    Scores have single precision, which is far finer than the steps of ``dithering.py`` and halves their memory.
    ``median`` is the median of the known scores, or None if no score is known. ``oldest_s``: the time of the oldest value that was used.
    ``updated``: the number of replaced nodes that the scores know.
    """

    scores: array[float]
    median: float | None = None
    rejections: dict[str, str] = field(default_factory=dict)
    oldest_s: float | None = None
    updated: int = 0

    @property
    def size_bytes(self) -> int:
        """Return the estimated bytes of the scores and of the rejections with their texts."""
        return self.scores.itemsize * len(self.scores) + REJECTION_BYTES * len(self.rejections)

    def of(self, numbers: Iterable[int] | None, policy: str) -> Sequence[float]:
        """Return the scores of some nodes, or of all nodes if ``numbers`` is None."""
        found = self.scores if numbers is None else list(map(self.scores.__getitem__, numbers))
        if not any(map(math.isnan, found)):
            return found
        default = score_of_unknown_node(self.median, policy)
        return [default if math.isnan(score) else score for score in found]

    def replace_all(self, newest: AgentScores) -> None:
        """Take over the scores of a new calculation for all nodes."""
        self.scores, self.median, self.rejections, self.oldest_s = newest.scores, newest.median, newest.rejections, newest.oldest_s

    def replace(self, numbers: Sequence[int], nodes: Sequence[NodeView], newest: AgentScores) -> None:
        """Take over new scores of some nodes, in the order of the nodes. The median stays until the next refresh."""
        for number, node, score in zip(numbers, nodes, newest.scores, strict=True):
            self.scores[number] = score
            if node.name in newest.rejections:
                self.rejections[node.name] = newest.rejections[node.name]
            else:
                self.rejections.pop(node.name, None)


def agent_scores(nodes: Sequence[NodeView], judgements: Iterable[Judgement]) -> AgentScores:
    """Return the scores of the judgements, which have the order of the nodes."""
    scores, rejections = list[float](), dict[str, str]()
    # Equal texts are kept once: a full cluster has one for each node and demand.
    texts: dict[str, str] = {}
    oldest_s: float | None = None
    for node, (score, _value, _explanation, at_s, rejection) in zip(nodes, judgements, strict=True):
        scores.append(UNKNOWN if score is None else score)
        if rejection:
            rejections[node.name] = texts.setdefault(rejection, rejection)
        if at_s is not None and score is not None and (oldest_s is None or at_s < oldest_s):
            oldest_s = at_s
    return scores_of(scores, rejections, oldest_s)


def scores_of(numbers: Sequence[float], rejections: dict[str, str], oldest_s: float | None) -> AgentScores:
    """Return the scores within 0 to 10. An agent of a third party may return any number."""
    scores = array("f", numbers)
    known = [score for score in scores if not math.isnan(score)]
    if known and not 0.0 <= min(known) <= max(known) <= BEST_SCORE:
        scores = array("f", [UNKNOWN if math.isnan(score) else min(BEST_SCORE, max(0.0, score)) for score in scores])
        known = [score for score in scores if not math.isnan(score)]
    return AgentScores(scores, statistics.median(known) if known else None, rejections, oldest_s)


# --- one demand ---


class DemandScores:
    """The scores for pods with one demand. ``pod`` is the first pod with it.

    ``parts``: the scores of each agent that judges nodes, in the order of the profile. ``steps``: for each node the mean of its scores,
    weighted with the weights of the agents, as a step of ``dithering.py``. ``updated``: the number of replaced nodes that it knows.
    ``tables``: its tables by their numbers. ``is_used``: a request has used it.
    """

    def __init__(self, profile: Profile, pod: PodView, parts: Sequence[AgentScores], nodes: Nodes, updated: int = 0) -> None:
        self.pod, self.parts, self.updated, self.is_used = pod, parts, updated, False
        self.tables: dict[int, Table] = {}
        self._nodes, self._agents, self._policy = nodes, profile.judging, profile.unknown
        scoring = [(part, one.weight) for one, part in zip(self._agents, parts, strict=True) if one.agent.can_score]
        total = sum(weight for _part, weight in scoring)
        self._shares = [(part, weight / total) for part, weight in scoring if total > 0]
        self.update_all()

    @property
    def is_neutral(self) -> bool:
        """Return whether there are scoring agents, and none of them knows any node. All nodes are equal then."""
        return bool(self._shares) and all(part.median is None for part, _share in self._shares)

    @property
    def default(self) -> float:
        """Return the total of a node that is not in the view."""
        if not self._shares:
            return NEUTRAL
        return sum(score_of_unknown_node(part.median, self._policy) * share for part, share in self._shares)

    def totals(self, numbers: Sequence[int] | None = None) -> Sequence[float]:
        """Return the weighted means of the scores of some nodes, or of all nodes. They are in 0 to 10."""
        count = len(self._nodes.names if numbers is None else numbers)
        if not self._shares:
            return [NEUTRAL] * count
        totals = [0.0] * count
        for part, share in self._shares:
            totals = list(map(add, totals, map(mul, part.of(numbers, self._policy), repeat(share))))
        return totals

    def update(self, numbers: Sequence[int]) -> None:
        """Calculate the totals of some nodes again, because their scores have changed."""
        for number, total in zip(numbers, self.totals(numbers), strict=True):
            self.steps[number] = step_of(total)
            name, fragments = self._nodes.names[number], self._nodes.fragments[number]
            for table, of_nodes in self.tables.items():
                of_nodes.fragments[name] = fragments[rounded(total, table)]

    def update_all(self) -> None:
        """Calculate the totals of all nodes again. Each table is made again when a request needs it."""
        self.steps = bytearray(map(step_of, self.totals()))
        self.tables.clear()

    def make_table(self, number: int) -> Table:
        """Make one of the tables."""
        rows = map(getitem, self._nodes.fragments, all_rounded(self.steps, number))
        table = self.tables[number] = Table(self._nodes.names, rows, rounded(self.default, number))
        return table

    def rejections(self, names: Sequence[str]) -> dict[str, str]:
        """Return the reason for each of these nodes on which the pod must not run. The reason of the first agent counts."""
        found: dict[str, str] = {}
        for one, part in zip(self._agents, self.parts, strict=True):
            reasons = part.rejections if one.filters else {}
            if self._policy == FILTER:
                reasons = self._without_value(one, part, names) | reasons
            found = reasons | found if found else reasons
        return {name: reason for name in names if (reason := found.get(name))} if found else {}

    def _without_value(self, one: ConfiguredAgent, part: AgentScores, names: Sequence[str]) -> dict[str, str]:
        """Return a reason for each node without a value of an agent, if the agent has a value for another one of the nodes.

        Without this condition, missing values alone could reject all nodes of a request.
        """
        numbers = self._nodes.numbers
        unknown = [name for name in names if name not in numbers or math.isnan(part.scores[numbers[name]])]
        return dict.fromkeys(unknown, NO_VALUE.format(agent=one.name)) if len(unknown) < len(names) else {}
