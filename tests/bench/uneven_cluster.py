# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster on which a check has much to do: one of three zones is full, and 1,000 piled-up Deployments are in one namespace.

The Deployments come in two halves, so that the cost of both sizes can be compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab import etcd_bulk_load
from lab.cluster import Cluster, up
from tests.bench.big_cluster import deployment_objects, pod_spec_of, wait_until_listed

NAME = "uneven"
NAMESPACE = "crowd"
NODES, ZONES = 5_000, 3
DEPLOYMENTS = 1_000
REPLICAS = 18
PODS = 20_000
FILLED = range(ZONES - 1, NODES, ZONES)
"""The positions of the nodes of the last zone, each of which a pod fills."""
START_TIMEOUT_S = 300.0


def start(folder: Path) -> Cluster:
    """The cluster with the first half of the Deployments, without the programs that would move or change them."""
    cluster = up(folder, NAME, scenario=Path(__file__).with_name("three-zones.yaml"), log=print)
    for component in ("kube-scheduler", "kube-controller-manager", "kwok-controller"):
        cluster.kill(component)
    _store(cluster, [*_others(), *_deployments(range(DEPLOYMENTS // 2))], pods=PODS - DEPLOYMENTS // 2 * REPLICAS)
    return cluster


def complete(cluster: Cluster) -> None:
    """Add the second half."""
    _store(cluster, _deployments(range(DEPLOYMENTS // 2, DEPLOYMENTS)), pods=PODS)


def _store(cluster: Cluster, objects: Any, *, pods: int) -> None:
    # The API server reads everything at its start in a fraction of the time that it needs to follow single changes.
    cluster.kill("kube-apiserver")
    cluster.bulk_load(objects)
    cluster.start("kube-apiserver", timeout_s=START_TIMEOUT_S)
    wait_until_listed(cluster, pods)


def _others() -> Iterator[dict[str, Any]]:
    """The namespaces, the pods that fill a zone, and further pods up to PODS."""
    for name in (NAMESPACE, "fillers"):
        metadata = {"name": name, "annotations": {"kube-scheduling.onprem/spread": "allow"}}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": {"phase": "Active"}}
    spec = pod_spec_of("filler")
    full = {**spec, "containers": [{**spec["containers"][0], "resources": {"requests": {"cpu": "31950m", "memory": "128Mi"}}}]}
    yield from etcd_bulk_load.pods_running(_template("filler", full), ((f"filler-{position}", _worker(position)) for position in FILLED))
    further = range(PODS - DEPLOYMENTS * REPLICAS - len(FILLED))
    yield from etcd_bulk_load.pods_running(
        _template("further", spec), ((f"further-{number}", _worker(number * ZONES)) for number in further)
    )


def _template(app: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"namespace": "fillers", "labels": {"app": app}}, "spec": spec}


def _deployments(numbers: range) -> Iterator[dict[str, Any]]:
    for number in numbers:
        name = f"app-{number}"
        # All replicas on one node of a zone that is not full.
        home = _worker(number * 7 // ZONES * ZONES)
        yield from deployment_objects(NAMESPACE, name, f"{number:08x}f", pod_spec_of(name), [home] * REPLICAS)
        yield _budget(name)


def _budget(name: str) -> dict[str, Any]:
    healthy = {"currentHealthy": REPLICAS, "desiredHealthy": REPLICAS - 5, "disruptionsAllowed": 5, "expectedPods": REPLICAS}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE, "generation": 1},
        "spec": {"maxUnavailable": 5, "selector": {"matchLabels": {"app": name, "tier": "backend"}}},
        "status": {"observedGeneration": 1, **healthy},
    }


def _worker(position: int) -> str:
    return f"worker-{position % NODES + 1}"


if __name__ == "__main__":
    job, folder = sys.argv[1], Path(sys.argv[2])
    if job == "start":
        start(folder)
    else:
        complete(Cluster.at(folder, NAME))
