# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small valid objects of every kind that is read, each with one more field that is null or empty."""

from __future__ import annotations

import copy
import random
from typing import Any, NamedTuple

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import Resource

from lab.api import ApiClient, Response
from tests.integration.undecodable.openapi import Schemas
from tests.integration.workloads import IMAGE

Json = dict[str, Any]

POD: Json = {"schedulerName": "nobody", "containers": [{"name": "main", "image": IMAGE}]}
_LABELS = {"app": "odd"}
_WORKLOAD: Json = {
    "replicas": 0,
    "selector": {"matchLabels": _LABELS},
    "template": {"metadata": {"labels": _LABELS}, "spec": {"containers": POD["containers"]}},
}
_CLAIM: Json = {"accessModes": ["ReadWriteOnce"], "storageClassName": "nobody", "resources": {"requests": {"storage": "1Gi"}}}
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody"}
_FINISHING: Json = {"restartPolicy": "Never", "containers": POD["containers"]}

BASES: dict[str, Json] = {
    "Node": {"spec": {"unschedulable": True}},
    "Pod": {"spec": POD},
    "Namespace": {},
    "Service": {"spec": {"clusterIP": "None", "selector": {"app": "nobody"}}},
    "ResourceQuota": {"spec": {"hard": {"count/secrets": "100"}}},
    "PersistentVolumeClaim": {"spec": _CLAIM},
    "LimitRange": {"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "100Ti"}}]}},
    "Deployment": {"spec": _WORKLOAD},
    "StatefulSet": {"spec": {**_WORKLOAD, "serviceName": "odd"}},
    "ReplicaSet": {"spec": _WORKLOAD},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "nobody"}}}},
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 3, "scaleTargetRef": _TARGET}},
    "PersistentVolume": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "storageClassName": "nobody"}
    },
    "StorageClass": {"provisioner": "example.com/nobody"},
    "CSINode": {"spec": {"drivers": []}},
    "CSIDriver": {"spec": {}},
    "CSIStorageCapacity": {"storageClassName": "nobody"},
    "VolumeAttachment": {"spec": {"attacher": "nobody", "nodeName": "nobody", "source": {"persistentVolumeName": "nobody"}}},
    "DeviceClass": {"spec": {}},
    "Event": {"involvedObject": {"kind": "Pod", "name": "nobody"}, "reason": "Odd", "message": "odd"},
    "ConfigMap": {},
    "Lease": {"spec": {}},
    "Job": {"spec": {"suspend": True, "template": {"spec": _FINISHING}}},
}


class RescueTask(NamedTuple):
    """An object to create, by its collection's path; ``namespace`` is empty for one of the whole cluster."""

    path: str
    namespace: str
    name: str
    body: Json


class Admissible:
    """Makes cases, and creates and deletes them as an administrator."""

    def __init__(self, api: ApiClient, schemas: Schemas, namespace: str) -> None:
        self._api, self._schemas, self._namespace = api, schemas, namespace
        self._paths: dict[str, list[tuple[tuple[str, ...], Json]]] = {}

    def case(self, resource: Resource, seed: int) -> RescueTask:
        """The case of the seed."""
        chance = random.Random(seed)
        body = copy.deepcopy(BASES[resource.kind])
        for _number in range(chance.randint(1, 3)):
            path, schema = chance.choice(self._fields(resource))
            self._put(body, path, None if chance.random() < 0.5 else self._schemas.empty(schema))
        # The resources of the storage groups say nothing of what has no namespace: the server's documents do.
        namespaced = resource.namespaced and resource.kind not in _OF_THE_CLUSTER
        name = f"odd-{seed}"
        body["metadata"] = {**(body.get("metadata") or {}), "name": name}
        if resource.kind == "Event":
            body["involvedObject"] = {**(body.get("involvedObject") or {}), "namespace": self._namespace}
        namespace = self._namespace if namespaced else ""
        return RescueTask(resource.path(namespace), namespace, name, body)

    def create(self, case: RescueTask, *, dry_run: bool) -> Response:
        """The server's answer, whatever it is."""
        query = "?fieldValidation=Ignore" + ("&dryRun=All" if dry_run else "")
        return self._api.request("POST", case.path + query, case.body)

    def delete(self, case: RescueTask) -> None:
        self._api.request("DELETE", f"{case.path}/{case.name}", {"gracePeriodSeconds": 0})

    def _fields(self, resource: Resource) -> list[tuple[tuple[str, ...], Json]]:
        """The fields of the resource's objects that a user may set."""
        if resource.kind not in self._paths:
            found = self._schemas.paths(self._schemas.of(resource))
            self._paths[resource.kind] = [entry for entry in found if entry[0][0] not in ("apiVersion", "kind", "metadata")] + [
                (("metadata", name), {"type": "object"}) for name in ("labels", "annotations", "ownerReferences", "finalizers")
            ]
        return self._paths[resource.kind]

    @staticmethod
    def _put(body: Json, path: tuple[str, ...], value: Any) -> None:
        """Set the field; objects on the way to it are made where there are none."""
        place: Any = body
        for key, following in zip(path, (*path[1:], ""), strict=True):
            index: Any = 0 if key == "[]" else key
            if not following:
                break
            child = place[index] if isinstance(place, list) else place.get(index)
            if not isinstance(child, list if following == "[]" else dict) or not (child or following != "[]"):
                child = [{}] if following == "[]" else {}
            place[index] = child
            place = child
        place[index] = value


_OF_THE_CLUSTER = ("PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment")
