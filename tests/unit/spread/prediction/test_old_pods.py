# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The order in which old pods are removed, beside the comparison of two pods of the controller manager (ActivePodsWithRanks)."""

from __future__ import annotations

import functools
import math
import random
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time, parse_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.old_pods import DELETION_COST, OldPods

from tests.unit.support.cluster import ClusterBuilder

NOW_S = 1_700_000_000.0
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def compare(one: Pod, other: Pod, per_node: Counter[str]) -> int:
    """The comparison of two pods in Go, criterion by criterion. A negative number: the first one is removed before the other."""
    nodes = one.spec.node_name, other.spec.node_name
    if nodes[0] != nodes[1] and "" in nodes:
        return -1 if not nodes[0] else 1
    if PHASES[one.status.phase] != PHASES[other.status.phase]:
        return PHASES[one.status.phase] - PHASES[other.status.phase]
    if one.ready != other.ready:
        return one.ready - other.ready
    costs = [int((pod.metadata.annotations or {}).get(DELETION_COST, "0")) for pod in (one, other)]
    if costs[0] != costs[1]:
        return costs[0] - costs[1]
    if per_node[nodes[0]] != per_node[nodes[1]]:
        return per_node[nodes[1]] - per_node[nodes[0]]
    ages = [int(math.log2((NOW_S - parse_time(pod.metadata.creation_timestamp or "")) * 1e9)) for pod in (one, other)]
    if ages[0] != ages[1]:
        return ages[0] - ages[1]
    return -1 if one.metadata.uid < other.metadata.uid else 1


@pytest.mark.parametrize("seed", range(100))
def test_old_pods_go_in_the_order_of_the_controller(seed: int) -> None:
    chance = random.Random(seed)
    cluster = ClusterBuilder()
    for number in range(chance.randint(1, 12)):
        metadata = {
            "creationTimestamp": format_time(NOW_S - chance.choice([1, 5, 60, 61, 62, 86_400])),
            "annotations": {DELETION_COST: str(chance.choice([-1, 0, 5]))} if chance.random() < 0.3 else {},
            "uid": f"{chance.randrange(10**6)}-{number}",
        }
        phase = chance.choice(["Running", "Running", "Pending", "Unknown"])
        cluster.pod(f"web-{number}", chance.choice(["", "worker-1", "worker-2", "worker-3"]), phase=phase, **metadata)
    pods, per_node = list(cluster.pods), Counter(pod.spec.node_name for pod in cluster.pods)
    old = OldPods(chance.sample(pods, len(pods)), per_node, NOW_S)
    while pods:
        if chance.random() < 0.5:
            node = chance.choice(["worker-1", "worker-2", "worker-3", "worker-4"])
            per_node[node] += 1
            old.recount(node)
        # The controller compares the pods that it removes at the same time by the counts from before.
        gone = sorted(pods, key=functools.cmp_to_key(lambda one, other: compare(one, other, per_node)))[: chance.randint(1, 3)]
        assert old.take(len(gone)) == gone
        for pod in gone:
            pods.remove(pod)
            per_node[pod.spec.node_name] -= 1
            old.recount(pod.spec.node_name)
        assert len(old) == len(pods)
    assert old.take(1) == []
