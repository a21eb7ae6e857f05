# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes the objects of random clusters, several requests at a time."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

from lab.api import ApiClient
from lab.cluster import Cluster

Json = dict[str, Any]

BARRIER = "barrier"
"""One additional node: when the scheduler has read its newest label, it has read all nodes."""
ROUND_LABEL = "oracle/round"
MERGE_PATCH = "application/merge-patch+json"
# They would change nodes and pods of a case.
STOPPED = ("kube-controller-manager", "kube-scheduler", "kwok-controller")
_PARALLEL_REQUESTS = 4
_TIMEOUT_S = 120.0
_POLL_S = 0.05


@dataclass(frozen=True)
class Existing:
    """A pod on a node. ``status`` is patched after its creation."""

    manifest: Json
    status: Json | None
    terminating: bool


class ClusterWriter:
    """Sends requests to the API server of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._api: ApiClient = cluster.api
        self._pool = ThreadPoolExecutor(_PARALLEL_REQUESTS)
        self._round = 0
        self._owners: dict[tuple[str, str, str], str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._pool.shutdown()

    def _add_namespaces(self, namespaces: dict[str, Json], runtime_classes: dict[str, Json]) -> None:
        """Create the namespaces with these labels, and the RuntimeClasses with these overheads."""
        for name, labels in namespaces.items():
            if name != "default":
                self._api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
                self._cluster.wait_namespace(name)
        for name, overhead in runtime_classes.items():
            runtime_class = {"metadata": {"name": name}, "handler": name, "overhead": {"podFixed": overhead}}
            self._api.post("/apis/node.k8s.io/v1/runtimeclasses", runtime_class)

    def _isolate(self) -> None:
        """Create the barrier, and stop all components except the API server."""
        self._api.post("/api/v1/nodes", {"metadata": {"name": BARRIER}, "status": {"allocatable": {"pods": "1000"}}})
        for component in STOPPED:
            self._cluster.kill(component)

    def _add_owners(self, namespaces: Iterable[str], owners: dict[tuple[str, str], Json]) -> None:
        """Create controllers without replicas by kind and name, with the labels that each selects, in each namespace."""
        for namespace in namespaces:
            for (kind, name), labels in owners.items():
                template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
                owner = {"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}}
                created = self._api.post(f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s", owner)
                self._owners[namespace, kind, name] = created["metadata"]["uid"]

    def _all(self, call: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return list(self._pool.map(call, items))

    def _clear_pods_and_nodes(self, namespaces: Iterable[str]) -> None:
        paths = [f"/api/v1/namespaces/{namespace}/pods" for namespace in namespaces]
        paths.append(f"/api/v1/nodes?fieldSelector=metadata.name!={BARRIER}")
        self._all(lambda path: self._request("DELETE", path, {"gracePeriodSeconds": 0}), paths)

    def _create_pod(self, manifest: Json, name: str) -> Json | None:
        """Create a pod of this round. Return None if the API server refuses it."""
        metadata = manifest["metadata"]
        for owner in metadata.get("ownerReferences", ()):
            owner["uid"] = self._owners.get((metadata["namespace"], owner["kind"], owner["name"]), "unknown")
        named = {**manifest, "metadata": {**metadata, "name": f"{name}-{self._round}"}}
        return self._request("POST", f"/api/v1/namespaces/{metadata['namespace']}/pods", named, may_refuse=True)

    def _create_existing(self, numbered: tuple[int, Existing]) -> Json | None:
        number, existing = numbered
        created = self._create_pod(existing.manifest, f"running-{number}")
        if created is None:
            return None
        if existing.status is not None:
            status = {"status": existing.status}
            self._request("PATCH", f"{pod_path(created)}/status", status, content_type=MERGE_PATCH, may_refuse=True)
        if existing.terminating:
            self._request("DELETE", pod_path(created), {"gracePeriodSeconds": 600})
        return created

    def _label_nodes(self, names: Iterable[str], value: str | None) -> None:
        labels = {"metadata": {"labels": {ROUND_LABEL: value}}}
        self._all(lambda name: self._request("PATCH", f"/api/v1/nodes/{name}", labels, content_type=MERGE_PATCH), names)

    def _wait_until_seen(self, node_name: str, **pod_fields: Any) -> None:
        """Label the node, and wait until the scheduler finds it for a pod that only fits there. The pod has these fields in its spec."""
        value = f"last-{self._round}"
        self._label_nodes([node_name], value)
        spec = {
            "nodeSelector": {ROUND_LABEL: value},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "none"}],
            **pod_fields,
        }
        probe = self._create_pod({"metadata": {"namespace": "default"}, "spec": spec}, "probe")
        assert probe is not None
        self._wait(lambda: self._has_node(probe), "the scheduler has not seen the nodes")
        self._request("DELETE", pod_path(probe), {"gracePeriodSeconds": 0})

    def _has_node(self, pod: Json) -> bool:
        """Return whether the scheduler has found a node for the pod."""
        return bool(self._api.get(pod_path(pod))["spec"].get("nodeName"))

    def _wait(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{problem} after {_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)

    def _request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", may_refuse: bool = False
    ) -> Json | None:
        """Return the response, or None for an object that the API server refuses, if a refusal is allowed."""
        response = self._api.request(method, path, body, content_type=content_type)
        if may_refuse and response.status in (http.client.UNPROCESSABLE_ENTITY, http.client.BAD_REQUEST):
            return None
        return self._api._decoded(method, path, response)


def pod_path(pod: Json) -> str:
    """Return the path of the pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
