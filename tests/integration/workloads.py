# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads for the tests on the lab, and the steps that put all their replicas on one node."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from lab.cluster import Cluster

IMAGE = "registry.k8s.io/pause:3.10"
OUTCOME = "kube-scheduling.onprem/last-outcome"
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def deployment(namespace: str, name: str, replicas: int = 3, *, cpu: str = "100m", template: Any = None, **spec: Any) -> dict[str, Any]:
    """A Deployment of pods that ask for ``cpu``; ``template`` changes the pod spec, other keywords the Deployment's spec."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": _pod(cpu, template)},
            **spec,
        },
    }


def stateful_set(namespace: str, name: str, replicas: int = 3, *, cpu: str = "100m", template: Any = None, **spec: Any) -> dict[str, Any]:
    """A StatefulSet, otherwise as ``deployment``."""
    return {**deployment(namespace, name, replicas, cpu=cpu, template=template, serviceName=name, **spec), "kind": "StatefulSet"}


def filler(namespace: str, node: str, *, cpu: str = "7950m") -> dict[str, Any]:
    """A pod that leaves next to nothing of a worker's eight cpus."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"filler-{node}", "namespace": namespace, "labels": {"app": "filler"}},
        "spec": {**_pod(cpu, None), "nodeName": node},
    }


def budget(namespace: str, name: str, app: str, **spec: Any) -> dict[str, Any]:
    """A PodDisruptionBudget over the pods with label app."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def _pod(cpu: str, template: dict[str, Any] | None) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], "terminationGracePeriodSeconds": 0, **(template or {})}


@contextlib.contextmanager
def only_node(cluster: Cluster, node: str) -> Iterator[None]:
    """Within this block new pods find only this node open."""
    others = [name for name in workers(cluster) if name != node]
    cluster.cordon(*others)
    try:
        yield
    finally:
        cluster.uncordon(*others)


@contextlib.contextmanager
def not_ready(cluster: Cluster, node: str) -> Iterator[None]:
    """Within this block a node, which has no taints of its own, is NotReady."""
    cluster.kubectl("annotate", "node", node, "lab.onprem/ready=false")
    try:
        cluster.kubectl("wait", "--for=condition=Ready=false", f"node/{node}")
        yield
    finally:
        cluster.kubectl("annotate", "node", node, "lab.onprem/ready-")
        cluster.kubectl("wait", "--for=condition=Ready", f"node/{node}")
        # The controllers of the lab check the nodes only every few minutes (lab/kwok_config.py, HEARTBEAT_FACTOR). Until then, their taint
        # would evict the pods of later tests.
        cluster.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"taints": None}})


def pile_up(cluster: Cluster, *manifests: dict[str, Any], node: str | None = None) -> None:
    """Create workloads so that all their replicas lie on one worker (the first, unless ``node`` is given)."""
    with only_node(cluster, node or workers(cluster)[0]):
        cluster.apply(list(manifests))
        for manifest in manifests:
            if manifest["kind"] in ("Deployment", "StatefulSet"):
                wait_rolled_out(cluster, manifest)


def lay_out(cluster: Cluster, manifest: dict[str, Any], *homes: int) -> None:
    """Create a workload with so many replicas on the first worker, so many on the second, and so on."""
    resource = f"{manifest['kind'].lower()}/{manifest['metadata']['name']}"
    replicas = 0
    for node, count in zip(workers(cluster), homes, strict=False):
        if not count:
            continue
        created, replicas = replicas > 0, replicas + count
        with only_node(cluster, node):
            if created:
                cluster.kubectl("scale", resource, "-n", manifest["metadata"]["namespace"], f"--replicas={replicas}")
            else:
                cluster.apply({**manifest, "spec": {**manifest["spec"], "replicas": replicas}})
            wait_rolled_out(cluster, manifest)


def wait_rolled_out(cluster: Cluster, manifest: dict[str, Any]) -> None:
    """Wait until kubectl reports that the rollout is complete."""
    metadata = manifest["metadata"]
    cluster.kubectl("rollout", "status", f"{manifest['kind'].lower()}/{metadata['name']}", "-n", metadata["namespace"], "--timeout=180s")


def restart(cluster: Cluster, manifest: dict[str, Any]) -> None:
    """Restart it with kubectl, which refuses a second restart with the same time, in whole seconds."""
    last = restarted_at(cluster, manifest)
    if last is not None:
        since_s = datetime.fromisoformat(last).timestamp()
        wait_until(lambda: time.time() >= since_s + 1, what=f"a later second than {last}")
    metadata = manifest["metadata"]
    cluster.kubectl("rollout", "restart", f"{manifest['kind'].lower()}/{metadata['name']}", "-n", metadata["namespace"])


def workers(cluster: Cluster) -> list[str]:
    """Names of the workers."""
    names = (node["metadata"]["name"] for node in cluster.get("/api/v1/nodes")["items"])
    return sorted(name for name in names if name.startswith("worker"))


def read(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    """The workload as the API server has it."""
    metadata = manifest["metadata"]
    return cluster.get(f"/apis/apps/v1/namespaces/{metadata['namespace']}/{manifest['kind'].lower()}s/{metadata['name']}")


def outcome(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any] | None:
    """Return the outcome that is stored on the workload."""
    text = (read(cluster, manifest)["metadata"].get("annotations") or {}).get(OUTCOME)
    return None if text is None else json.loads(text)


def known_outcome(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    """As ``outcome``, of a workload on which something must be remembered."""
    found = outcome(cluster, manifest)
    assert found is not None, f"nothing is remembered on {manifest['metadata']['name']}"
    return found


def restarted_at(cluster: Cluster, manifest: dict[str, Any]) -> str | None:
    """Return the time of the workload's last restart."""
    annotations = read(cluster, manifest)["spec"]["template"]["metadata"].get("annotations") or {}
    value: str | None = annotations.get(RESTARTED_AT)
    return value


def pods_of(cluster: Cluster, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The workload's pods as the API server has them."""
    metadata = manifest["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods?labelSelector=app%3D{metadata['name']}"
    items: list[dict[str, Any]] = cluster.get(path)["items"]
    return items


def pod_uids(cluster: Cluster, manifest: dict[str, Any]) -> set[str]:
    """UIDs of the workload's pods: the same ones mean that nothing was restarted."""
    return {pod["metadata"]["uid"] for pod in pods_of(cluster, manifest)}


def identity(manifest: dict[str, Any]) -> dict[str, str]:
    """Return the options of k8s_rollout_restart that name the workload."""
    return {"kind": manifest["kind"], "namespace": manifest["metadata"]["namespace"], "name": manifest["metadata"]["name"]}


def wait_until(condition: Any, *, timeout_s: float = 120, what: str | Callable[[], str] = "the condition") -> None:
    """Poll until ``condition()`` holds. ``what``: a text for the error, or a function that returns it, with a log as it is then."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what() if callable(what) else what} did not come true in {timeout_s} s"
        time.sleep(0.1)
