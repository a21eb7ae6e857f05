# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the Deployments of the big cluster: most have none, some have a rule about other nodes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CYCLE = 20


@dataclass(frozen=True)
class PodVariant:
    """One sort of Deployment.

    ``turns``: which of every twenty Deployments are of it. ``rules``: what it adds to the pod spec of a Deployment, which is
    given by its name and that of a neighbour in its namespace. ``step``: how many workers further its next replica lies.
    """

    name: str
    turns: tuple[int, ...]
    rules: Callable[[str, str], dict[str, Any]]
    step: int = 13


def of_deployment(index: int) -> PodVariant:
    """The variant of the Deployment with this number."""
    return next((variant for variant in VARIANTS if index % CYCLE in variant.turns), PLAIN)


def claim_objects(namespace: str, name: str) -> list[dict[str, Any]]:
    """The bound claim of a Deployment of the variant CLAIM, and its volume, which every second zone can reach."""
    volume, uid = f"{namespace}-{name}", str(uuid.uuid4())
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "shared", "volumeMode": "Filesystem"}
    size = {"storage": "10Gi"}
    zones = {"key": ZONE, "operator": "In", "values": [f"zone-{number}" for number in range(1, 11, 2)]}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **spec,
                "capacity": size,
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid},
                "csi": {"driver": "shared.csi.example", "volumeHandle": volume},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}},
                "persistentVolumeReclaimPolicy": "Delete",
            },
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": bound},
            "spec": {**spec, "resources": {"requests": size}, "volumeName": volume},
            "status": {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": size},
        },
    ]


def _anti_affinity(name: str, _neighbour: str) -> dict[str, Any]:
    required = {"topologyKey": HOST, **_app(name)}
    preferred = {"weight": 100, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": {"tier": "backend"}}}}
    rule = {
        "requiredDuringSchedulingIgnoredDuringExecution": [required],
        "preferredDuringSchedulingIgnoredDuringExecution": [preferred],
    }
    return {"affinity": {"podAntiAffinity": rule}}


def _zone_spread(name: str, _neighbour: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **_app(name)}
    return {"topologySpreadConstraints": [constraint]}


def _pod_affinity(_name: str, neighbour: str) -> dict[str, Any]:
    term = {"topologyKey": ZONE, **_app(neighbour)}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _claim(name: str, _neighbour: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def _app(name: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": name}}}


PLAIN = PodVariant("no rule", (), lambda _name, _neighbour: {})
CLAIM = PodVariant("bound claim, volume in half the zones", (4,), _claim, step=14)
VARIANTS = (
    PLAIN,
    PodVariant("anti-affinity by hostname, required and preferred", (1, 11), _anti_affinity),
    PodVariant("spread constraint by zone, DoNotSchedule", (2, 12), _zone_spread),
    PodVariant("pod affinity by zone, required", (3,), _pod_affinity),
    CLAIM,
)
