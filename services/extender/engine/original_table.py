# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of one agent with the rounding of the original system, for the paths ``/scheduler/priorities/NAME``."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ..interface import Judgement, NodeView, PodView
from ..pauses import no_pause
from .evaluation import NOT_KNOWN, Evaluator
from .fragments import SCORES, Fragments, Table
from .profile import ConfiguredAgent


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
