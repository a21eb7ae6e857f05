# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agents of a profile that judge nodes, with what they have prepared for the nodes of one refresh."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Sequence

from ..interface import Demand, Judgement, PodView
from ..pauses import Pause
from .agent_scores import AgentScores
from .evaluation import Evaluator
from .nodes import Nodes
from .profile import Profile

EMPTY_POD = PodView("", "", "", "", {}, Demand())
"""A pod without requests."""

Observe = Callable[[str, str, float], None]
"""Receives the name of a profile, the name of an agent, and the seconds that the agent needed for all nodes."""


def ignore_duration(_profile: str, _agent: str, _seconds: float) -> None:
    """Do not observe."""


class Judges:
    """Judges the newest state of ``nodes``. Agents and nodes are given by their numbers in the profile and in the view.

    ``per_demand``: the numbers of the agents that depend on the pod. ``comparing``: those of them that compare nodes.
    """

    def __init__(self, profile: Profile, nodes: Nodes, evaluator: Evaluator, pause: Pause, observe: Observe) -> None:
        self.profile, self.nodes, self.evaluator = profile, nodes, evaluator
        self._observe = observe
        # A tuple, because agents compare the nodes of the refresh with the newest, and nodes.views changes with each binding.
        views = tuple(nodes.views)
        self.prepared = [evaluator.prepare(one, views, pause) for one in profile.judging]
        self.per_demand = [number for number, one in enumerate(profile.judging) if one.agent.per_demand]
        self.comparing = frozenset(number for number in self.per_demand if profile.judging[number].agent.compares_nodes)

    def key(self, agent: int, pod: PodView) -> t.Hashable:
        """Return the agent's key for the demand of a pod."""
        return self.evaluator.demand_key(self.profile.judging[agent], pod)

    def all_nodes(self, agent: int, pod: PodView, pause: Pause) -> AgentScores:
        """Return the scores of all nodes."""
        one, began_at_s = self.profile.judging[agent], time.monotonic()
        found = self.evaluator.scores_of_all(one, self.prepared[agent], self.nodes.views, pod, pause)
        self._observe(self.profile.name, one.name, time.monotonic() - began_at_s)
        return found

    def one_node(self, agent: int, node: int, pod: PodView | None) -> Judgement:
        """Return the judgement on one node."""
        return self.evaluator.judge(self.profile.judging[agent], self.prepared[agent], self.nodes.views[node], pod)

    def for_pods(self, agent: int, node: int, pods: Sequence[PodView]) -> Sequence[Judgement]:
        """Return the judgements on one node for several pods, in their order."""
        return self.evaluator.judge_demands(self.profile.judging[agent], self.prepared[agent], self.nodes.views[node], pods)
