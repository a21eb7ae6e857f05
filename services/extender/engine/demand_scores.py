# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of all agents of a profile for one demand, and their weighted mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from math import isnan
from operator import add, getitem, mul

from ..interface import PodView
from .agent_scores import NEUTRAL, AgentScores
from .dithering import all_rounded, rounded, step_of
from .fragments import Table
from .nodes import Nodes
from .profile import FILTER, Profile
from .shared_scores import KeyScores

NO_VALUE = "no fresh value is known for the node ({agent})"


class DemandScores:
    """The scores for pods with one demand. ``pod`` is the first pod with it, and None if no agent depends on the pod.

    ``parts``: the scores of each agent that judges nodes, in the order of the profile. ``nodes``: the number of nodes. ``steps``: for each
    node the mean of its scores, weighted with the weights of the agents, as a step of ``dithering.py``. ``updated``: the number of replaced
    nodes that it knows. ``tables``: its tables by their numbers. ``is_used``: a request has used one of them. ``shared``: the parts that
    other demands may have too, by the number of the agent.
    """

    def __init__(
        self,
        profile: Profile,
        pod: PodView | None,
        parts: Sequence[AgentScores],
        nodes: int,
        shared: Mapping[int, KeyScores] | None = None,
    ) -> None:
        self.pod, self.parts, self.updated, self.shared = pod, parts, 0, shared or {}
        self.tables: dict[int, Table] = {}
        self.is_used = False
        self._agents = profile.judging
        self._policy = profile.unknown
        scoring = [(part, one.weight) for one, part in zip(self._agents, parts, strict=True) if one.agent.can_score]
        total = sum(weight for _part, weight in scoring)
        self._shares = [(part, weight / total) for part, weight in scoring if total > 0]
        self._nodes = nodes
        self.update_all()

    @property
    def is_neutral(self) -> bool:
        """Return whether there are scoring agents, and none of them knows any node. All nodes are equal then."""
        return bool(self._shares) and all(part.median is None for part, _share in self._shares)

    @property
    def default(self) -> float:
        """Return the total of a node that is not in the view."""
        return sum(part.default(self._policy) * share for part, share in self._shares) if self._shares else NEUTRAL

    @property
    def totals(self) -> Sequence[float]:
        """Return for each node the same as ``total``. Calls of it for 5,000 nodes would need 10 ms in a request."""
        if not self._shares:
            return [NEUTRAL] * self._nodes
        totals = [0.0] * self._nodes
        for part, share in self._shares:
            totals = list(map(add, totals, map(mul, part.filled(self._policy), repeat(share))))
        return totals

    def total(self, number: int) -> float:
        """Return the weighted mean of the scores of a node. It is in 0 to 10."""
        if not self._shares:
            return NEUTRAL
        total = 0.0
        for part, share in self._shares:  # sum() would round in another way than totals.
            total += part.of(number, self._policy) * share
        return total

    def update(self, number: int, name: str, fragments: Sequence[bytes]) -> None:
        """Calculate the total of a node again, because one of its scores has changed. ``fragments``: those of the node, by score."""
        total = self.total(number)
        self.steps[number] = step_of(total)
        for table, fragments_of in self.tables.items():
            fragments_of.fragments[name] = fragments[rounded(total, table)]

    def update_all(self) -> None:
        """Calculate the totals of all nodes again. Each table is made again when a request needs it."""
        self.steps = bytearray(map(step_of, self.totals))
        self.tables.clear()

    def rounded(self, number: int, table: int) -> int:
        """Return the integer score of a node in a table."""
        return rounded(self.total(number), table)

    def make_table(self, number: int, nodes: Nodes) -> Table:
        """Make one of the tables."""
        rows = map(getitem, nodes.fragments, all_rounded(self.steps, number))
        table = self.tables[number] = Table(nodes.names, rows, rounded(self.default, number))
        return table

    def rejections(self, names: Sequence[str], numbers: Mapping[str, int]) -> dict[str, str]:
        """Return the reason for each node on which the pod must not run. ``numbers``: the numbers of the nodes in the view, by their names.

        With ``unknown: filter`` an agent rejects the nodes without a value only if it has a value for one of these nodes. Otherwise no
        node of the request would be left, only because its values are missing.
        """
        if self._policy != FILTER:
            return self._stated_rejections(names)
        demanding = self._demanding(names, numbers)
        found = ((name, self._rejection(name, numbers.get(name), demanding)) for name in names)
        return {name: reason for name, reason in found if reason}

    def _stated_rejections(self, names: Sequence[str]) -> dict[str, str]:
        """Return the reasons that agents gave. For 5,000 nodes this takes a tenth of the time that a call for each node takes."""
        reasons: dict[str, str] = {}
        for one, part in zip(self._agents, self.parts, strict=True):
            if one.filters:
                reasons = part.rejections | reasons if reasons else part.rejections
        return {name: reasons[name] for name in names if name in reasons} if reasons else {}

    def rejection(self, number: int, name: str) -> str:
        """Return the reason why the pod must not run on a node of the view, or an empty text. All nodes of the view are asked."""
        return self._rejection(name, number, [self._policy == FILTER and part.median is not None for part in self.parts])

    def _demanding(self, names: Sequence[str], numbers: Mapping[str, int]) -> list[bool]:
        """Return for each agent whether a node without a value is rejected."""
        asked = [numbers[name] for name in names if name in numbers]
        return [any(not isnan(part.scores[number]) for number in asked) for part in self.parts]

    def _rejection(self, name: str, number: int | None, demanding: Sequence[bool]) -> str:
        for one, part, is_demanding in zip(self._agents, self.parts, demanding, strict=True):
            if one.filters and name in part.rejections:
                return part.rejections[name]
            if is_demanding and (number is None or isnan(part.scores[number])):
                return NO_VALUE.format(agent=one.name)
        return ""

    @property
    def may_reject(self) -> bool:
        """Return whether any node can have a rejection."""
        filtering = (part for one, part in zip(self._agents, self.parts, strict=True) if one.filters)
        return self._policy == FILTER or any(part.rejections for part in filtering)
