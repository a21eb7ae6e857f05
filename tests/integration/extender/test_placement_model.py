# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model of the stock scores in the simulation of placements gives the points that the real kube-scheduler logs."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from lab.second_scheduler import SecondScheduler, second_scheduler
from tests.integration.kubernetes_version import needs_kubernetes
from tests.integration.workloads import IMAGE, wait_until
from tests.soak.placement.stock_scores import BALANCED, FIT, SPREAD, StockScores

Json = dict[str, Any]

PROFILE = "placement-model"
ZONE = "topology.kubernetes.io/zone"
MI = 1 << 20
WORKLOADS = {"web": (250, 256 * MI), "memory": (100, 3000 * MI), "cpu": (700, 64 * MI)}
"""The requests of a replica: millicores and bytes."""
REPLICAS = 8
LINE = re.compile(r'"Plugin scored node for pod" pod="([^"]+)" plugin="(\w+)" node="([^"]+)" score=(-?\d+)')


def test_the_points_are_those_of_the_real_scheduler(lab_cluster: Cluster, namespaces: NamespaceFactory, tmp_path: Path) -> None:
    needs_kubernetes("1.36", "the formula of NodeResourcesBalancedAllocation in the model")
    namespace = namespaces("placement-model")
    nodes = {item["metadata"]["name"]: item for item in lab_cluster.get("/api/v1/nodes")["items"]}
    workers = sorted(name for name in nodes if name.startswith("worker"))
    assert not [pod for pod in lab_cluster.get("/api/v1/pods")["items"] if pod["spec"].get("nodeName") in workers]
    allocatable = [amounts(nodes[name]["status"]["allocatable"]) for name in workers]
    model = StockScores(allocatable, [(0, 0)] * len(workers), [nodes[name]["metadata"]["labels"][ZONE] for name in workers])
    configuration = {"profiles": [{"schedulerName": PROFILE}]}
    with second_scheduler(lab_cluster, configuration, tmp_path, flags=("-v=10",)) as scheduler:
        for name in WORKLOADS:
            lab_cluster.api.post(f"/apis/apps/v1/namespaces/{namespace}/replicasets", replica_set(name))
        names = bind_in_turn(lab_cluster, namespace, scheduler)
    compared = 0
    for name, node in names:
        workload = name.rsplit("-", 1)[0]
        real = logged(scheduler.log)[f"{namespace}/{name}"]
        for plugin, points in model.scores(workload, WORKLOADS[workload], np.arange(len(workers))).items():
            assert [real[plugin][worker] for worker in workers] == points.tolist(), (name, plugin)
            compared += 1
        others = {plugin: set(by_node.values()) for plugin, by_node in real.items() if plugin not in (FIT, BALANCED, SPREAD)}
        assert all(len(points) == 1 for points in others.values()), others
        total = {worker: sum(by_node[worker] for by_node in real.values()) for worker in workers}
        assert total[node] == max(total.values()), "the scheduler chooses a node with the most points"
        model.bind(workload, WORKLOADS[workload], workers.index(node))
    assert compared == 3 * len(WORKLOADS) * REPLICAS


def bind_in_turn(cluster: Cluster, namespace: str, scheduler: SecondScheduler) -> list[tuple[str, str]]:
    """Scale the workloads one replica at a time, and return each pod with its node, in their order."""
    path, known = f"/api/v1/namespaces/{namespace}/pods", set[str]()
    found = []

    def bound() -> list[Json]:
        return [pod for pod in cluster.get(path)["items"] if pod["spec"].get("nodeName") and pod["metadata"]["name"] not in known]

    for replicas, name in itertools.product(range(1, REPLICAS + 1), WORKLOADS):
        cluster.api.merge_patch(f"/apis/apps/v1/namespaces/{namespace}/replicasets/{name}", {"spec": {"replicas": replicas}})
        wait_until(bound, what=f"a further bound pod of {name}")
        (pod,) = bound()
        known.add(pod["metadata"]["name"])
        found.append((pod["metadata"]["name"], pod["spec"]["nodeName"]))
    assert scheduler.is_running()
    return found


def logged(log: str) -> dict[str, dict[str, dict[str, int]]]:
    """Return the points by pod, plugin and node."""
    found: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for pod, plugin, node, score in LINE.findall(log):
        found[pod][plugin][node] = int(score)
    return found


def amounts(allocatable: Json) -> tuple[int, int]:
    """Return the CPU in millicores and the memory in bytes."""
    return int(allocatable["cpu"]) * 1000, int(allocatable["memory"].removesuffix("Gi")) << 30


def replica_set(name: str) -> Json:
    cpu, memory = WORKLOADS[name]
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": f"{cpu}m", "memory": str(memory)}}}
    spec = {"schedulerName": PROFILE, "containers": [container], "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template}}
