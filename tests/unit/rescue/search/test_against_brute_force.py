# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The search against every set of victims on every node, over random clusters.

SOAK=1 plays eighty times as many clusters, other ones each time; a failure names the seed that gives its cluster again.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import Choice
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.rescue.random_clusters import Cluster, random_cluster
from tests.unit.rescue.search.brute_force import BruteForce
from tests.unit.support.searches import victim_search

SOAK = os.environ.get("SOAK") == "1"
DRAWN = 260 * (80 if SOAK else 1)
CLUSTERS_PER_SEED = 4
"""Drawing a seed costs about as much as a small cluster."""

# Shrinking a seed makes no smaller cluster.
RANDOM = settings(
    max_examples=DRAWN,
    deadline=None,
    database=None,
    derandomize=not SOAK,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def best(cluster: Cluster) -> Choice | None:
    """Return the choice of the search."""
    cluster_state = ClusterState.of(cluster.snapshot)
    budgets = PdbLedger(cluster.snapshot)
    return victim_search(cluster.pod, cluster_state, cluster.options, budgets=budgets, rescued=cluster.rescued).best()


def test_the_choice_is_the_best_of_all_sets() -> None:
    seen: Counter[str] = Counter()

    @RANDOM
    @given(st.integers(0, 2**48))
    def play(seed: int) -> None:
        for number in range(CLUSTERS_PER_SEED):
            random = Random(f"{seed}/{number}")
            cluster = random_cluster(random, most_pods=10 if random.randrange(25) == 0 else 6)
            seen[_compare(cluster)] += 1

    play()
    assert sum(seen.values()) >= 1_000
    assert min(seen[kind] for kind in ("none", "no victims", "one victim", "several victims")) > 25, seen


def _compare(cluster: Cluster) -> str:
    choice, reference = best(cluster), BruteForce(cluster)
    expected = reference.best()
    if choice is None or expected is None:
        assert choice is None, choice
        assert expected is None, expected
        return "none"
    victims = [victim.pod for victim in choice.victims]
    order, node_name, subset = expected
    assert reference.order(victims) == order, (choice, subset)
    assert choice.node == node_name
    assert reference.permitted(victims)
    assert reference.fits(choice.node, victims)
    return {0: "no victims", 1: "one victim"}.get(len(victims), "several victims")
