# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons for the scores: the value, its age and the judgement of each agent on each node. They are calculated when a user asks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..interface import Judgement, PodView
from .agent_calls import EMPTY_POD
from .dithering import OFFSETS, rounded
from .engine import Engine
from .profile import ConfiguredAgent
from .profile_state import ProfileState
from .recent_pods import RecentPod
from .scores import DemandScores, agent_scores

POINTS = 10
"""Points of a node in the scheduler for each point of an extender with the weight 1: MaxNodeScore / MaxExtenderPriority (100 / 10)."""

IN_TREE_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "VolumeBinding": 1,
}
"""The default weights of kube-scheduler's plugins. Each gives 0 to 100 points, times its weight (``apis/config/v1/default_plugins.go``)."""


@dataclass(frozen=True)
class AgentRow:
    """The judgement of an agent on a node.

    ``score`` is None if no fresh value is known. ``unit``: the unit of the value. ``age_s``: the age of the value in seconds.
    ``can_score``: the agent takes part in the score. ``filters``: its rejection counts.
    """

    agent: str
    weight: float
    score: float | None
    value: float | None
    unit: str
    age_s: float | None
    explanation: str
    rejection: str
    can_score: bool = True
    filters: bool = False


@dataclass(frozen=True)
class NodeRow:
    """The scores of a node.

    ``exact``: before rounding. ``score``: the integer in the answer. ``points``: the points that the scheduler adds for the node.
    ``rejection``: the reason why the filter rejects the node, or an empty text.
    """

    node: str
    exact: float
    score: int
    points: float
    rejection: str
    agents: list[AgentRow]


@dataclass(frozen=True)
class ProfileRows:
    """The nodes of a profile, the best first. ``table`` is the number of the rounding table, and ``offset`` its offset.

    ``weight``: the weight of the extender in the configuration of the scheduler, as far as the reader has given it. ``unknown``: what the
    profile gives nodes without a fresh value. ``filters``: the profile can reject nodes. ``has_scores``: an agent of the profile scores
    nodes. ``has_judgements``: an agent scores nodes or filters them.
    """

    profile: str
    unknown: str
    weight: float
    table: int
    offset: float
    neutral: bool
    filters: bool
    has_scores: bool
    has_judgements: bool
    nodes: list[NodeRow]


def explain_pod(engine: Engine, pod: RecentPod, weight: float) -> ProfileRows | None:
    """Return the scores that the pod would get now. Return None if its profile is not configured any more."""
    state = engine.state_for(pod.scheduler_name)
    return None if state is None else _rows(state, pod.view or EMPTY_POD, pod.table, weight)


def explain_profile(state: ProfileState) -> ProfileRows:
    """Return the scores of a pod without requests."""
    return _rows(state, EMPTY_POD, 0, 1.0)


def _rows(state: ProfileState, pod: PodView, table: int, weight: float) -> ProfileRows:
    profile, names, views, now_s = state.profile, state.nodes.names, list(state.nodes.views), state.clock()
    judgements = [agent.judge(views, pod) for agent in state.agents]
    # The scores that do not depend on the pod have the median of the refresh, which the answers have too.
    parts = [
        agent_scores(views, found) if one.agent.per_demand else part for (one, part), found in zip(state.parts, judgements, strict=True)
    ]
    scores = DemandScores(profile, pod, parts, state.nodes)
    rejections = scores.rejections(names)
    nodes = []
    for number, (name, total) in enumerate(zip(names, scores.totals(), strict=True)):
        score = rounded(total, table)
        agents = [_agent_row(one, found[number], now_s) for one, found in zip(profile.judging, judgements, strict=True)]
        nodes.append(NodeRow(name, total, score, score * POINTS * weight, rejections.get(name, ""), agents))
    nodes.sort(key=lambda row: (-row.exact, row.node))
    return ProfileRows(
        profile.name,
        profile.unknown,
        weight,
        table,
        OFFSETS[table],
        scores.is_neutral,
        profile.filters,
        any(one.agent.can_score for one in profile.judging),
        bool(profile.judging),
        nodes,
    )


def _agent_row(one: ConfiguredAgent, judgement: Judgement, now_s: float) -> AgentRow:
    age_s = None if judgement.measured_at_s is None else max(0.0, now_s - judgement.measured_at_s)
    return AgentRow(
        one.name,
        one.weight,
        _finite(judgement.score),
        _finite(judgement.value),
        str(one.agent.value_unit),
        _finite(age_s),
        judgement.explanation,
        judgement.rejection,
        one.agent.can_score,
        one.filters,
    )


def _finite(number: float | None) -> float | None:
    """Return the number, or None for one that JSON does not have."""
    return number if number is not None and math.isfinite(number) else None
