# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An API server in memory, for changes between two requests, which the lab cannot produce on demand."""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConflictError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import WORKLOADS, Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json

from tests.unit.support.cluster_builder import ClusterBuilder

Json = dict[str, t.Any]
Meddler = t.Callable[[Json], None]


class FakeApi(KubeApi):
    """A ``KubeApi`` without a server, on the objects of a ClusterBuilder and the clock ``now``.

    ``meddlers`` change the object just before the next patches, one each, so that these meet a conflict. Patches that got through are
    kept in ``patches``, the names of listed resources in ``listed``. ``answers_lost``: what meets a conflict had been sent before.
    """

    def __init__(self, cluster: ClusterBuilder, *, now: float, meddlers: t.Sequence[Meddler] = (), answers_lost: bool = False) -> None:
        self._cluster = cluster
        self._now = now
        self._meddlers = list(meddlers)
        self._answers_lost = answers_lost
        self._objects = {
            (workload.kind, workload.metadata.name): json.loads(encode_json(workload))
            for workload in (*cluster.deployments, *cluster.stateful_sets)
        }
        self.patches: list[Json] = []
        self.tried = 0
        self.listed: list[str] = []

    def now_s(self) -> float:
        return self._now

    def list_all(self, resource: Resource, *, namespace: str = "", label_selector: str = "", **_how: t.Any) -> list[t.Any]:
        self.listed.append(resource.plural)
        collections: dict[str, list[t.Any]] = {
            "nodes": self._cluster.nodes,
            "pods": self._cluster.pods,
            "namespaces": self._cluster.namespaces,
            "replicasets": self._cluster.replica_sets,
            "poddisruptionbudgets": self._cluster.budgets,
        }
        if resource in WORKLOADS.values():
            return [self._struct(resource, name) for kind, name in self._objects if kind == resource.kind]
        return list(collections.get(resource.plural, ()))

    def get(self, resource: Resource, namespace: str, name: str) -> t.Any:
        return self._struct(resource, name)

    def get_bytes(self, resource: Resource, namespace: str, name: str) -> bytes:
        return json.dumps(self._objects[resource.kind, name]).encode()

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Json, *, dry_run: bool = False) -> t.Any:
        self.tried += 1
        kept = self._objects[resource.kind, name]
        if self._meddlers:
            self._meddlers.pop(0)(kept)
            kept["metadata"]["resourceVersion"] = f"{self.tried}"
        if patch["metadata"].get("resourceVersion", "") != kept["metadata"].get("resourceVersion", ""):
            conflict = ConflictError(f"cannot patch {name}", status=409)
            conflict.repeated = self._answers_lost
            raise conflict
        self.patches.append(patch)
        changed = _merged(kept, patch)
        if not dry_run:
            self._objects[resource.kind, name] = changed
        return resource.decode(json.dumps(changed).encode())

    def create_event(self, namespace: str, event: Json) -> None:
        pass

    def _struct(self, resource: Resource, name: str) -> t.Any:
        return resource.decode(json.dumps(self._objects[resource.kind, name]).encode())


def _merged(target: Json, patch: Json) -> Json:
    """RFC 7386."""
    result = copy.deepcopy(target)
    for key, value in patch.items():
        result[key] = _merged(result.get(key) or {}, value) if isinstance(value, dict) else value
    return {key: value for key, value in result.items() if value is not None}
