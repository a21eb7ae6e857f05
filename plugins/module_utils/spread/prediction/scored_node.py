# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The node for the next pod of a simulated restart, as the scheduler chooses it: a feasible node with the highest score."""

from __future__ import annotations

import random
import typing as t

from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.codec import replace
from ...model.reason import Reason, Reasons
from ...model.scheduler_profile import DEFAULT_PROFILE
from ...model.snapshot import ClusterSnapshot
from ...scheduler.feasibility import FilterRunner
from ...scheduler.node_search import SearchOrder, SearchOrders, nodes_to_find
from ...scheduler.scores.scorer import Scorer
from .sampled_search import SampledSearch

DRAWS = 8
"""The number of simulations with different choices of the scheduler."""


class ScoresUnknownError(Exception):
    """The scores of a simulated pod are not known."""

    def __init__(self, reasons: Reasons) -> None:
        super().__init__(", ".join(map(str, reasons)))
        self.reasons = reasons


class Draw:
    """The choices of one simulation that are not known.

    ``order``: an order in which the scheduler may have the nodes. ``wanted``: the number of feasible nodes after which its search ends, or
    None if it scores all of them. ``keeps_order``: of nodes with equal scores it takes the one that is first in the order, for all pods.
    Otherwise each choice is random. ``ends_late``: a removed pod still uses its node when the next pod is placed, if its controller does
    not wait for its end.
    """

    def __init__(self, seed: str, order: SearchOrder, wanted: t.Optional[int], *, keeps_order: bool, ends_late: bool) -> None:
        self._chance = random.Random(seed)
        self._positions = order.positions if keeps_order else None
        self.search = SampledSearch(order, wanted) if wanted is not None else None
        self.ends_late = ends_late
        self._had_choice = False

    @property
    def is_certain(self) -> bool:
        """True if all simulations with the same ``ends_late`` have the result of this one: the scheduler had no choice."""
        return not self._had_choice and self.search is None

    def choose(self, names: t.Sequence[str]) -> str:
        """Return one of these nodes, which have equal scores. The order of the names must not depend on chance."""
        if len(names) == 1:
            return names[0]
        self._had_choice = True
        return self._chance.choice(names) if self._positions is None else min(names, key=self._positions.__getitem__)


class Draws:
    """The choices in simulations on one snapshot that are not known. The same snapshot always gets the same ones."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._orders = SearchOrders(snapshot.nodes)

    def of(self, workload: Workload, number: int) -> Draw:
        """Return the choices in the simulation of the workload with this number, which is below DRAWS."""
        profile = self._snapshot.profiles.get(workload.spec.template.spec.scheduler_name, DEFAULT_PROFILE)
        nodes = len(self._snapshot.nodes)
        wanted = nodes_to_find(profile.percentage_of_nodes, nodes)
        return Draw(
            f"{workload.metadata.uid}/{number}",
            self._orders.of(number),
            wanted if wanted < nodes else None,
            keeps_order=number < DRAWS // 2,
            ends_late=number % 4 < 2,
        )


def terminating_copy(pod: Pod) -> Pod:
    """Return the pod as it is after its deletion has begun, with a uid of its own. It uses its node, and no spread constraint counts it."""
    metadata = replace(pod.metadata, uid=f"terminating-{pod.metadata.uid}", deletion_timestamp="1970-01-01T00:00:00Z")
    return replace(pod, metadata=metadata)


def by_chance(successes: int, what: str, *, sampled: bool) -> Reason:
    """Return the reason why only some simulations are successful. ``what``: the success, as in "4 of 8 simulated restarts ..."."""
    share = f"{successes} of {DRAWS} {what}"
    if sampled:
        return Reason("depends_on_sampling", f"{share}: in a cluster of this size the scheduler scores only a part of the nodes")
    return Reason("depends_on_ties", f"{share}: it is not known which of the nodes with equal scores the scheduler chooses")


def by_termination(results: t.Mapping[bool, t.Sequence[bool]]) -> t.Optional[Reason]:
    """Return the reason if the results by ``ends_late`` differ only by that."""
    late, early = results[True], results[False]
    if all(late) and not any(early):
        return Reason("depends_on_termination", "it helps only if old pods still use their nodes when the next new pod is placed")
    if all(early) and not any(late):
        return Reason("depends_on_termination", "it helps only if old pods have ended when the next new pod is placed")
    return None


class ScoredNode:
    """Finds the node for pods like the FilterRunner's, which is also the Scorer's."""

    def __init__(
        self, filter_runner: FilterRunner, scorer: Scorer, candidates: tuple[str, ...], draw: Draw, *, accept_unknown: bool
    ) -> None:
        self._filter_runner = filter_runner
        self._scorer = scorer
        self._candidates = candidates
        self._draw = draw
        self._accept_unknown = accept_unknown

    def find(self) -> t.Optional[str]:
        """Return the node that the scheduler chooses. None if no candidate is feasible. Raise ScoresUnknownError."""
        feasible = self._feasible()
        if len(feasible) < 2:
            return feasible[0] if feasible else None
        unknown = self._scorer.unknown(feasible)
        if unknown:
            raise ScoresUnknownError(unknown)
        return self._draw.choose(self._scorer.best(feasible))

    def _feasible(self) -> tuple[str, ...]:
        if self._draw.search is not None:
            return self._draw.search.find(self._filter_runner, self._candidates, accept_unknown=self._accept_unknown)
        found = self._filter_runner.feasibility(self._candidates)
        return (*found.feasible, *found.unknown_nodes) if self._accept_unknown and found.unknown_nodes else found.feasible
