# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The next eviction is the same as by a comparison of every place with every other place, with less work."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import Feasibility, find_feasible
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction import planner as eviction_planner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.planner import EvictionPlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.topology import node_groups

from tests.unit.support.calls import CountedCalls
from tests.unit.support.cluster import ClusterBuilder, Json

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"


class EveryGoal:
    """The goals of one source by a comparison with every place."""

    def __init__(self, by_gain: dict[t.Any, list[str]]) -> None:
        self._by_gain = by_gain
        self.gains = sorted(by_gain)

    def nodes(self, gain: t.Any) -> list[str]:
        return self._by_gain[gain]


class EveryPlace(EvictionPlanner):
    """The oracle: compare the source with every place, and judge every goal."""

    def _target_nodes_from(self, source: t.Any, counts: t.Any, touched: t.Any) -> t.Any:
        nodes_at: dict[t.Any, list[str]] = {}
        for name in self._domain_tuples.eligible:
            if None not in self._domain_tuple(name):
                nodes_at.setdefault(self._domain_tuple(name), []).append(name)
        target_nodes: dict[t.Any, list[str]] = {}
        for target, names in nodes_at.items():
            gain = eviction_planner._useful_gain(source, target, counts)
            if gain is not None:
                target_nodes.setdefault(gain, []).extend(names)
        return EveryGoal(target_nodes)

    def _feasibility(self, candidate: t.Any) -> Feasibility:
        without = self._cluster_state.fork()
        without.remove(candidate.pod)
        names = [name for gain in candidate.target_nodes.gains for name in candidate.target_nodes.nodes(gain)]
        return find_feasible(self._replacement(candidate.pod), without, node_names=names)


def random_cluster(chance: random.Random) -> ClusterBuilder:
    cluster = ClusterBuilder()
    count = chance.randint(2, 10)
    for number in range(count):
        labels = {ZONE: chance.choice(["a", "b", ""]), RACK: f"rack-{chance.randint(0, count // 2)}"}
        for key in [key for key in labels if chance.random() < 0.1]:
            del labels[key]
        cluster.node(f"worker-{number}", labels=labels, ready=chance.random() < 0.95)
    names = [node.name for node in cluster.nodes]
    for number in range(chance.randint(0, count)):
        spec = {"containers": [{"name": "m", "resources": {"requests": {"cpu": chance.choice(["2", "4"])}}}]}
        cluster.pod(f"filler-{number}", chance.choice(names), labels={"app": "other"}, template={"spec": spec})
    homes = chance.choices(chance.sample(names, min(len(names), chance.randint(1, 4))), k=chance.randint(2, 7))
    spec = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "500m"}}}]}
    if chance.random() < 0.3:
        constraint = {
            "maxSkew": 3,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        spec["topologySpreadConstraints"] = [constraint]
    if chance.random() < 0.3:
        cluster.stateful_set("web", homes, template={"spec": spec})
    else:
        cluster.deployment("web", homes, template={"spec": spec})
    return cluster


def moves(kind: type[EvictionPlanner], cluster: ClusterBuilder, keys: list[str]) -> list[t.Any]:
    snapshot = cluster.snapshot()
    options = CheckOptions(topology_keys=keys, max_skew=1, min_ready_nodes=1, predict=False)
    line = next((line for line in check_spread(snapshot, options).workloads), None)
    if line is None:
        return []
    planner = kind(line, snapshot, ClusterState.of(snapshot), keys)
    found: list[t.Any] = []
    while len(found) < 10:
        move = planner.next_move()
        found.append(move)
        if isinstance(move, Reason):
            break
        planner.assume(move)
    return found


@pytest.mark.parametrize("small", [0, 2, 16], ids="small domains have fewer than {} nodes".format)
@pytest.mark.parametrize("seed", range(100))
def test_the_moves_are_those_of_a_comparison_with_every_place(seed: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_groups, "SMALL", small)
    chance = random.Random(seed)
    cluster = random_cluster(chance)
    keys = chance.sample([HOST, ZONE, RACK], chance.randint(1, 3))
    assert moves(EvictionPlanner, cluster, keys) == moves(EveryPlace, cluster, keys)


def test_the_comparisons_for_a_move_do_not_grow_with_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    gain, counts = eviction_planner._gain, []
    for nodes in (60, 120):
        compared = CountedCalls(gain)
        cluster = ClusterBuilder()
        for number in range(nodes):
            labels: Json = {ZONE: "abc"[number % 3]}
            cluster.node(f"worker-{number}", labels=labels)
        cluster.deployment("web", [f"worker-{number}" for number in (0, 3, 6, 9) for _pod in range(2)])
        with monkeypatch.context() as patch:
            patch.setattr(eviction_planner, "_gain", compared)
            assert len(moves(EvictionPlanner, cluster, [ZONE, HOST])) > 2
        counts.append(compared.count)
    # The nodes that the scheduler may choose are compared, too, and their number depends on chance.
    assert 0 < counts[1] < counts[0] * 1.1
