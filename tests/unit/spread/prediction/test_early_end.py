# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A simulated restart ends as soon as the prediction does not depend on the pods that follow, and the prediction is the same."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import check_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.distribution import MAX_LISTED, Distribution
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.draws import MAX_DRAWS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.predictor import RestartPredictor
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.restart_simulation import (
    RestartSimulation,
    SimulatedRestart,
)

from tests.unit.spread.prediction.test_least_loaded_node import HOST, RACK, ZONE, filler, random_cluster
from tests.unit.support.cluster import ClusterBuilder, Json
from tests.unit.support.objects import claim, stored, volume

CLUSTERS = 150


def to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate every restart to its end."""
    monkeypatch.setattr(RestartPredictor, "_decides", lambda *_arguments: None)


def judged(snapshot: ClusterSnapshot, keys: list[str], max_skew: int | None) -> dict[str, t.Any]:
    options = CheckOptions(topology_keys=keys, max_skew=max_skew)
    return check_result(check_spread(snapshot, options), options, include_healthy=True)


def played(monkeypatch: pytest.MonkeyPatch) -> list[SimulatedRestart]:
    """The restarts that are simulated from now on."""
    restarts: list[SimulatedRestart] = []
    run = RestartSimulation.run

    def noted(restart: RestartSimulation) -> SimulatedRestart:
        restarts.append(run(restart))
        return restarts[-1]

    monkeypatch.setattr(RestartSimulation, "run", noted)
    return restarts


def mixed_cluster(chance: random.Random) -> ClusterBuilder:
    return random_cluster(chance)[0]


def roomy_cluster(chance: random.Random) -> ClusterBuilder:
    """Nodes that all have the labels, some of them filled, with a Deployment whose pods have no rules; other pods may keep it away."""
    cluster = ClusterBuilder()
    count = chance.randint(4, 20)
    for number in range(count):
        cluster.node(f"worker-{number}", labels={ZONE: chance.choice("abc"), RACK: f"rack-{number // 3}"})
    for number in range(chance.randint(0, count * 2)):
        template = filler(chance) if chance.random() < 0.1 else {"spec": {"containers": [container(chance.choice("124"))]}}
        cluster.pod(f"filler-{number}", f"worker-{chance.randrange(count)}", labels={"app": "other"}, template=template)
    homes = chance.choices([f"worker-{number}" for number in chance.sample(range(count), 2)], k=chance.randint(2, 8))
    bounds = {"maxUnavailable": chance.randint(0, 3), "maxSurge": chance.randint(1, 3)}
    strategy: Json = chance.choice([{"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": bounds}])
    cluster.deployment("web", homes, template={"spec": {"containers": [container(chance.choice("12"))]}}, strategy=strategy)
    return cluster


def ruled_cluster(chance: random.Random) -> ClusterBuilder:
    """Many nodes, and a Deployment whose pods have rules about other pods, which may close nodes and whole domains."""
    cluster = ClusterBuilder()
    count, zones = chance.randint(20, 60), chance.randint(2, 3)
    for number in range(count):
        cluster.node(f"worker-{number}", labels={ZONE: "abc"[number % zones], RACK: f"rack-{number // 3}"})
    own = {"labelSelector": {"matchLabels": {"app": "web"}}}
    term = {**own, "topologyKey": chance.choice([HOST, HOST, RACK])}
    constraint = {
        **own,
        "topologyKey": chance.choice([ZONE, ZONE, RACK]),
        "maxSkew": chance.randint(1, 2),
        "whenUnsatisfiable": "DoNotSchedule",
    }
    rules: Json = chance.choice(
        [
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
            {"topologySpreadConstraints": [constraint | ({"minDomains": 3} if chance.random() < 0.2 else {})]},
        ]
    )
    for number in range(chance.randint(0, count)):
        other = {"spec": {"containers": [container(chance.choice("1234"))], **(rules if chance.random() < 0.2 else {})}}
        cluster.pod(f"filler-{number}", f"worker-{number}", labels={"app": "other"}, template=other)
    template = {"spec": {"containers": [container(chance.choice("12"))], **rules}}
    cluster.deployment("web", [f"worker-{chance.randrange(count)}"] * chance.randint(2, 6), template=template)
    return cluster


def container(cpu: str) -> Json:
    return {"name": "m", "resources": {"requests": {"cpu": cpu}}}


def test_a_check_says_the_same_as_one_that_simulates_every_restart_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    restarts = played(monkeypatch)
    for seed in range(CLUSTERS):
        chance = random.Random(seed)
        snapshot = (mixed_cluster, roomy_cluster, ruled_cluster)[seed % 3](chance).snapshot()
        keys = chance.sample([HOST, ZONE, RACK], chance.randint(1, 3))
        max_skew = chance.choice([None, None, 1, 2])
        found = judged(snapshot, keys, max_skew)
        with monkeypatch.context() as patched:
            to_the_end(patched)
            assert found == judged(snapshot, keys, max_skew), f"seed {seed}"
    assert sum(restart.decided for restart in restarts) > CLUSTERS // 20
    assert sum(restart.stuck is not None for restart in restarts) > CLUSTERS // 20


def crowded(replicas: int, *, cpu: str = "1", kind: str = "Deployment") -> ClusterBuilder:
    """30 nodes in three zones, one of them full, and a workload on one node."""
    cluster = ClusterBuilder()
    for number in range(30):
        cluster.node(f"worker-{number}", labels={ZONE: "abc"[number % 3]})
    full = {"spec": {"containers": [container("4")]}}
    for number in range(2, 30, 3):
        cluster.pod(f"filler-{number}", f"worker-{number}", template=full)
    create = cluster.deployment if kind == "Deployment" else cluster.stateful_set
    create("web", ["worker-0"] * replicas, template={"spec": {"containers": [container(cpu)]}})
    return cluster


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_number_of_simulated_pods_does_not_grow_with_the_replicas(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[str] = []
    assign = ClusterState.assign

    def counted(cluster_state: ClusterState, pod: t.Any, node_name: str) -> None:
        placed.append(node_name)
        assign(cluster_state, pod, node_name)

    monkeypatch.setattr(ClusterState, "assign", counted)
    for replicas in (3, 12):
        placed.clear()
        (line,) = judged(crowded(replicas, kind=kind).snapshot(), [ZONE, HOST], None)["workloads"]
        assert line["restart_helps"] is True
        # The first simulation with scores goes to the end, also with the old pods that are terminating. The others end after a few pods.
        assert len(placed) - 2 * replicas <= 6 * MAX_DRAWS


def test_each_replica_of_a_stateful_set_needs_capacity_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node of the volume of the replica 0 is cordoned, and that volume cannot be used elsewhere."""
    cluster = ClusterBuilder()
    cluster.node("worker-1", unschedulable=True)
    for number in range(2, 10):
        cluster.node(f"worker-{number}")
    templates = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}}]
    cluster.stateful_set("db", ["worker-1"] * 3, volumeClaimTemplates=templates)
    volumes = ("here", "first", "second")
    cluster.claims.extend(claim(f"data-db-{number}", to=name, metadata={"namespace": "app"}) for number, name in enumerate(volumes))
    storage = stored(volume("here", on="worker-1"), volume("first"), volume("second"))
    snapshot = cluster.snapshot(storage=storage)
    (line,) = judged(snapshot, [HOST], None)["workloads"]
    assert line["restart_helps"] is False
    to_the_end(monkeypatch)
    assert judged(snapshot, [HOST], None)["workloads"] == [line]


def test_a_rule_of_other_pods_may_be_about_one_replica_of_a_stateful_set() -> None:
    cluster = ClusterBuilder()
    cluster.node("worker-1", unschedulable=True)
    term = {"labelSelector": {"matchLabels": {"apps.kubernetes.io/pod-index": "0"}}, "topologyKey": HOST}
    rules: Json = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    for number in range(2, 10):
        cluster.node(f"worker-{number}")
        cluster.pod(f"other-{number}", f"worker-{number}", labels={"app": "other"}, template={"spec": rules})
    cluster.stateful_set("db", ["worker-1"] * 3)
    (line,) = judged(cluster.snapshot(), [HOST], None)["workloads"]
    assert line["restart_helps"] is False


def test_a_restart_that_may_lack_capacity_is_simulated_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    restarts = played(monkeypatch)
    (line,) = judged(crowded(24, cpu="3").snapshot(), [ZONE, HOST], None)["workloads"]
    assert line["restart_helps"] is False
    assert [restart.stuck is not None for restart in restarts] == [True]


def test_of_many_domains_those_with_replicas_are_listed_and_eligible_ones_come_first() -> None:
    domains = tuple(f"worker-{number:03}" for number in range(MAX_LISTED + 1))
    placed = {"cordoned": 1, "worker-007": 2, "worker-100": 3, "zone": 1}
    distribution = Distribution(topology_key=HOST, domains=domains, placed=placed, without_domain=0, most=3, fewest=0)
    assert list(distribution.listed.items()) == [("worker-007", 2), ("worker-100", 3), ("cordoned", 1), ("zone", 1)]
