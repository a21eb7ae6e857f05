# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The calls of agents. An agent that raises an error knows no node."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterator, Sequence

from ..interface import Judgement, NodeView, PodView
from ..pauses import Pause, no_pause
from .agent_scores import AgentScores, reduced, scores_of
from .agent_values import checked
from .profile import ConfiguredAgent

NOT_KNOWN = Judgement(None)

OnAgentError = Callable[[str, Exception], None]
"""Receives the name of an agent and the error that it raised."""


class PausedNodes(tuple[NodeView, ...]):
    """Nodes for an agent that visits all of them. There are pauses between the nodes, until ``pause`` is replaced."""

    pause: Pause

    def __iter__(self) -> Iterator[NodeView]:
        """Return the nodes with pauses."""
        for node in super().__iter__():
            yield node
            self.pause()


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
                pause()
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

    def notes(self, one: ConfiguredAgent, prepared: t.Any, nodes: Sequence[NodeView]) -> Sequence[str]:
        """Return what is doubtful in the judgements."""
        if prepared is FAILED:
            return ()
        try:
            return list(one.agent.notes(prepared, nodes, self.clock()))
        except Exception as error:
            self._on_error(one.name, error)
            return ()

    def original_score(self, one: ConfiguredAgent, judgement: Judgement) -> int:
        """Return the integer score of the original system."""
        try:
            return int(one.agent.original_score(judgement))
        except Exception as error:
            self._on_error(one.name, error)
            return 0

    def _one_by_one(self, one: ConfiguredAgent, prepared: t.Any, nodes: Sequence[NodeView], pause: Pause) -> Iterator[Judgement]:
        judge, now_s = one.agent.judge, self.clock()
        for node in nodes:
            yield checked(judge(prepared, node, None, now_s))
            pause()


FAILED: t.Final = object()
"""The result of an agent that raised an error."""
