# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A simulated restart takes the same nodes as one that checks every node for every pod, with less work."""

from __future__ import annotations

import random
import typing as t
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import FilterRunner, find_feasible
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.pod_filters import PodFilters
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.draws import MAX_DRAWS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.next_pods import NextPods
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.restart_simulation import RestartSimulation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.topology import node_groups
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.topology.topology import Topology

from tests.unit.support.calls import CountedCalls
from tests.unit.support.cluster import ClusterBuilder, Json, struct

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"


class FullScan(RestartSimulation):
    """The oracle: every pod goes to the emptiest of all feasible nodes, and the next old pod is the highest of all by rank."""

    def _make_node_finder(self) -> t.Callable[[], str | None]:
        return self._find_by_full_scan

    def _find_by_full_scan(self) -> str | None:
        found = find_feasible(self._pod, self._as_new())
        if found.unknown and not self._accept_unknown:
            return None
        nodes = {*found.feasible, *(found.unknown_nodes if self._accept_unknown else ())}
        per_key = [Counter(map(self._domain_of(key), self._new)) for key in self._counts.keys]
        ranks = []
        for position, name in enumerate(self._candidates):
            if name in nodes:
                domains = [self._domain_of(key)(name) for key in self._counts.keys]
                full = [2**31 if domain is None else counts[domain] for domain, counts in zip(domains, per_key, strict=True)]
                ranks.append((*full, self._counts.per_node[name], position, name))
        return min(ranks)[-1] if ranks else None

    def _domain_of(self, key: str) -> t.Callable[[str], str | None]:
        nodes = self._snapshot.nodes
        return lambda name: nodes[name].labels.get(key) if name in nodes else None

    def _as_new(self) -> ClusterState:
        """The placement without anything that was computed before."""
        cluster_state = ClusterState.of(self._snapshot)
        for change in self._cluster_state.changes:
            if change.amount > 0:
                cluster_state.assign(change.pod, change.node_name)
            else:
                cluster_state.remove(change.pod)
        return cluster_state


def random_cluster(chance: random.Random) -> tuple[ClusterBuilder, Workload]:
    cluster = ClusterBuilder()
    count = chance.randint(2, 12)
    for number in range(count):
        labels = {ZONE: chance.choice("abc"), RACK: f"rack-{chance.randint(0, count // 2)}"}
        for key in [key for key in labels if chance.random() < 0.1]:
            del labels[key]
        options: Json = {"unschedulable": True} if chance.random() < 0.1 else {}
        cluster.node(f"worker-{number}", labels=labels, ready=chance.random() < 0.95, **options)
    names = [node.name for node in cluster.nodes]
    for number in range(chance.randint(0, count * 2)):
        labels = {"app": chance.choice(["web", "other"])}
        cluster.pod(f"filler-{number}", chance.choice(names), labels=labels, template=filler(chance))
    if chance.random() < 0.2:
        promised = {"phase": "Pending", "nominatedNodeName": chance.choice(names)}
        value = {
            "metadata": {"name": "promised", "namespace": "app", "uid": "promised"},
            "spec": filler(chance)["spec"],
            "status": promised,
        }
        cluster.pods.append(struct(Pod, value))
    homes = chance.choices(chance.sample(names, min(len(names), chance.randint(1, 2))), k=chance.randint(1, 7))
    template = {
        "spec": {**spec_of(chance), "containers": [{"name": "m", "resources": {"requests": {"cpu": chance.choice(["500m", "1", "2"])}}}]}
    }
    if chance.random() < 0.3:
        update = {"type": "RollingUpdate", "rollingUpdate": {"partition": chance.choice([0, 0, 2])}}
        return cluster, cluster.stateful_set("web", homes, template=template, updateStrategy=update)
    strategy: Json = chance.choice(
        [
            {"type": "Recreate"},
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": chance.randint(0, 2), "maxSurge": chance.randint(1, 3)}},
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}},
        ]
    )
    with_pending = [*homes, ""] if chance.random() < 0.2 else homes
    return cluster, cluster.deployment("web", with_pending, template=template, strategy=strategy)


def filler(chance: random.Random) -> Json:
    spec: Json = {"containers": [{"name": "m", "resources": {"requests": {"cpu": chance.choice(["1", "2", "4"])}}}]}
    if chance.random() < 0.2:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(chance)]}}
    return {"spec": spec}


def term(chance: random.Random) -> Json:
    selector: Json = {"labelSelector": {"matchLabels": {"app": chance.choice(["web", "other"])}}}
    if chance.random() < 0.1:
        selector["namespaceSelector"] = {"matchLabels": {"of": "nobody"}}
    return {"topologyKey": chance.choice([HOST, ZONE, RACK]), **selector}


def spec_of(chance: random.Random) -> Json:
    rules: Json = {}
    if chance.random() < 0.35:
        key, skew = chance.choice([HOST, ZONE, RACK]), chance.randint(1, 2)
        selector = {"matchLabels": {"app": chance.choice(["web", "other"])}}
        rules["topologySpreadConstraints"] = [
            {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        ]
    if chance.random() < 0.35:
        kind = chance.choice(["podAffinity", "podAntiAffinity"])
        rules["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(chance)]}}
    return rules


def placed_by(kind: type[RestartSimulation], workload: Workload, snapshot: ClusterSnapshot, keys: list[str], *, sure: bool) -> t.Any:
    candidates = tuple(name for name, node in snapshot.nodes.items() if node.ready and not node.spec.unschedulable)
    restart = kind(
        workload,
        snapshot,
        NextPods(workload, snapshot, ClusterState.of(snapshot)),
        candidates,
        Topology(snapshot.nodes),
        keys,
        max_surge=3,
        accept_unknown=not sure,
    ).run()
    stuck = restart.stuck and (set(restart.stuck.feasible), restart.stuck.rejected)
    return restart.nodes, stuck


@pytest.mark.parametrize("small", [0, 2, 16], ids="small domains have fewer than {} nodes".format)
@pytest.mark.parametrize("seed", range(150))
def test_a_simulated_restart_takes_the_nodes_that_a_check_of_every_node_takes(
    seed: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_groups, "SMALL", small)
    chance = random.Random(seed)
    cluster, workload = random_cluster(chance)
    snapshot = cluster.snapshot()
    keys = chance.sample([HOST, ZONE, RACK], chance.randint(1, 3))
    for sure in (False, True):
        expected = placed_by(FullScan, workload, snapshot, keys, sure=sure)
        assert placed_by(RestartSimulation, workload, snapshot, keys, sure=sure) == expected


def with_a_full_zone(nodes: int, **template: t.Any) -> tuple[ClusterSnapshot, Workload]:
    """Three zones of which one is full, and a Deployment of 12 pods on one node."""
    cluster = ClusterBuilder()
    for number in range(nodes):
        cluster.node(f"worker-{number}", labels={ZONE: "abc"[number % 3]}, allocatable={"cpu": "32", "memory": "64Gi", "pods": "110"})
    full = {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "32"}}}]}}
    for number in range(2, nodes, 3):
        cluster.pod(f"filler-{number}", f"worker-{number}", template=full)
    workload = cluster.deployment("web", ["worker-0"] * 12, template=template)
    return cluster.snapshot(), workload


def constraint(**more: t.Any) -> Json:
    return {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}, **more}


OWN_TERM = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [OWN_TERM]}}


@pytest.mark.parametrize("keys", [[ZONE], [ZONE, HOST], [HOST, ZONE]])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no rule"),
        pytest.param({"topologySpreadConstraints": [constraint(topologyKey=ZONE, maxSkew=9)]}, id="constraint by zone"),
        pytest.param({"affinity": APART}, id="anti-affinity by host"),
    ],
)
def test_a_full_zone_is_not_checked_again_for_every_pod(spec: Json, keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, asked = 120, CountedCalls(FilterRunner.run_filters)
    monkeypatch.setattr(FilterRunner, "run_filters", asked)
    snapshot, workload = with_a_full_zone(nodes, spec=spec)
    placed, stuck = placed_by(RestartSimulation, workload, snapshot, keys, sure=True)
    assert (len(set(placed)), stuck) == (12, None)
    # A check of every node for every pod makes 12 * 120.
    assert 0 < asked.count <= 2 * nodes


def test_workloads_that_are_alike_share_the_answers_about_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, workloads = 60, 10
    asked = CountedCalls(PodFilters.rejection)
    cluster = ClusterBuilder()
    for number in range(nodes):
        cluster.node(f"worker-{number}", labels={ZONE: "abc"[number % 3]})
    for number in range(workloads):
        cluster.deployment(f"web-{number}", [f"worker-{number}"] * 4)
    monkeypatch.setattr(PodFilters, "rejection", asked)
    report = check_spread(cluster.snapshot(), CheckOptions(topology_keys=[ZONE]))
    assert report.count("collapsed") == workloads and all(line.restartable for line in report.workloads)
    # For each workload only the nodes on which one of its simulations has changed something.
    assert 0 < asked.count <= nodes + workloads * 4 * (MAX_DRAWS + 1)


def test_the_work_of_a_rollout_grows_with_its_replicas_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = Pod.ready.fget
    assert ready is not None
    counts = []
    for replicas in (20, 40):
        asked = CountedCalls(ready)
        cluster = ClusterBuilder()
        for number in range(4):
            cluster.node(f"worker-{number}", allocatable={"cpu": "32", "memory": "64Gi", "pods": "110"})
        workload = cluster.deployment("web", ["worker-0"] * replicas)
        snapshot = cluster.snapshot()
        with monkeypatch.context() as patch:
            patch.setattr(Pod, "ready", property(asked))
            nodes, stuck = placed_by(RestartSimulation, workload, snapshot, [HOST], sure=True)
        assert (len(nodes), stuck) == (replicas, None)
        counts.append(asked.count)
    assert 0 < counts[1] <= 2.2 * counts[0]
