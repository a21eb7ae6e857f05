# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A big cluster for measurements: Deployments whose pods are already bound, stored as their controllers would have left them."""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from lab import etcd_bulk_load
from lab.cluster import Cluster, up
from lab.errors import LabError
from tests.bench import pod_variants
from tests.bench.pod_variants import CLAIM, PodVariant

NAME = "bench"
NODES = 5_000
NAMESPACES = 50
REPLICAS = 20
START_TIMEOUT_S = 300.0
COLLAPSED_EVERY = 101
"""One Deployment in so many is piled up on one node; the number shares no divisor with the variants' cycle, so that all of them are met."""


def start(folder: Path, *, pods: int) -> Cluster:
    """5,000 nodes and ``pods`` pods in Deployments of 20, without the programs that would move or change them."""
    cluster = up(folder, NAME, scenario="big", log=print)
    # The API server as well: it reads everything at its start in a fraction of the time that it needs to follow single changes.
    for component in ("kube-scheduler", "kube-controller-manager", "kwok-controller", "kube-apiserver"):
        cluster.kill(component)
    print(f"storing {pods} pods", flush=True)
    cluster.bulk_load(_objects(pods // REPLICAS))
    cluster.start("kube-apiserver", timeout_s=START_TIMEOUT_S)
    wait_until_listed(cluster, pods)
    return cluster


def stir(cluster: Cluster) -> None:
    """Change one pod and one node, as in any living cluster: where nothing happens for minutes, pages of lists come from etcd."""
    for resource in ("nodes", "pods"):
        (item,) = cluster.get(f"/api/v1/{resource}?limit=1")["items"]
        metadata = item["metadata"]
        place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
        patch = {"metadata": {"annotations": {"bench/stirred": str(time.time_ns())}}}
        cluster.api.merge_patch(f"/api/v1/{place}{resource}/{metadata['name']}", patch)


def wait_until_listed(cluster: Cluster, pods: int) -> None:
    """The API server needs a while to take so many objects into its cache; until then its lists time out."""
    deadline = time.monotonic() + START_TIMEOUT_S
    api = cluster.api
    while time.monotonic() < deadline:
        with contextlib.suppress(LabError):
            page = api.get("/api/v1/pods?limit=1")
            # The first whole list may still run into the server's own time limit.
            everything = 1 + page["metadata"].get("remainingItemCount", 0) >= pods
            if everything and api.request("GET", "/api/v1/pods").status == HTTPStatus.OK:
                return
        time.sleep(1)
    raise SystemExit(f"the API server does not list {pods} pods after {START_TIMEOUT_S:.0f} s")


def _objects(deployments: int) -> Iterator[dict[str, Any]]:
    for index in range(NAMESPACES):
        metadata = {"name": f"team-{index}", "annotations": {"kube-scheduling.onprem/spread": "allow"}}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": {"phase": "Active"}}
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "shared"},
        "provisioner": "shared.csi.example",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
    for index in range(deployments):
        yield from _deployment(index)


def _deployment(index: int) -> Iterator[dict[str, Any]]:
    variant = pod_variants.of_deployment(index)
    namespace, name, pod_hash = f"team-{index % NAMESPACES}", f"app-{index}", f"{index:08x}f"
    if variant is CLAIM:
        yield from pod_variants.claim_objects(namespace, name)
    neighbour = f"app-{index - NAMESPACES if index >= NAMESPACES else index + NAMESPACES}"
    pod_spec = pod_spec_of(name)
    rules = variant.rules(name, neighbour)
    pod_spec |= {**rules, "volumes": [*pod_spec["volumes"], *rules.get("volumes", ())]}
    yield from deployment_objects(namespace, name, pod_hash, pod_spec, _homes(index, variant))


def deployment_objects(namespace: str, name: str, pod_hash: str, pod_spec: dict[str, Any], homes: list[str]) -> Iterator[dict[str, Any]]:
    """A Deployment with its ReplicaSet, and a ready pod on each of ``homes``."""
    replicas = len(homes)
    uids = {kind: str(uuid.uuid4()) for kind in ("Deployment", "ReplicaSet")}
    labels = {"app": name, "app.kubernetes.io/managed-by": "helm", "tier": "backend"}
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec},
    }
    revision = {"deployment.kubernetes.io/revision": "1"}
    api = {"apiVersion": "apps/v1"}
    metadata = {"name": name, "namespace": namespace, "uid": uids["Deployment"], "generation": 1, "labels": labels, "annotations": revision}
    yield {**api, "kind": "Deployment", "metadata": metadata, "spec": spec, "status": {"observedGeneration": 1, **counts}}
    yield {
        **api,
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-{pod_hash}",
            "namespace": namespace,
            "uid": uids["ReplicaSet"],
            "labels": {**labels, "pod-template-hash": pod_hash},
            "annotations": revision,
            "ownerReferences": [_owner("Deployment", name, uids["Deployment"])],
        },
        "spec": spec,
        "status": {"observedGeneration": 1, "replicas": replicas},
    }
    template = {
        "metadata": {
            "namespace": namespace,
            "labels": {**labels, "pod-template-hash": pod_hash},
            "ownerReferences": [_owner("ReplicaSet", f"{name}-{pod_hash}", uids["ReplicaSet"])],
            "managedFields": _managed_fields(),
        },
        "spec": pod_spec,
    }
    names = (f"{name}-{pod_hash}-{replica}" for replica in range(replicas))
    yield from etcd_bulk_load.pods_running(template, zip(names, homes, strict=True))


def _homes(index: int, variant: PodVariant) -> list[str]:
    """The nodes of the replicas, which keep to the variant's rules unless they are piled up."""
    if index % COLLAPSED_EVERY == 0:
        return [_worker(index * 7)] * REPLICAS
    return [_worker(index * REPLICAS + replica * variant.step) for replica in range(REPLICAS)]


def _worker(position: int) -> str:
    return f"worker-{position % NODES + 1}"


def _owner(kind: str, name: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}


def pod_spec_of(name: str) -> dict[str, Any]:
    """About as much as a pod of a usual chart has: environment, probes, mounts, tolerations."""
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 1,
        "failureThreshold": 3,
    }
    container = {
        "name": "main",
        "image": f"registry.example/{name}:1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(10)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    return {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": tolerations,
        "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [token]}}],
    }


def _managed_fields() -> list[dict[str, Any]]:
    """As large as the entries of a controller and a kubelet, which every real list carries."""
    fields: dict[str, Any] = {f"f:field-{number}": {"f:inner": {}, "f:other": {".": {}, "f:leaf": {}}} for number in range(16)}
    entry = {
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": fields},
        "operation": "Update",
        "time": "2026-01-01T00:00:00Z",
    }
    return [{**entry, "manager": "kube-controller-manager"}, {**entry, "manager": "kubelet", "subresource": "status"}]


if __name__ == "__main__":
    start(Path(sys.argv[1]), pods=int(sys.argv[2]))
