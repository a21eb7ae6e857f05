# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A simulated restart in which each new pod gets the node that the scheduler chooses by its scores."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Sequence
from functools import partial

from ...model.api.pod import Pod
from .draws import Draw
from .old_pods import can_be_removed_in_other_orders
from .restart_simulation import RestartSimulation
from .scored_node import ScoredNode


class DrawnRestart(RestartSimulation):
    """A simulated restart with the random choices of the scheduler and of the controllers in ``draw``."""

    def __init__(self, draw: Draw, *args: t.Any, **options: t.Any) -> None:
        super().__init__(*args, **options)
        self._draw = draw

    def _make_node_finder(self) -> t.Callable[[], t.Optional[str]]:
        eligible = self._topology.as_set(self._candidates)
        scorer = self._next_pods.scores(self._cluster_state, self._ordinal)
        scored = ScoredNode(self._pod, self._cluster_state, self._filter_runner, scorer, eligible)
        return partial(scored.find, self._draw, accept_unknown=self._accept_unknown)

    def _note_first(self) -> None:
        pass

    def _ended_at_begin(self) -> Sequence[Pod]:
        return [pod for pod in self._terminating if self._draw.has_ended(immediately=True)]

    def _begin_step(self) -> None:
        if self._terminating:
            self._end([pod for pod in self._terminating if self._draw.has_ended(immediately=False)])

    def _removal_order(self, pods: Sequence[Pod]) -> t.Optional[random.Random]:
        return self._draw.removal_order() if can_be_removed_in_other_orders(pods) else None

    def _ready(self, before: int, placed: int) -> int:
        return self._draw.ready(before, placed)

    def _placed_before_removal(self, wanted: int) -> int:
        return 1 if self._draw.removes_early else wanted

    def _has_ended_at_removal(self, pod: Pod, removed: int) -> bool:
        return self._draw.has_ended_at_removal(pod, removed)

    def _end_next(self) -> Sequence[Pod]:
        return self._draw.end_next(self._terminating)
