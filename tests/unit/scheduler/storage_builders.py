# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Claims, volumes and what CSI drivers publish, for the tests of the volume rules."""

from __future__ import annotations

import typing as t

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
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json

Json = dict[str, t.Any]

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
    """What a node can attach, of ``csi.example.com`` as ``limit``, or of the drivers in ``drivers``."""
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
