# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The bounds of the cost of one node."""

from __future__ import annotations

from collections import Counter
from random import Random

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.node_candidate import NodeCandidate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.victim_search import VictimSearch
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState

from tests.unit.rescue.random_clusters import random_cluster
from tests.unit.support.searches import victim_search

CLUSTERS = 400


def random_search(number: int) -> VictimSearch:
    """Return a search in a random cluster with at most ten pods on a node."""
    cluster = random_cluster(Random(f"steps/{number}"), most_pods=10)
    cluster_state = ClusterState.of(cluster.snapshot)
    return victim_search(cluster.pod, cluster_state, cluster.options, budgets=PdbLedger(cluster.snapshot))


def test_each_bound_is_at_least_the_one_before_and_the_last_is_the_cost_of_the_victims() -> None:
    seen: Counter[str] = Counter()
    for number in range(CLUSTERS):
        search = random_search(number)
        for name in search.reachable_nodes() if not search.unknown else ():
            candidate = NodeCandidate(name, search.shortage_on(name), search.context, search.context.options.max_victims)
            bounds = list(candidate.bounds())
            assert bounds == sorted(bounds), (number, name)
            raised = sum(len(bound) == 1 for bound in bounds) > 1
            seen["more priorities because of budgets"] += raised
            if candidate.victims is None:
                seen["out by capacity" if all(len(bound) == 1 for bound in bounds) else "out by filters"] += 1
                continue
            assert bounds[-1] == search.context.costs.cost_of(candidate.victims), (number, name)
            assert not any(search.context.filter_result(name, [node_pod.pod for node_pod in candidate.victims])), (number, name)
            seen["victims by capacity" if bounds[-1] == bounds[-2] else "victims by filters"] += 1
    assert len(seen) == 5 and all(seen.values()), seen
