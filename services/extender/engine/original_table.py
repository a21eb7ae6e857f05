# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of one agent with the rounding of the original system, for the paths ``/scheduler/priorities/NAME``."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..interface import Judgement, PodView
from ..memory_limits import limited_labels
from .agent_calls import EMPTY_POD, NOT_KNOWN, AgentCalls
from .fragments import SCORES, Table
from .nodes import Nodes

MAX_TABLES = 32
"""Tables that are kept for one profile."""


class OriginalTable:
    """A table without dithering, for pods with the demand of ``pod``."""

    def __init__(self, agent: AgentCalls, nodes: Nodes, pod: PodView) -> None:
        self._agent, self._nodes, self._pod = agent, nodes, pod
        self._updated = len(nodes.replaced)
        self.table = Table((), (), self._score(NOT_KNOWN))
        self._judge(range(len(nodes.names)))

    def update(self) -> None:
        """Judge the nodes that were replaced since the last update. An agent that compares nodes judges all nodes."""
        newest = len(self._nodes.replaced)
        if self._updated < newest:
            compares_nodes = self._agent.compares_nodes
            self._judge(range(len(self._nodes.names)) if compares_nodes else self._nodes.replaced_since(self._updated))
            self._updated = newest

    def _judge(self, numbers: Sequence[int]) -> None:
        nodes = self._nodes
        judgements = self._agent.judge([nodes.views[number] for number in numbers], self._pod)
        for number, judgement in zip(numbers, judgements, strict=True):
            self.table.fragments[nodes.names[number]] = nodes.fragments[number][self._score(judgement)]

    def _score(self, judgement: Judgement) -> int:
        return min(SCORES[-1], max(SCORES[0], self._agent.original_score(judgement)))


class OriginalTables:
    """The kept tables of a profile for one view. Only the thread of the requests uses them."""

    def __init__(self, agents: Sequence[AgentCalls], nodes: Nodes) -> None:
        self._agents, self._nodes = agents, nodes
        self._tables: dict[tuple[int, t.Hashable], OriginalTable] = {}

    def table(self, number: int, pod: Callable[[], PodView]) -> Table:
        """Return the table of one agent that judges nodes, by its number. ``pod`` is called only if its scores depend on the pod."""
        agent = self._agents[number]
        view = pod() if agent.per_demand else EMPTY_POD
        key = (number, agent.demand_key(view) if agent.per_demand else None)
        found = self._tables.pop(key, None)
        if found is None:
            found = OriginalTable(agent, self._nodes, replace(view, labels=limited_labels(view.labels)))
        found.update()
        self._tables[key] = found
        if len(self._tables) > MAX_TABLES:
            del self._tables[next(iter(self._tables))]
        return found.table
