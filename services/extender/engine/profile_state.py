# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of one profile for one view of the cluster.

A refresh makes a new state in the thread of the sources. The request path reads the state, and calculates only if a pod has a new demand.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import getitem

from ..interface import Demand, Judgement, NodeView, PodView
from ..pauses import Pause, no_pause
from .demand_scores import DemandScores
from .dithering import OFFSETS, TABLES, rounded, table_of
from .evaluation import AgentScores, Evaluator
from .fragments import Fragments, Table
from .original_table import OriginalTable
from .profile import ConfiguredAgent, Profile

EMPTY_POD = PodView("", "", "", "", {}, Demand())
"""A pod without requests."""

MAX_DEMANDS = 128
"""Demands whose scores are kept for one profile. The demand that was not used for the longest time is dropped."""

MAX_DEMAND_SCORES = 100_000
"""Scores of all kept demands. At 5,000 nodes these are 20 demands. A rejected node has a text beside its score."""

MAX_TABLE_ENTRIES = 1_000_000
"""Entries of all tables that are kept for demands. At 5,000 nodes these are 200 tables with about 20 MB."""

MOST_LATE = 8
"""Replaced nodes that a demand may not know yet. A request judges these nodes first. Demands without requests are updated later."""

ANY_DEMAND: t.Hashable = ()
"""The key of the demand if no agent of the profile depends on the pod."""

MAX_ORIGINALS = 32
"""Tables with the rounding of the original systems that are kept for one profile."""

Observe = Callable[[str, str, float], None]
"""Receives the name of a profile, the name of an agent, and the seconds that the agent needed for all nodes."""


def ignore_duration(_profile: str, _agent: str, _seconds: float) -> None:
    """Do not observe."""


class Nodes:
    """The nodes of a view, by number, with the fragments of each. All profiles share it."""

    def __init__(self, views: Sequence[NodeView], fragments: Fragments) -> None:
        self.views = list(views)
        self.names = [node.name for node in self.views]
        self.number = {name: number for number, name in enumerate(self.names)}
        self.fragments = list(map(fragments.of, self.names))


class ProfileState:
    """The scores of a profile. ``pause`` is called between parts of the calculation.

    The lock protects the demands: the request path adds them, and the thread of the sources replaces nodes in them. A replaced node is only
    noted, and a request judges it for its own demand. So a binding costs little while requests come.
    """

    def __init__(
        self,
        profile: Profile,
        nodes: Nodes,
        fragments: Fragments,
        evaluator: Evaluator,
        *,
        pause: Pause = no_pause,
        observe: Observe = ignore_duration,
    ) -> None:
        self.profile, self.nodes = profile, nodes
        self._fragments, self.evaluator = fragments, evaluator
        self._observe = observe
        # A tuple, because agents compare the nodes of the refresh with the newest, and nodes.views changes with each binding.
        views = tuple(nodes.views)
        self.prepared = [evaluator.prepare(one, views, pause) for one in profile.scoring]
        self._parts = [self._judge(number, EMPTY_POD, pause) for number in range(len(profile.scoring))]
        self.is_neutral = bool(self._parts) and all(part.median is None for part in self._parts)
        """There are scoring agents, and none of them knows any node. All nodes are equal then."""
        self._per_demand = [one for one in profile.scoring if one.agent.per_demand]
        self._static = [None if one.agent.per_demand else part for one, part in self.parts]
        self._lock = threading.Lock()
        self._demands: OrderedDict[t.Hashable, DemandScores] = OrderedDict()
        self._replaced: list[int] = []
        """The numbers of the nodes that were replaced, in this order."""
        self._originals: OrderedDict[tuple[int, t.Hashable], OriginalTable] = OrderedDict()
        self._fixed = [] if profile.is_per_demand else [self._fill(ANY_DEMAND, None, number, pause)[1] for number in range(TABLES)]

    @property
    def parts(self) -> list[tuple[ConfiguredAgent, AgentScores]]:
        """Return the agents with their scores at the refresh. An agent that depends on the pod has those for a pod without requests."""
        return list(zip(self.profile.scoring, self._parts, strict=True))

    # --- the request path ---

    def table(self, pod_uid: str, pod: Callable[[], PodView]) -> Table:
        """Return the table of a pod. ``pod`` is called only if the scores depend on the pod."""
        number = table_of(pod_uid)
        if self._fixed:
            return self._fixed[number]
        view = pod()
        key = self._key(view)
        with self._lock:
            demand = self._demands.get(key)
            table = demand.tables.get(number) if demand is not None else None
            if demand is None or table is None:
                demand, table = self._fill(key, view, number, no_pause)
            else:
                self._update(demand)
                self._demands.move_to_end(key)
            demand.used.add(number)
            return table

    def scores(self, pod: Callable[[], PodView]) -> DemandScores:
        """Return the scores for a pod's demand."""
        if self._fixed:
            return self._demands[ANY_DEMAND]
        view = pod()
        key = self._key(view)
        with self._lock:
            return self._scores(key, view, no_pause)

    def scores_for_people(self, pod: PodView | None) -> DemandScores:
        """Return the scores for a pod, or for one without requests. They are not kept, and no request waits for their calculation."""
        if self._fixed:
            return self._demands[ANY_DEMAND]
        if pod is None:
            return DemandScores(self.profile, EMPTY_POD, self._parts, len(self.nodes.names))
        key = self._key(pod)
        with self._lock:
            known = self._demands.get(key)
            if known is not None:
                self._update(known)
        return known or self._demand_scores(pod, no_pause)

    def original_table(self, number: int, pod: Callable[[], PodView]) -> Table:
        """Return the table of one scoring agent, by its number, with the rounding of the original system."""
        one = self.profile.scoring[number]
        view = pod() if one.agent.per_demand else None
        key = (number, ANY_DEMAND if view is None else self.evaluator.demand_key(one, view))
        with self._lock:
            found = self._originals.get(key)
            if found is None:
                found = OriginalTable(one, self.prepared[number], view, self.nodes.views, self._fragments, self.evaluator)
                self._originals[key] = found
                if len(self._originals) > MAX_ORIGINALS:
                    self._originals.popitem(last=False)
            self._originals.move_to_end(key)
            return found.table

    # --- the thread of the sources ---

    def take_over_demands(self, old: ProfileState, pause: Pause) -> None:
        """Calculate the demands that were used with the old state, so that no request has to wait for them."""
        if old.profile is not self.profile:
            return
        for key, pod, numbers in old.used():
            for number in numbers:
                self._fill(key, pod, number, pause)

    def used(self) -> list[tuple[t.Hashable, PodView | None, list[int]]]:
        """Return the demands that a request has used, with the numbers of their tables. The one that was used last is the last."""
        with self._lock:
            return [(key, demand.pod, sorted(demand.used)) for key, demand in self._demands.items() if demand.used]

    def replace_node(self, number: int, node: NodeView) -> None:
        """Take over a node, which is a new one in ``nodes`` already. The next request of a demand judges it."""
        for one, part, prepared in zip(self.profile.scoring, self._static, self.prepared, strict=True):
            if part is not None:
                part.replace(number, node.name, self.evaluator.judge(one, prepared, node, None))
        with self._lock:
            self._replaced.append(number)
            if self._fixed:
                self._update(self._demands[ANY_DEMAND])
            for table in self._originals.values():
                table.replace(node)
        if not self._fixed and len(self._replaced) > MOST_LATE:
            self._update_late(len(self._replaced) - MOST_LATE - 1)

    def _update_late(self, position: int) -> None:
        """Judge an earlier node again for the demands that no request has updated since."""
        number = self._replaced[position]
        with self._lock:
            late = [demand for demand in self._demands.values() if demand.updated == position]
        judgements = self._judge_demands(self.nodes.views[number], [demand.pod for demand in late if demand.pod is not None])
        for place, demand in enumerate(late):
            # Short holds of the lock, because a request may wait for it. It may have updated the demand meanwhile.
            with self._lock:
                if demand.updated == position:
                    self._replace(demand, number, {agent: found[place] for agent, found in judgements.items()})
                    demand.updated += 1

    def _judge_demands(self, node: NodeView, pods: Sequence[PodView]) -> dict[int, Sequence[Judgement]]:
        """Return the judgements on one node for all demands, by the number of the agent."""
        agents = enumerate(zip(self.profile.scoring, self.prepared, strict=True))
        return {
            number: self.evaluator.judge_demands(one, prepared, node, pods)
            for number, (one, prepared) in agents
            if one.agent.per_demand and pods
        }

    def _update(self, demand: DemandScores) -> None:
        """Judge the nodes that were replaced since the last update of the demand. The lock is held."""
        if demand.updated == len(self._replaced):
            return
        for number in dict.fromkeys(self._replaced[demand.updated :]):
            node = self.nodes.views[number]
            agents = enumerate(zip(self.profile.scoring, self.prepared, strict=True))
            found = {
                place: self.evaluator.judge(one, prepared, node, demand.pod) for place, (one, prepared) in agents if one.agent.per_demand
            }
            self._replace(demand, number, found)
        demand.updated = len(self._replaced)

    def _replace(self, demand: DemandScores, number: int, judgements: t.Mapping[int, Judgement]) -> None:
        """Take over new judgements on a node, by the number of the agent."""
        for agent, judgement in judgements.items():
            demand.parts[agent].replace(number, self.nodes.names[number], judgement)
        demand.update(number)
        name, fragments, total = self.nodes.names[number], self.nodes.fragments[number], demand.totals[number]
        for offset, table in demand.tables.items():
            table.fragments[name] = fragments[rounded(total, OFFSETS[offset])]

    # --- both ---

    def _key(self, pod: PodView) -> t.Hashable:
        return tuple([self.evaluator.demand_key(one, pod) for one in self._per_demand])

    def _scores(self, key: t.Hashable, pod: PodView | None, pause: Pause) -> DemandScores:
        demand = self._demands.get(key)
        if demand is None:
            updated = len(self._replaced)
            demand = self._demands[key] = self._demand_scores(pod, pause)
            demand.updated = updated
            if len(self._demands) > min(MAX_DEMANDS, max(1, MAX_DEMAND_SCORES // max(1, len(self.nodes.names)))):
                self._demands.popitem(last=False)
        else:
            self._update(demand)
        self._demands.move_to_end(key)
        return demand

    def _demand_scores(self, pod: PodView | None, pause: Pause) -> DemandScores:
        parts = [part or self._judge(number, pod or EMPTY_POD, pause) for number, part in enumerate(self._static)]
        return DemandScores(self.profile, pod, parts, len(self.nodes.names))

    def _fill(self, key: t.Hashable, pod: PodView | None, number: int, pause: Pause) -> tuple[DemandScores, Table]:
        """Calculate the scores of a demand, and one of its tables."""
        demand = self._scores(key, pod, pause)
        rows = map(getitem, self.nodes.fragments, demand.all_rounded(number))
        table = demand.tables[number] = Table(self.nodes.names, rows, demand.default_rounded(number))
        self._limit_tables()
        pause()
        return demand, table

    def _limit_tables(self) -> None:
        """Drop tables of the demands that were not used for the longest time."""
        most = max(TABLES, MAX_TABLE_ENTRIES // max(1, len(self.nodes.names)))
        excess = sum(len(demand.tables) for demand in self._demands.values()) - most
        for demand in self._demands.values():
            while excess > 0 and demand.tables:
                demand.tables.popitem()
                excess -= 1

    def _judge(self, number: int, pod: PodView, pause: Pause) -> AgentScores:
        one, began_at_s = self.profile.scoring[number], time.monotonic()
        found = self.evaluator.scores_of_all(one, self.prepared[number], self.nodes.views, pod, pause)
        self._observe(self.profile.name, one.name, time.monotonic() - began_at_s)
        return found
