# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes, pods, claims and budgets, written as the API would send them, and decoded."""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Sequence

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.policy import PodDisruptionBudget
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageClass,
    VolumeAttachment,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Job
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time

Json = dict[str, t.Any]

NOW = 1_767_225_600.0
"""2026-01-01T00:00:00Z: the time of the reading of snapshots."""


CAPACITY = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"}


_NUMBERS = itertools.count()


def node(name: str = "node-1", **more: t.Any) -> Node:
    """A node with 4 cpu, 8Gi and 110 pods, from the document of ``node_json``."""
    return decode_json(Node, encode_json(node_json(name, **more)))


def node_json(
    name: str = "node-1",
    *,
    labels: Json | None = None,
    taints: list[Json] | None = None,
    cordoned: bool = False,
    ready: bool = True,
    allocatable: Json | None = None,
    features: list[str] | None = None,
    annotations: Json | None = None,
    uid: str = "",
) -> Json:
    """The document of a node. Fields without a value are absent."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": _given(name=name, uid=uid or None, labels=labels, annotations=annotations),
        "spec": _given(unschedulable=cordoned or None, taints=taints),
        "status": _given(allocatable={**CAPACITY, **(allocatable or {})}, conditions=conditions, declaredFeatures=features),
    }


def small_node(name: str, **more: t.Any) -> Node:
    """A node with 1 cpu and 10 pods, and the label of its host."""
    return decode_json(Node, encode_json(small_node_json(name, **more)))


def small_node_json(name: str, *, cpu: str = "1", **more: t.Any) -> Json:
    """The document of a node with 1 cpu and 10 pods, and the label of its host."""
    return node_json(name, labels={"kubernetes.io/hostname": name}, allocatable={"cpu": cpu, "pods": "10"}, **more)


def _given(**fields: t.Any) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def container(requests: Json | None = None, *, limits: Json | None = None, ports: list[Json] | None = None, **more: t.Any) -> Json:
    """A container; its name is new unless given."""
    return {"name": f"c-{next(_NUMBERS)}", "resources": {"requests": requests, "limits": limits}, "ports": ports, **more}


def sidecar(requests: Json | None = None, **more: t.Any) -> Json:
    """A restartable init container."""
    return container(requests, restartPolicy="Always", **more)


def pod(
    requests: Json | None = None,
    *,
    on: str = "",
    labels: Json | None = None,
    namespace: str = "default",
    status: Json | None = None,
    **spec: t.Any,
) -> Pod:
    """A pod of one container, or of those in ``containers``; ``on`` is its node, other keywords go into its spec."""
    number = next(_NUMBERS)
    metadata = {"name": f"pod-{number}", "namespace": namespace, "uid": f"uid-{number}", "labels": labels}
    spec = {"nodeName": on, "priority": 0, "containers": [container(requests)], **spec}
    return decode_json(
        Pod, encode_json({"metadata": metadata, "spec": spec, "status": status or {"phase": "Running" if on else "Pending"}})
    )


def node_affinity(*terms: Json) -> Json:
    """Required node affinity."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def affinity_term(match_labels: Json, topology_key: str = "kubernetes.io/hostname", **term: t.Any) -> Json:
    """A term of pod affinity or anti-affinity."""
    return {"labelSelector": {"matchLabels": match_labels}, "topologyKey": topology_key, **term}


def anti_affinity(match_labels: Json, topology_key: str = "kubernetes.io/hostname", **term: t.Any) -> Json:
    """Required pod anti-affinity with one term."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(match_labels, topology_key, **term)]}}


def pod_affinity(*terms: Json) -> Json:
    """Required pod affinity."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


DRIVER = "csi.example.com"


def claim(name: str = "data", *, to: str = "", annotations: Json | None = None, uid: str = "", **spec: t.Any) -> PersistentVolumeClaim:
    """A claim for 1Gi of the class ``local``; with ``to`` it is bound to that volume. ``status`` and ``metadata`` go there."""
    status, more = spec.pop("status", {}), spec.pop("metadata", {})
    known = {**({"pv.kubernetes.io/bind-completed": "yes"} if to else {}), **(annotations or {})}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "local", **spec}
    metadata = {"name": name, "namespace": "default", "uid": uid, "annotations": known, **more}
    return _struct(PersistentVolumeClaim, {"metadata": metadata, "spec": {**asked, "volumeName": to}, "status": status})


def volume(name: str, *, on: str = "", size: str = "1Gi", phase: str = "Available", labels: Json | None = None, **spec: t.Any) -> t.Any:
    """A volume of the class ``local``; ``on`` is the only node that reaches it. ``metadata`` goes there."""
    more = spec.pop("metadata", {})
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}} if on else None
    found = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "nodeAffinity": affinity, **spec}
    return _struct(PersistentVolume, {"metadata": {"name": name, "labels": labels, **more}, "spec": found, "status": {"phase": phase}})


def csi(handle: str, driver: str = DRIVER) -> Json:
    """The source of a CSI volume."""
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def storage_class(name: str, provisioner: str = DRIVER, *, mode: str = "WaitForFirstConsumer", **more: t.Any) -> StorageClass:
    """A storage class."""
    metadata = {"name": name, "annotations": more.pop("annotations", None)}
    return _struct(StorageClass, {"metadata": metadata, "provisioner": provisioner, "volumeBindingMode": mode, **more})


def csi_node(name: str, *, annotations: Json | None = None, **counts: int) -> CSINode:
    """The number of volumes that a node can attach: ``limit`` of the driver ``csi.example.com``, or those of ``drivers``."""
    drivers: t.Any = counts.pop("drivers", {DRIVER: counts.get("limit")})
    found = [{"name": driver, "allocatable": {"count": count}} for driver, count in drivers.items()]
    return _struct(CSINode, {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": found}})


def csi_driver(name: str = DRIVER, *, tracked: bool = True) -> CSIDriver:
    """A driver that publishes its capacity."""
    return _struct(CSIDriver, {"metadata": {"name": name}, "spec": {"storageCapacity": tracked}})


def capacity(**fields: t.Any) -> CSIStorageCapacity:
    """Capacity of the class ``csi``."""
    return _struct(CSIStorageCapacity, {"storageClassName": "csi", **fields})


def attachment(volume_name: str, node_name: str, attacher: str = DRIVER) -> VolumeAttachment:
    """A volume that is attached to a node."""
    return _struct(
        VolumeAttachment, {"spec": {"attacher": attacher, "nodeName": node_name, "source": {"persistentVolumeName": volume_name}}}
    )


def _struct(kind: type[t.Any], value: Json) -> t.Any:
    return decode_json(kind, encode_json(value))


LOCAL = storage_class("local", "kubernetes.io/no-provisioner")


CSI = storage_class("csi")


def stored(*volumes: PersistentVolume, classes: tuple[StorageClass, ...] = (LOCAL, CSI), **more: t.Any) -> Storage:
    """The storage of a snapshot."""
    return Storage(volumes=volumes, classes=classes, **more)


def mounts(*names: str) -> list[Json]:
    """The volumes of a pod with these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


def ephemeral(name: str = "scratch", **spec: t.Any) -> list[Json]:
    """The volumes of a pod with one ephemeral volume."""
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return [{"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": asked}}}]


CRITICAL = 2_000_000_000
TOLERATION = {"key": "CriticalAddonsOnly", "operator": "Exists"}
"""Tolerates the taint of a hold."""
API_VERSIONS = {"Node": "v1", "Job": "batch/v1"}
"""The API versions of controllers that are not in the group apps."""


def running(on: str, cpu: str = "100m", **more: t.Any) -> Pod:
    """A ready pod on a node, from the document of ``running_json``."""
    return decode_json(Pod, encode_json(running_json(on, cpu, **more)))


def running_json(
    on: str,
    cpu: str = "100m",
    *,
    name: str = "",
    priority: int = 0,
    owner: str = "web",
    kind: str = "ReplicaSet",
    api_version: str = "",
    owner_uid: str = "",
    ready: bool = True,
    phase: str = "Running",
    labels: Json | None = None,
    annotations: Json | None = None,
    created: str = "2026-01-01T00:00:00Z",
    namespace: str = "app",
    metadata: Json | None = None,
    requests: Json | None = None,
    ports: list[Json] | None = None,
    status: Json | None = None,
    **spec: t.Any,
) -> Json:
    """A ready pod on a node, with a grace period of 5 s; no owner makes it a bare one. Other keywords go into its spec.

    ``api_version``: the version of the owner; the default is the one of Kubernetes itself. ``status`` replaces the status of a ready pod.
    """
    name = name or f"pod-{next(_NUMBERS)}"
    version = api_version or API_VERSIONS.get(kind, "apps/v1")
    uid = owner_uid or f"uid-{owner}"
    owners = [{"apiVersion": version, "kind": kind, "name": owner, "uid": uid, "controller": True}] if owner else []
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, **(requests or {})}}, "ports": ports}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": owners,
            "creationTimestamp": created,
            **(metadata or {}),
        },
        "spec": {"nodeName": on, "priority": priority, "terminationGracePeriodSeconds": 5, "containers": [container], **spec},
        "status": status or {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def named_pod(name: str, cpu: str, **more: t.Any) -> Pod:
    """A pod with a ReplicaSet of its own, from the document of ``named_pod_json``."""
    return decode_json(Pod, encode_json(named_pod_json(name, cpu, **more)))


def named_pod_json(
    name: str,
    cpu: str,
    *,
    on: str = "",
    namespace: str = "",
    owner: str = "",
    ends_in_s: float | None = None,
    nominated: str = "",
    conditions: Sequence[Json] = (),
    metadata: Json | None = None,
    **more: t.Any,
) -> Json:
    """A pod with a grace period of 1 s. On a node it is running and in ``app``; without a node it is pending and in ``kube-system``.

    ``ends_in_s``: seconds from NOW to its deletion.
    """
    deletion = {} if ends_in_s is None else {"deletionTimestamp": format_time(NOW + ends_in_s)}
    status = _given(phase="Running" if on else "Pending", nominatedNodeName=nominated or None, conditions=list(conditions))
    return running_json(
        on,
        cpu,
        name=name,
        namespace=namespace or ("app" if on else "kube-system"),
        owner=owner or name,
        metadata={**deletion, **(metadata or {})},
        status=status,
        **{"terminationGracePeriodSeconds": 1, **more},
    )


def pending(cpu: str = "500m", *, priority: int = CRITICAL, namespace: str = "kube-system", owner: str = "dns", **more: t.Any) -> Pod:
    """A critical pod that has no node."""
    return running("", cpu, priority=priority, namespace=namespace, owner=owner, phase="Pending", ready=False, **more)


def budget(name: str, labels: Json, *, allowed: int, healthy: int = 3, namespace: str = "app", **more: t.Any) -> PodDisruptionBudget:
    """A budget that allows to evict ``allowed`` of its ``healthy`` pods; ``policy`` for unhealthy ones, ``observed`` generation of 2."""
    value = {
        "metadata": {"name": name, "namespace": namespace, "generation": 2},
        "spec": {"selector": {"matchLabels": labels}, "unhealthyPodEvictionPolicy": more.get("policy")},
        "status": {
            "currentHealthy": healthy,
            "desiredHealthy": more.get("desired", healthy - allowed),
            "disruptionsAllowed": allowed,
            "observedGeneration": more.get("observed", 2),
        },
    }
    return decode_json(PodDisruptionBudget, encode_json(value))


def job(name: str, *rules: Json, namespace: str = "app") -> Job:
    """A Job with rules for failed pods."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return decode_json(Job, encode_json({"metadata": metadata, "spec": {"podFailurePolicy": {"rules": rules}}}))
