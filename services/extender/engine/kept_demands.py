# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The demands of one profile whose scores and tables are kept until the next refresh."""

from __future__ import annotations

import sys
import threading
import typing as t
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from ..interface import PodView
from ..memory_limits import limited_labels
from ..pauses import Pause, no_pause
from .agent_scores import AgentScores
from .demand_scores import DemandScores
from .dithering import TABLES
from .fragments import Table
from .judges import EMPTY_POD, Judges
from .shared_scores import KeyScores, SharedScores

MAX_DEMANDS = 128
"""Demands whose scores are kept for one profile. The demand that was not used for the longest time is dropped."""

MAX_SCORE_BYTES = 4 * 1024 * 1024
"""Bytes of the scores of all kept demands, about. At 5,000 nodes these are 60 demands with three scores that no other demand has."""

MAX_TABLE_BYTES = 6 * 1024 * 1024
"""Bytes of all tables that are kept for demands. At 5,000 nodes these are 60 tables, and a request makes another one in 0.4 ms."""

MAX_TAKEN_OVER = 16
"""Demands that a refresh calculates. A request calculates the others. Many demands would delay the next refresh."""

MOST_LATE = 8
"""Replaced nodes that a demand may not know yet. A request judges these nodes first. Demands without requests are updated later."""


class KeptDemands:
    """The kept demands. ``static``: the scores of the agents that do not depend on the pod, and None for the others.

    The lock protects the demands: the request path adds them, and the thread of the sources replaces nodes in them. A replaced node is only
    noted, and a request judges it for its own demand. So a binding costs little while requests come.
    """

    def __init__(self, judges: Judges, static: Sequence[AgentScores | None]) -> None:
        self._judges, self._nodes, self._static = judges, judges.nodes, static
        self._lock = threading.Lock()
        self._demands: OrderedDict[tuple[t.Hashable, ...], DemandScores] = OrderedDict()
        self._replaced: list[int] = []
        """The numbers of the nodes that were replaced, in this order."""
        self._shared = SharedScores(judges, self._replaced)

    # --- the request path ---

    def table(self, pod: PodView, number: int) -> Table:
        """Return a table for the demand of a pod."""
        key = self._key(pod)
        with self._lock:
            demand = self._scores(key, pod, no_pause)
            table = demand.tables.get(number)
            if table is None:
                table = demand.make_table(number, self._nodes)
                self._limit_tables()
            demand.is_used = True
            return table

    def scores(self, pod: PodView) -> DemandScores:
        """Return the scores for the demand of a pod."""
        key = self._key(pod)
        with self._lock:
            return self._scores(key, pod, no_pause)

    def known(self, pod: PodView) -> DemandScores | None:
        """Return the scores for the demand of a pod if they are kept and know the newest nodes."""
        key = self._key(pod)
        with self._lock:
            demand = self._demands.get(key)
            return demand if demand is not None and demand.updated == len(self._replaced) else None

    def calculated(self, pod: PodView) -> DemandScores:
        """Return the scores for a pod without keeping them. No request waits for it."""
        judges = self._judges
        parts = [judges.all_nodes(agent, pod, no_pause) if static is None else static for agent, static in enumerate(self._static)]
        return DemandScores(judges.profile, pod, parts, len(self._nodes.names))

    # --- the thread of the sources ---

    def used(self) -> list[PodView]:
        """Return a pod of each demand that requests have used, at most those that a refresh calculates. The newest is the last."""
        with self._lock:
            found = [one.pod or EMPTY_POD for one in reversed(self._demands.values()) if one.is_used]
        return found[:MAX_TAKEN_OVER][::-1]

    def take_over(self, pods: Sequence[PodView], pause: Pause) -> None:
        """Calculate the scores of demands, so that no request has to wait for them. A request makes its table in a short time."""
        for pod in pods:
            with self._lock:
                self._scores(self._key(pod), pod, pause)
            pause()

    def replace_node(self, number: int) -> None:
        """Note that a node was replaced, and judge an earlier one for the demands without requests."""
        with self._lock:
            self._replaced.append(number)
        if len(self._replaced) > MOST_LATE:
            self._update_late(len(self._replaced) - MOST_LATE - 1)

    def _update_late(self, position: int) -> None:
        """Judge a replaced node for the demands that no request has updated since."""
        number = self._replaced[position]
        with self._lock:
            late = self._shared.late(position)
        # Short holds of the lock, because a request may wait for it. It may have updated the demand meanwhile.
        for agent, scores in late.items():
            judgements = self._judges.for_pods(agent, number, [one.pod for one in scores])
            for one, judgement in zip(scores, judgements, strict=True):
                with self._lock:
                    self._shared.update_late(one, position, judgement)
        if self._judges.comparing:
            return  # A request calculates the totals of all nodes.
        with self._lock:
            demands = [one for one in self._demands.values() if one.updated == position]
        for demand in demands:
            with self._lock:
                if demand.updated == position:
                    self._renew(demand, number)
                    demand.updated += 1

    # --- both, with the lock ---

    def _key(self, pod: PodView) -> tuple[t.Hashable, ...]:
        return tuple([self._judges.key(agent, pod) for agent in self._judges.per_demand])

    def _update(self, demand: DemandScores) -> None:
        """Judge the nodes that were replaced since the last update of the demand."""
        if demand.updated == len(self._replaced):
            return
        self._shared.update(demand.shared)
        if self._judges.comparing:
            demand.update_all()
        else:
            for number in dict.fromkeys(self._replaced[demand.updated :]):
                self._renew(demand, number)
        demand.updated = len(self._replaced)

    def _renew(self, demand: DemandScores, number: int) -> None:
        demand.update(number, self._nodes.names[number], self._nodes.fragments[number])

    def _scores(self, key: tuple[t.Hashable, ...], pod: PodView, pause: Pause) -> DemandScores:
        demand = self._demands.get(key)
        if demand is None:
            kept = replace(pod, labels=limited_labels(pod.labels))
            shared = self._shared.of(kept, key, pause)
            pause()
            demand = self._demands[key] = self._made(kept, shared)
            demand.updated = len(self._replaced)
            self._limit_demands()
        else:
            self._update(demand)
        self._demands.move_to_end(key)
        return demand

    def _made(self, pod: PodView, shared: dict[int, KeyScores]) -> DemandScores:
        parts = [shared[agent].scores if static is None else static for agent, static in enumerate(self._static)]
        return DemandScores(self._judges.profile, pod, parts, len(self._nodes.names), shared)

    def _limit_demands(self) -> None:
        """Drop the demands that were not used for the longest time. The newest one stays."""
        while len(self._demands) > 1 and (len(self._demands) > MAX_DEMANDS or self._size_bytes > MAX_SCORE_BYTES):
            self._demands.popitem(last=False)

    @property
    def _size_bytes(self) -> int:
        return self._shared.size_bytes + len(self._demands) * len(self._nodes.names)

    def _limit_tables(self) -> None:
        """Drop tables of the demands that were not used for the longest time."""
        excess = sum(len(demand.tables) for demand in self._demands.values()) - self._most_tables
        for demand in self._demands.values():
            while excess > 0 and demand.tables:
                demand.tables.popitem()
                excess -= 1

    @property
    def _most_tables(self) -> int:
        return max(TABLES, MAX_TABLE_BYTES // sys.getsizeof(self._nodes.numbers))
