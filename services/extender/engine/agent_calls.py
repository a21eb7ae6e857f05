# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The calls of one agent, and the checks of what it returns.

An agent of a third party may raise any error, and return anything, such as a number of a library or a text. An agent that fails knows no
node, and the other agents continue.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterator, Sequence

from ..interface import Demand, Judgement, NodeView, PodView, Scores, Victims
from ..pauses import Pause, no_pause
from .nodes import Nodes
from .profile import ConfiguredAgent
from .scores import AgentScores, agent_scores, scores_of

T = t.TypeVar("T")

EMPTY_POD = PodView("", "", "", "", {}, Demand())
"""A pod without requests."""

NOT_KNOWN = Judgement(None)
NUMBERS: t.Final = frozenset((float, type(None)))
FAILED: t.Final = object()
"""The result of an agent that raised an error."""


class AgentObserver(t.Protocol):
    """Receives what happens in the calls of agents."""

    def on_agent_error(self, agent: str, error: Exception) -> None:
        """Note an error of an agent."""

    def on_judged(self, profile: str, agent: str, seconds: float) -> None:
        """Note the time in which an agent judged all nodes."""


class PausedNodes(tuple[NodeView, ...]):
    """Nodes for an agent that visits all of them. There are pauses between the nodes, until ``pause`` is replaced."""

    pause: Pause

    def __iter__(self) -> Iterator[NodeView]:
        """Return the nodes with pauses."""
        for node in super().__iter__():
            yield node
            self.pause()


class AgentCalls:
    """The calls of an agent of a profile for the nodes of one view. ``prepared``: what the agent has prepared for them.

    ``clock``: monotonic seconds.
    """

    def __init__(self, profile: str, one: ConfiguredAgent, nodes: Nodes, observer: AgentObserver, clock: Callable[[], float]) -> None:
        self._profile, self._nodes, self._observer, self._clock = profile, nodes, observer, clock
        self._agent, self.name = one.agent, one.name
        self.per_demand, self.compares_nodes = one.agent.per_demand, one.agent.compares_nodes
        self.prepared: t.Any = None

    def prepare(self, pause: Pause) -> None:
        """Let the agent prepare for the nodes. It is called before the nodes are judged."""
        # A tuple, because agents compare the nodes of the refresh with the newest, and the views of the nodes change with each binding.
        paused = PausedNodes(self._nodes.views)
        paused.pause = pause
        self.prepared = self._result(lambda: self._agent.prepare(paused, self._clock()), FAILED)
        # The agent may keep the nodes, and requests must not pause.
        paused.pause = no_pause

    # --- scores ---

    def scores(self, pod: PodView, pause: Pause = no_pause) -> AgentScores:
        """Return the scores of all nodes."""
        # A node that is replaced during the calculation is judged once more.
        updated, began_at_s = len(self._nodes.replaced), time.monotonic()
        found = self._scores_of(self._nodes.views, pod, pause)
        found.updated = updated
        self._observer.on_judged(self._profile, self.name, time.monotonic() - began_at_s)
        return found

    def update(self, known: AgentScores, pod: PodView) -> None:
        """Judge the nodes that were replaced since the last update of the scores. An agent that compares nodes judges all nodes."""
        newest = len(self._nodes.replaced)
        if known.updated == newest:
            return
        if self.compares_nodes:
            known.replace_all(self.scores(pod))
        else:
            self.judge_again(known, self._nodes.replaced_since(known.updated), pod)
        known.updated = newest

    def judge_again(self, known: AgentScores, numbers: Sequence[int], pod: PodView) -> None:
        """Judge these nodes again."""
        nodes = [self._nodes.views[number] for number in numbers]
        known.replace(numbers, nodes, self._scores_of(nodes, pod, no_pause))

    def _scores_of(self, nodes: Sequence[NodeView], pod: PodView, pause: Pause) -> AgentScores:
        def scores() -> AgentScores:
            if self.per_demand:
                found = self._agent.scores(self.prepared, nodes, pod, self._clock())
                pause()
                if found is not None:
                    return _checked_scores(nodes, found)
            # The judgements are not kept: their texts for 5,000 nodes need 2 MB.
            return agent_scores(nodes, self._judgements(nodes, pod, pause))

        return self._result(scores, None) or agent_scores(nodes, [NOT_KNOWN] * len(nodes))

    # --- judgements ---

    def judge(self, nodes: Sequence[NodeView], pod: PodView) -> Sequence[Judgement]:
        """Return the judgements on nodes, in their order."""
        return self._result(lambda: list(self._judgements(nodes, pod, no_pause)), [NOT_KNOWN] * len(nodes))

    def _judgements(self, nodes: Sequence[NodeView], pod: PodView, pause: Pause) -> Iterator[Judgement]:
        agent, prepared, now_s = self._agent, self.prepared, self._clock()
        if not self.per_demand:
            for node in nodes:
                yield checked(agent.judge(prepared, node, None, now_s))
                pause()
            return
        found = agent.score_all(prepared, nodes, pod, now_s)
        if len(found) != len(nodes):
            raise ValueError(f"score_all returned {len(found)} judgements on {len(nodes)} nodes")
        yield from map(checked, found)

    # --- the other methods of agents ---

    def demand_key(self, pod: PodView) -> t.Hashable:
        """Return the agent's key for the demand of a pod."""

        def key() -> t.Hashable:
            found = self._agent.demand_key(pod)
            hash(found)
            return found

        return self._result(key, FAILED)

    def notes(self) -> Sequence[str]:
        """Return what is doubtful in the judgements."""
        return self._result(lambda: list(self._agent.notes(self.prepared, self._nodes.views, self._clock())), ())

    def preempt_violation(self, victims: Victims) -> str:
        """Return the reason why these victims must not be deleted, or an empty text. An agent that fails refuses nothing."""

        def reason() -> str:
            found = self._agent.preempt_violation(victims)
            if not isinstance(found, str):
                raise TypeError(f"a reason is a text, and the agent returned {type(found).__name__}")
            return found

        return self._result(reason, "")

    def _result(self, call: Callable[[], T], otherwise: T) -> T:
        """Return the result of a call, or ``otherwise`` if the agent fails or has failed to prepare."""
        if self.prepared is FAILED:
            return otherwise
        try:
            return call()
        except Exception as error:
            self._observer.on_agent_error(self.name, error)
            return otherwise


# --- checks ---


def checked(judgement: Judgement) -> Judgement:
    """Return the judgement with numbers of type float and an explanation of type str. Raises TypeError for other types."""
    if not isinstance(judgement, Judgement):
        raise TypeError(f"a Judgement is expected, and the agent returned {type(judgement).__name__}")
    score, value, explanation, measured_at_s, rejection = judgement
    # Almost all judgements are right, and each refresh has thousands of them.
    if (
        type(score) in NUMBERS
        and type(value) in NUMBERS
        and type(measured_at_s) in NUMBERS
        and isinstance(explanation, str)
        and isinstance(rejection, str)
        and explanation.isascii()
        and rejection.isascii()
    ):
        return judgement
    if not isinstance(rejection, str):
        raise TypeError(f"a rejection is a text, and the agent returned {type(rejection).__name__}")
    return Judgement(
        _number("score", score), _number("value", value), _text(explanation), _number("measured_at_s", measured_at_s), _text(rejection)
    )


def _checked_scores(nodes: Sequence[NodeView], found: Scores) -> AgentScores:
    """Return the scores of an agent. Raises an error if it returned something else."""
    if len(found.scores) != len(nodes):
        raise ValueError(f"scores returned {len(found.scores)} scores of {len(nodes)} nodes")
    rejections = {nodes[number].name: _text(reason) for number, reason in found.rejections.items() if reason}
    return scores_of(found.scores, rejections, _number("oldest_s", found.oldest_s))


def _text(value: t.Any) -> str:
    """Return the value as text. Half a surrogate pair becomes a question mark, because no answer could contain it."""
    return str(value).encode("utf-8", "replace").decode()


def _number(name: str, value: t.Any) -> float | None:
    """Return the number as float. ``name``: for the text of the error.

    Raises TypeError for a text, which float() would accept, and OverflowError for an integer above 1e308.
    """
    if value is None:
        return None
    if isinstance(value, str | bytes | bytearray):
        raise TypeError(f"{name} is a number, and the agent returned {type(value).__name__}")
    return float(value)
