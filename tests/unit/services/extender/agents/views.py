# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Builders of nodes and pods as agents see them."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learning import LearningAgent
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.paths import ORIGINAL_PATHS
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import (
    Agent,
    Demand,
    Judgement,
    NodeView,
    PodView,
    Query,
    Series,
)

NOW_S = 10_000.0
GIB = 2**30


def series(value: float, *, age_s: float | None = 5.0, **labels: str) -> Series:
    """A value that was measured ``age_s`` seconds before now."""
    return Series(labels, value, None if age_s is None else NOW_S - age_s)


def node(
    name: str,
    values: Mapping[Query, Sequence[Series]] | None = None,
    *,
    pods: Sequence[PodView] = (),
    allocatable: Mapping[str, int] | None = None,
) -> NodeView:
    """A node with the values of its queries."""
    return NodeView(name, allocatable=allocatable or {}, series=values or {}, pods=pods)


def pod(
    name: str = "web",
    *,
    requests: Mapping[str, int] | None = None,
    ingress: int | None = None,
    egress: int | None = None,
    labels: Mapping[str, str] | None = None,
    bound_s_ago: float | None = None,
    ended_s_ago: float | None = None,
    owner: str = "",
) -> PodView:
    """A pod; without ``bound_s_ago`` it waits for a node."""
    return PodView(
        namespace="default",
        name=name,
        uid=name,
        scheduler_name="test",
        labels=labels or {},
        demand=Demand(requests or {}, ingress, egress),
        bound_at_s=None if bound_s_ago is None else NOW_S - bound_s_ago,
        ended_at_s=None if ended_s_ago is None else NOW_S - ended_s_ago,
        owner=owner,
    )


def judgements(agent: Agent, nodes: Sequence[NodeView], pod: PodView | None = None) -> dict[str, Judgement]:
    """The judgements on all nodes by name, as the engine asks for them."""
    prepared = agent.prepare(nodes, NOW_S)
    if agent.per_demand and pod is not None:
        found = agent.score_all(prepared, nodes, pod, NOW_S)
    else:
        found = [agent.judge(prepared, one, pod, NOW_S) for one in nodes]
    return {one.name: judgement for one, judgement in zip(nodes, found, strict=True)}


def scores(agent: Agent, nodes: Sequence[NodeView], pod: PodView | None = None) -> dict[str, float | None]:
    """The scores of all nodes by name."""
    return {name: judgement.score for name, judgement in judgements(agent, nodes, pod).items()}


def agent(name: str, **args: t.Any) -> Agent:
    """An agent with its arguments."""
    return build_agent(name, args)


def on_path(path: str, judgement: Judgement) -> int:
    """The integer for a judgement on a path of the original systems."""
    return ORIGINAL_PATHS[path].score(math.nan if judgement.score is None else judgement.score)


def reward_agent(**args: t.Any) -> LearningAgent:
    """The agent that learns."""
    found = agent("reward", **args)
    assert isinstance(found, LearningAgent)
    return found
