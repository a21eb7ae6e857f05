# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of one profile for one view of the cluster.

A refresh makes a new state in the thread of the sources. The request path reads the state. It calculates only if a pod has a new demand,
and if nodes were replaced since the last request with the same demand.
"""

from __future__ import annotations

import sys
import time
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import replace
from weakref import WeakValueDictionary

from ..interface import PodView, Victims
from ..memory_limits import limited_labels
from ..pauses import Pause, no_pause
from .agent_calls import EMPTY_POD, AgentCalls, AgentObserver
from .dithering import TABLES, table_of
from .fragments import Table
from .nodes import Nodes
from .profile import ConfiguredAgent, Profile
from .scores import AgentScores, DemandScores

MAX_DEMANDS = 128
"""Demands whose scores are kept for one profile. The demand that was not used for the longest time is dropped."""

MAX_SCORE_BYTES = 4 * 1024 * 1024
"""Bytes of the scores of all kept demands, about. At 5,000 nodes these are 60 demands with three scores that no other demand has."""

MAX_TABLE_BYTES = 6 * 1024 * 1024
"""Bytes of all tables that are kept for demands. At 5,000 nodes these are 60 tables, and a request makes another one in 0.4 ms."""

MAX_TAKEN_OVER = 16
"""Demands that a refresh calculates. A request calculates the others. Many demands would delay the next refresh."""

DemandKey = tuple[t.Hashable, ...]
"""The keys of the agents that depend on the pod, in their order. If there are none, all pods have the same demand."""


class ProfileState:
    """The scores of a profile. ``pause`` is called between parts of the calculation.

    Only the thread of the requests changes the kept demands. A refresh fills those of a new state before a request can see it, and pages
    calculate their own scores.

    ``agents``: those that judge nodes. ``is_neutral``: there are scoring agents, and none of them knows any node. All nodes are equal then.
    """

    def __init__(
        self,
        profile: Profile,
        nodes: Nodes,
        observer: AgentObserver,
        *,
        pause: Pause = no_pause,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.profile, self.nodes, self.clock = profile, nodes, clock
        self.agents = [AgentCalls(profile.name, one, nodes, observer, clock) for one in profile.judging]
        self._refusing = [AgentCalls(profile.name, one, nodes, observer, clock) for one in profile.agents if one.agent.can_preempt]
        for agent in self.agents:
            agent.prepare(pause)
        self._parts = [agent.scores(EMPTY_POD, pause) for agent in self.agents]
        medians = [part.median for one, part in self.parts if one.agent.can_score]
        self.is_neutral = bool(medians) and all(median is None for median in medians)
        self._demands: dict[DemandKey, DemandScores] = {}
        """The kept demands. The one that was used last is the last."""
        self._shared: WeakValueDictionary[tuple[int, t.Hashable], AgentScores] = WeakValueDictionary()
        """The scores of the agents that depend on the pod, by the number and the key of the agent, for as long as a demand has them.

        Pods of 128 workloads with ten sizes have more demands than fit into MAX_SCORE_BYTES without this, if an agent learns by workload.
        Measured with 5,000 nodes and three such agents, the p99 of a request is 2 ms with this, and 19 ms without.
        """

    @property
    def parts(self) -> list[tuple[ConfiguredAgent, AgentScores]]:
        """Return the agents with their scores at the refresh. An agent that depends on the pod has those for a pod without requests."""
        return list(zip(self.profile.judging, self._parts, strict=True))

    # --- the request path ---

    def table(self, key: str, pod: Callable[[], PodView]) -> Table:
        """Return the table of a pod by its ``table_key``. ``pod`` is called only if the scores depend on the pod."""
        number, demand = table_of(key), self.scores(pod)
        table = demand.tables.get(number)
        if table is None:
            table = demand.make_table(number)
            self._limit_tables()
        return table

    def scores(self, pod: Callable[[], PodView]) -> DemandScores:
        """Return the scores for the demand of a pod, with the newest nodes. ``pod`` is called only if the scores depend on the pod."""
        demand = self._demand(pod() if self.profile.is_per_demand else EMPTY_POD, no_pause)
        demand.is_used = True
        return demand

    def allowed_nodes(self, candidates: Mapping[str, Victims], pod: Callable[[], PodView]) -> list[str]:
        """Return the names of the candidates whose victims the scheduler's preemption may delete, in their order.

        A node is dropped if an agent refuses its victims, or if the profile filters and would reject the node: then the pod could not run
        there after the deletion. The scheduler accepts a reduced list (kube-scheduler ``preemption.go``, callExtenders).
        """
        rejected = self.scores(pod).rejections(list(candidates)) if self.profile.filters else {}
        allowed = {name: victims for name, victims in candidates.items() if name not in rejected}
        return [name for name, victims in allowed.items() if not any(agent.preempt_violation(victims) for agent in self._refusing)]

    def _demand(self, pod: PodView, pause: Pause) -> DemandScores:
        key = tuple([agent.demand_key(pod) for agent in self.agents if agent.per_demand])
        demand = self._demands.pop(key, None)
        if demand is None:
            demand = self._demands[key] = self._calculated(key, pod, pause)
            self._limit_demands()
        else:
            self._demands[key] = demand
            self._update(demand)
        return demand

    def _calculated(self, key: DemandKey, pod: PodView, pause: Pause) -> DemandScores:
        """Return the scores for a new demand. Scores that another demand has are taken from it."""
        updated, keys = len(self.nodes.replaced), iter(key)
        kept = replace(pod, labels=limited_labels(pod.labels))
        parts = list(self._parts)
        for number, agent in enumerate(self.agents):
            if agent.per_demand:
                place = (number, next(keys))
                part = self._shared.get(place)
                if part is None:
                    part = self._shared[place] = agent.scores(kept, pause)
                else:
                    agent.update(part, kept)
                parts[number] = part
        pause()
        return DemandScores(self.profile, kept, parts, self.nodes, updated)

    def _update(self, demand: DemandScores) -> None:
        """Judge the nodes that were replaced since the demand was used."""
        newest, compares_nodes = len(self.nodes.replaced), False
        if demand.updated == newest:
            return
        for agent, part in zip(self.agents, demand.parts, strict=True):
            if agent.per_demand:
                agent.update(part, demand.pod)
                compares_nodes = compares_nodes or agent.compares_nodes
        if compares_nodes:
            demand.update_all()
        else:
            demand.update(self.nodes.replaced_since(demand.updated))
        demand.updated = newest

    def _limit_demands(self) -> None:
        """Drop the demands that were not used for the longest time. The newest one stays."""
        while len(self._demands) > 1 and (len(self._demands) > MAX_DEMANDS or self._size_bytes > MAX_SCORE_BYTES):
            del self._demands[next(iter(self._demands))]

    @property
    def _size_bytes(self) -> int:
        return sum(part.size_bytes for part in self._shared.values()) + len(self._demands) * len(self.nodes.names)

    def _limit_tables(self) -> None:
        """Drop tables of the demands that were not used for the longest time."""
        most = max(TABLES, MAX_TABLE_BYTES // sys.getsizeof(self.nodes.numbers))
        excess = sum(len(demand.tables) for demand in self._demands.values()) - most
        for demand in self._demands.values():
            while excess > 0 and demand.tables:
                demand.tables.popitem()
                excess -= 1

    # --- the thread of the sources ---

    def take_over_demands(self, old: ProfileState, pause: Pause) -> None:
        """Calculate the demands that were used last with the old state, so that no request has to wait for them."""
        if old.profile is not self.profile:
            return
        used = [demand.pod for demand in list(old._demands.values()) if demand.is_used]
        for pod in used[-MAX_TAKEN_OVER:]:
            self._demand(pod, pause)
            pause()

    def replace_node(self, number: int) -> None:
        """Judge a node again. Agents that depend on the pod judge it for a pod without requests, so that they have read its values.

        An agent that compares nodes would judge all nodes. It does so only for a request.
        """
        for agent, part in zip(self.agents, self._parts, strict=True):
            if not agent.compares_nodes:
                agent.judge_again(part, [number], EMPTY_POD)
