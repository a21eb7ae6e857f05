# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of one agent with the rounding of the original system, for the paths ``/scheduler/priorities/NAME``."""

from __future__ import annotations

import threading
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..interface import Judgement, NodeView, PodView
from ..memory_limits import limited_labels
from ..pauses import no_pause
from .evaluation import NOT_KNOWN, Evaluator
from .fragments import SCORES, Fragments, Table
from .judges import Judges
from .profile import ConfiguredAgent

MAX_TABLES = 32
"""Tables that are kept for one profile."""


class OriginalTable:
    """A table without dithering. ``pod`` is None if the agent does not depend on the pod."""

    def __init__(
        self,
        one: ConfiguredAgent,
        prepared: t.Any,
        pod: PodView | None,
        nodes: Sequence[NodeView],
        fragments: Fragments,
        evaluator: Evaluator,
    ) -> None:
        self._one, self._prepared, self._pod = one, prepared, pod
        self._fragments, self._evaluator = fragments, evaluator
        judgements = evaluator.judge_all(one, prepared, nodes, pod, no_pause)
        rows = [fragments.of(node.name)[self._score(judgement)] for node, judgement in zip(nodes, judgements, strict=True)]
        self.table = Table([node.name for node in nodes], rows, self._score(NOT_KNOWN))

    def replace(self, node: NodeView) -> None:
        """Judge one node again."""
        judgement = self._evaluator.judge(self._one, self._prepared, node, self._pod)
        self.table.fragments[node.name] = self._fragments.of(node.name)[self._score(judgement)]

    def _score(self, judgement: Judgement) -> int:
        score = self._evaluator.original_score(self._one, judgement)
        return min(SCORES[-1], max(SCORES[0], score))


class OriginalTables:
    """The kept tables of a profile. The lock protects them, as that of ``KeptDemands`` protects the demands."""

    def __init__(self, judges: Judges, fragments: Fragments) -> None:
        self._judges, self._fragments = judges, fragments
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[int, t.Hashable], OriginalTable] = OrderedDict()

    def table(self, number: int, pod: Callable[[], PodView]) -> Table:
        """Return the table of one agent that judges nodes, by its number. ``pod`` is called only if its scores depend on the pod."""
        judges, one = self._judges, self._judges.profile.judging[number]
        view = pod() if one.agent.per_demand else None
        key = (number, None if view is None else judges.key(number, view))
        with self._lock:
            found = self._tables.get(key)
            if found is None:
                kept = view and replace(view, labels=limited_labels(view.labels))
                found = OriginalTable(one, judges.prepared[number], kept, judges.nodes.views, self._fragments, judges.evaluator)
                self._tables[key] = found
                if len(self._tables) > MAX_TABLES:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(key)
            return found.table

    def replace(self, node: NodeView) -> None:
        """Judge one node again. The tables of agents that compare nodes are made again when a request needs them."""
        with self._lock:
            for key in [key for key in self._tables if key[0] in self._judges.comparing]:
                del self._tables[key]
            for table in self._tables.values():
                table.replace(node)
