# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes the objects of random clusters, several requests at a time."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


class ClusterWriter:
    """Sends requests to the API server of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._api: ApiClient = cluster.api
        self._pool = ThreadPoolExecutor(_PARALLEL_REQUESTS)

    @staticmethod
    def add_namespaces(cluster: Cluster, namespaces: dict[str, Json], runtime_classes: dict[str, Json]) -> None:
        """Create the namespaces with these labels, and the RuntimeClasses with these overheads."""
        for name, labels in namespaces.items():
            if name != "default":
                cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
                cluster.wait_namespace(name)
        for name, overhead in runtime_classes.items():
            runtime_class = {"metadata": {"name": name}, "handler": name, "overhead": {"podFixed": overhead}}
            cluster.api.post("/apis/node.k8s.io/v1/runtimeclasses", runtime_class)

    @staticmethod
    def isolate(cluster: Cluster) -> None:
        """Create the barrier, and stop all components except the API server."""
        cluster.api.post("/api/v1/nodes", {"metadata": {"name": BARRIER}, "status": {"allocatable": {"pods": "1000"}}})
        for component in STOPPED:
            cluster.kill(component)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _all(self, call: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return list(self._pool.map(call, items))

    def _clear_pods_and_nodes(self, namespaces: Iterable[str]) -> None:
        paths = [f"/api/v1/namespaces/{namespace}/pods" for namespace in namespaces]
        paths.append(f"/api/v1/nodes?fieldSelector=metadata.name!={BARRIER}")
        self._all(lambda path: self._request("DELETE", path, {"gracePeriodSeconds": 0}), paths)

    def _label_node(self, name: str, label: Json) -> None:
        self._request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": label}}, content_type=MERGE_PATCH)

    def _request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", may_refuse: bool = False
    ) -> Json | None:
        """Return the response, or None for an object that the API server refuses, if a refusal is allowed."""
        response = self._api.request(method, path, body, content_type=content_type)
        if may_refuse and response.status in (http.client.UNPROCESSABLE_ENTITY, http.client.BAD_REQUEST):
            return None
        return self._api._decoded(method, path, response)


def owners_path(namespace: str, kind: str) -> str:
    """Return the path of the controllers of a kind."""
    return f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s"
