# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The storage of a case in the cluster. No controller runs that would bind claims or change phases: they are as the case has them."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterable
from typing import Any

from lab.api import ApiClient
from tests.integration.oracle.storage_cases import CLASSES, DRIVERS, Json, Storage

STORAGE_API = "/apis/storage.k8s.io/v1"
VOLUMES = "/api/v1/persistentvolumes"
MERGE_PATCH = "application/merge-patch+json"


class Stored:
    """Creates and clears volumes, claims and what drivers publish; ``run_all`` calls a function for each of several items."""

    def __init__(self, api: ApiClient, run_all: Callable[[Any, Iterable[Any]], list[Any]]) -> None:
        self._api = api
        self._run_all = run_all
        self._probes = 0

    @staticmethod
    def prepare(api: ApiClient) -> None:
        """The classes and drivers that all cases share."""
        for name, storage_class in CLASSES.items():
            api.post(f"{STORAGE_API}/storageclasses", {"metadata": {"name": name}, **storage_class})
        for name, tracked in DRIVERS.items():
            api.post(f"{STORAGE_API}/csidrivers", {"metadata": {"name": name}, "spec": {"storageCapacity": tracked}})

    def create(self, storage: Storage) -> None:
        """Create the storage. The objects of CSI drivers come first, because no sign shows that the scheduler has read them."""
        self._run_all(lambda item: self._request("POST", f"{STORAGE_API}/csinodes", item), storage.csi_nodes)
        path = f"{STORAGE_API}/namespaces/default/csistoragecapacities"
        self._run_all(lambda item: self._request("POST", path, item), storage.capacities)
        self._run_all(lambda item: self._request("POST", f"{STORAGE_API}/volumeattachments", item), storage.attachments)
        self._run_all(self._create_claim, storage.claims)
        self._run_all(self._create_volume, storage.volumes)

    def create_claims(self, claims: list[Json]) -> None:
        """Claims with their phase, one after the other."""
        for claim in claims:
            self._create_claim(claim)

    def probe(self) -> Json:
        """A bound claim as the volume of a pod, made after all others: who knows it knows them."""
        self._probes += 1
        name = f"probe-{self._probes}"
        volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
        self._create_volume({"metadata": {"name": name}, "spec": volume, "status": {"phase": "Bound"}})
        metadata = {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
        self._create_claim({"metadata": metadata, "spec": asked, "status": {}})
        return {"name": "probe", "persistentVolumeClaim": {"claimName": name}}

    def clear(self) -> None:
        """Remove the objects of the last case."""
        for claim in self._api.get("/api/v1/persistentvolumeclaims")["items"]:
            if claim["metadata"].get("finalizers"):
                self._request("PATCH", _path(claim), {"metadata": {"finalizers": None}})
        paths = [f"/api/v1/namespaces/{namespace}/persistentvolumeclaims" for namespace in ("default", "oracle")]
        paths += [VOLUMES, f"{STORAGE_API}/csinodes", f"{STORAGE_API}/namespaces/default/csistoragecapacities"]
        paths.append(f"{STORAGE_API}/volumeattachments")
        self._run_all(lambda path: self._request("DELETE", path), paths)

    def _create_volume(self, volume: Json) -> None:
        if self._request("POST", VOLUMES, volume) is not None:
            self._request("PATCH", f"{VOLUMES}/{volume['metadata']['name']}/status", {"status": volume["status"]})

    def _create_claim(self, claim: Json) -> None:
        path = _path(claim)
        if self._request("POST", path.rpartition("/")[0], claim) is None:
            return
        if claim["status"]:
            self._request("PATCH", f"{path}/status", {"status": claim["status"]})
        if claim["metadata"].get("finalizers"):
            # It is being deleted from now on, and stays.
            self._request("DELETE", path)

    def _request(self, method: str, path: str, body: Any = None) -> Json | None:
        """Return the response, or None for an object that the API server refuses."""
        response = self._api.request(method, path, body, content_type=MERGE_PATCH if method == "PATCH" else "application/json")
        if response.status in (http.client.UNPROCESSABLE_ENTITY, http.client.BAD_REQUEST):
            return None
        found: Json = self._api._decoded(method, path, response)
        return found


def _path(claim: Json) -> str:
    metadata = claim["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
