# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The steps in which the cost of one node is computed."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search import node_candidate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.node_candidate import NodeCandidate, Result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.victim_search import VictimSearch
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState

from tests.unit.rescue.random_clusters import random_cluster
from tests.unit.support.searches import victim_search

CLUSTERS = 400
NAMES = [step.__name__ for step in node_candidate.STEPS]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Result]]:
    """The steps that candidates take, with their results."""
    steps: list[tuple[str, Result]] = []

    def recorded(step: Callable[[NodeCandidate], Result]) -> Callable[[NodeCandidate], Result]:
        def call(candidate: NodeCandidate) -> Result:
            result = step(candidate)
            steps.append((step.__name__, result))
            return result

        return call

    monkeypatch.setattr(node_candidate, "STEPS", tuple(map(recorded, node_candidate.STEPS)))
    return steps


def random_search(number: int) -> VictimSearch:
    """Return a search in a random cluster with at most ten pods on a node."""
    cluster = random_cluster(Random(f"steps/{number}"), most_pods=10)
    cluster_state = ClusterState.of(cluster.snapshot)
    return victim_search(cluster.pod, cluster_state, cluster.options, budgets=PdbLedger(cluster.snapshot))


def bounds_of(candidate: NodeCandidate) -> list[tuple[t.Any, ...]]:
    """Take all steps of the candidate. Return its lower bound after each step that has kept it a candidate."""
    bounds: list[tuple[t.Any, ...]] = []
    while not candidate.is_verified and candidate.refine():
        bounds.append(candidate.lower_bound)
    return bounds


def test_each_step_keeps_or_increases_the_lower_bound_and_steps_come_in_their_order(taken: list[tuple[str, Result]]) -> None:
    seen: Counter[str] = Counter()
    for number in range(CLUSTERS):
        search = random_search(number)
        for name in search.reachable_nodes() if not search.unknown else ():
            taken.clear()
            bounds = bounds_of(NodeCandidate(name, search.shortage_on(name), search.context))
            assert bounds == sorted(bounds), (number, name)
            names = [step for step, _result in taken]
            once = [step for position, step in enumerate(names) if names[position - 1 : position] != [step]]
            assert once == NAMES[: len(once)], (number, name, names)
            assert all(step == "bound_weight" for step, result in taken if result is Result.REPEAT)
            assert all(result in (Result.NEXT, Result.REPEAT) for _step, result in taken[:-1])
            seen.update(f"{step} {result.name}" for step, result in taken)
    needed = (
        "bound_weight REPEAT",
        "bound_weight OUT",
        "verify VERIFIED",
        "search_with_filters VERIFIED",
        "search_with_filters OUT",
    )
    assert [kind for kind in needed if not seen[kind]] == [], seen
