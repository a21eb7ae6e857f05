# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A profile: the agents that judge the pods of one scheduler name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..interface import Agent

ANY_SCHEDULER = "*"
"""The name of the profile for the pods of all scheduler names that have no profile of their own."""

MEDIAN, LOW, FILTER = "median", "low", "filter"
UNKNOWN_POLICIES = (MEDIAN, LOW, FILTER)


@dataclass(frozen=True)
class ConfiguredAgent:
    """An agent in a profile. ``filters``: its rejections count in the filter verb.

    ``label``: the name for people if the profile has several agents of this name, such as metric-2.
    """

    agent: Agent
    weight: float = 1.0
    filters: bool = False
    label: str = ""

    @property
    def name(self) -> str:
        """Return the name for people, which is unique in the profile."""
        return self.label or self.agent.name


@dataclass(frozen=True)
class Profile:
    """The agents of one scheduler name.

    ``unknown``: the score of a node without a fresh value. ``median``: the median of the known nodes. ``low``: 0. ``filter``: 0, and the
    filter verb rejects the node. If an agent knows no node, all nodes are equal for this agent. If it knows none of the nodes of a request,
    it rejects none of them for that reason.
    """

    name: str
    agents: tuple[ConfiguredAgent, ...]
    unknown: str = MEDIAN

    @cached_property
    def judging(self) -> tuple[ConfiguredAgent, ...]:
        """Return the agents that judge nodes: those that score them, and those that only filter."""
        return tuple(one for one in self.agents if one.agent.can_score or one.filters)

    @cached_property
    def filters(self) -> bool:
        """Return whether the filter verb can reject nodes."""
        return self.unknown == FILTER or any(one.filters for one in self.agents)

    @cached_property
    def is_per_demand(self) -> bool:
        """Return whether the scores depend on the pod."""
        return any(one.agent.per_demand for one in self.judging)
