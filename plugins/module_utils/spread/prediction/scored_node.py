# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The node for the next pod of a simulation, as the scheduler chooses it: a feasible node with the highest score."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason, Reasons
from ...scheduler.batching import has_reusable_scores
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterRunner
from ...scheduler.scores.scorer import Scorer
from .draws import Draw


class NodeUnknownError(Exception):
    """It is not known on which node a simulated pod runs."""

    def __init__(self, reasons: Reasons) -> None:
        super().__init__(", ".join(map(str, reasons)))
        self.reasons = reasons


class ScoredNode:
    """Finds the nodes for equal pods, among all nodes of the snapshot.

    ``eligible``: the nodes on which the pod is expected to start. The scheduler does not know more than its filters, and may choose others.
    """

    def __init__(
        self, pod: Pod, cluster_state: ClusterState, filter_runner: FilterRunner, scorer: Scorer, eligible: frozenset[str]
    ) -> None:
        self._filter_runner = filter_runner
        self._scorer = scorer
        self._names = cluster_state.node_names
        self._eligible = eligible
        self._is_reusable = has_reusable_scores(pod, cluster_state.snapshot.profile_of(pod))
        self._last = ""
        # The total scores of the nodes that the scheduler did not choose for the pods before.
        self._left: dict[str, int] = {}

    def find(self, draw: Draw, *, accept_unknown: bool) -> t.Optional[str]:
        """Return the node that the scheduler chooses for the next pod. None if no node is feasible. Raise NodeUnknownError.

        ``accept_unknown``: nodes with unknown filter results are feasible.
        """
        node = self._next_of_left(draw, accept_unknown=accept_unknown) or self._best(draw, accept_unknown=accept_unknown)
        if node is not None and node not in self._eligible:
            raise NodeUnknownError(_not_eligible(node))
        return node

    def _best(self, draw: Draw, *, accept_unknown: bool) -> t.Optional[str]:
        self._left = {}
        feasible = self._feasible(draw, accept_unknown=accept_unknown)
        if len(feasible) < 2:
            return feasible[0] if feasible else None
        unknown = self._scorer.unknown(feasible)
        if unknown:
            raise NodeUnknownError(unknown)
        self._last = draw.choose(self._scorer.best(feasible))
        if self._is_reusable:
            self._left = dict(self._scorer.scores(feasible).totals)
            del self._left[self._last]
        return self._last

    def _next_of_left(self, draw: Draw, *, accept_unknown: bool) -> t.Optional[str]:
        """Return the best node of those that are left, if the scheduler reuses their scores. None if it scores the nodes again."""
        if not self._left or self._filter_runner.is_feasible(self._last, accept_unknown=accept_unknown):
            return None
        draw.had_choice = True
        if not draw.reuses_scores:
            return None
        highest = max(self._left.values())
        node = draw.choose([name for name, score in self._left.items() if score == highest])
        del self._left[node]
        if not self._filter_runner.is_feasible(node, accept_unknown=accept_unknown):
            return None
        self._last = node
        return node

    def _feasible(self, draw: Draw, *, accept_unknown: bool) -> tuple[str, ...]:
        if draw.search is not None:
            return draw.search.find(self._filter_runner, self._names, accept_unknown=accept_unknown)
        found = self._filter_runner.feasibility(self._names)
        return (*found.feasible, *found.unknown_nodes) if accept_unknown and found.unknown_nodes else found.feasible


def _not_eligible(node: str) -> Reasons:
    why = "it is not Ready, has another platform, or is virtual"
    return (Reason("not_eligible", f"the scheduler may choose {node}, on which the pods are not expected to start: {why}"),)
