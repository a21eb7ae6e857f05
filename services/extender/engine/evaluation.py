# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The judgements of one agent on all nodes, reduced to what the tables need."""

from __future__ import annotations

import math
import statistics
import time
import typing as t
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ..interface import BEST_SCORE, Judgement, NodeView, PodView, Scores
from ..pauses import Pause, no_pause
from .agent_values import as_number, as_text, checked
from .profile import FILTER, LOW, ConfiguredAgent

NEUTRAL = BEST_SCORE / 2
"""The score of all nodes if an agent knows none of them."""

UNKNOWN = math.nan
"""The place of a score that is not known."""

BATCH = 32
"""Nodes that are judged between two pauses. One batch takes less than a millisecond."""

REJECTION_BYTES = 200
"""The estimated bytes of a rejection: its place in the dictionary, and a text of 100 characters."""

NOT_KNOWN = Judgement(None)

OnAgentError = Callable[[str, Exception], None]
"""Receives the name of an agent and the error that it raised."""


class PausedNodes(tuple[NodeView, ...]):
    """Nodes for an agent that visits all of them. There are pauses between the nodes, until ``pause`` is replaced."""

    pause: Pause

    def __iter__(self) -> Iterator[NodeView]:
        """Return the nodes with pauses."""
        every = super().__iter__()
        while batch := tuple(islice(every, BATCH)):
            yield from batch
            self.pause()


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


class Evaluator:
    """Calls agents. An agent that raises an error knows no node, and the other agents continue.

    ``clock``: monotonic seconds.
    """

    def __init__(self, on_error: OnAgentError, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_error = on_error
        self.clock = clock

    def prepare(self, one: ConfiguredAgent, nodes: Sequence[NodeView], pause: Pause = no_pause) -> t.Any:
        """Return what the agent prepares for a refresh."""
        paused = PausedNodes(nodes)
        paused.pause = pause
        try:
            return one.agent.prepare(paused, self.clock())
        except Exception as error:
            self._on_error(one.name, error)
            return FAILED
        finally:
            # The agent may keep the nodes, and requests must not pause.
            paused.pause = no_pause

    def judge_all(
        self, one: ConfiguredAgent, prepared: t.Any, nodes: Sequence[NodeView], pod: PodView | None, pause: Pause = no_pause
    ) -> Sequence[Judgement]:
        """Return the judgements on all nodes, in their order."""
        if prepared is FAILED:
            return [NOT_KNOWN] * len(nodes)
        try:
            if one.agent.per_demand and pod is not None:
                found = one.agent.score_all(prepared, nodes, pod, self.clock())
                if len(found) != len(nodes):
                    raise ValueError(f"score_all returned {len(found)} judgements on {len(nodes)} nodes")
                return [checked(judgement) for judgement in found]
            return list(self._one_by_one(one, prepared, nodes, pause))
        except Exception as error:
            self._on_error(one.name, error)
            return [NOT_KNOWN] * len(nodes)

    def scores_of_all(
        self, one: ConfiguredAgent, prepared: t.Any, nodes: Sequence[NodeView], pod: PodView, pause: Pause = no_pause
    ) -> AgentScores:
        """Return the scores of all nodes."""
        if one.agent.per_demand and prepared is not FAILED:
            try:
                found = one.agent.scores(prepared, nodes, pod, self.clock())
                if found is not None:
                    return reduced(nodes, found)
            except Exception as error:
                self._on_error(one.name, error)
                return scores_of(nodes, [NOT_KNOWN] * len(nodes))
        if one.agent.per_demand or prepared is FAILED:
            return scores_of(nodes, self.judge_all(one, prepared, nodes, pod, pause))
        try:
            # The judgements are not kept: their texts for 5,000 nodes need 2 MB.
            return scores_of(nodes, self._one_by_one(one, prepared, nodes, pause))
        except Exception as error:
            self._on_error(one.name, error)
            return scores_of(nodes, [NOT_KNOWN] * len(nodes))

    def judge(self, one: ConfiguredAgent, prepared: t.Any, node: NodeView, pod: PodView | None) -> Judgement:
        """Return the judgement on one node."""
        if prepared is FAILED:
            return NOT_KNOWN
        try:
            return checked(one.agent.judge(prepared, node, pod if one.agent.per_demand else None, self.clock()))
        except Exception as error:
            self._on_error(one.name, error)
            return NOT_KNOWN

    def judge_demands(self, one: ConfiguredAgent, prepared: t.Any, node: NodeView, pods: Sequence[PodView]) -> Sequence[Judgement]:
        """Return the judgements on one node for several pods, in their order."""
        if prepared is FAILED:
            return [NOT_KNOWN] * len(pods)
        try:
            found = one.agent.judge_demands(prepared, node, pods, self.clock())
            if len(found) != len(pods):
                raise ValueError(f"judge_demands returned {len(found)} judgements for {len(pods)} pods")
            return [checked(judgement) for judgement in found]
        except Exception as error:
            self._on_error(one.name, error)
            return [NOT_KNOWN] * len(pods)

    def demand_key(self, one: ConfiguredAgent, pod: PodView) -> t.Hashable:
        """Return the agent's key for the demand of a pod."""
        try:
            key = one.agent.demand_key(pod)
            hash(key)
            return key
        except Exception as error:
            self._on_error(one.name, error)
            return FAILED

    def original_score(self, one: ConfiguredAgent, judgement: Judgement) -> int:
        """Return the integer score of the original system."""
        try:
            return int(one.agent.original_score(judgement))
        except Exception as error:
            self._on_error(one.name, error)
            return 0

    def _one_by_one(self, one: ConfiguredAgent, prepared: t.Any, nodes: Sequence[NodeView], pause: Pause) -> Iterator[Judgement]:
        judge, now_s = one.agent.judge, self.clock()
        for start in range(0, len(nodes), BATCH):
            for node in nodes[start : start + BATCH]:
                yield checked(judge(prepared, node, None, now_s))
            pause()


FAILED: t.Final = object()
"""The result of an agent that raised an error."""
