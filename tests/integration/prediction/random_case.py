# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The parts of a random cluster: its nodes, the pods that use their capacity, and workloads with the present node of each replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

NAMESPACE = "prediction"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
PRIORITY_CLASS: Json = {"metadata": {"name": "prediction-high"}, "value": 1000}
"""Pods of this class may preempt others."""

IMAGES = {f"registry.example.com/team/app-{number}:1": size for number, size in enumerate((20, 60, 150, 320, 600, 1100))}
"""The images of nodes and pods, with their sizes in MiB."""


@dataclass(frozen=True)
class CaseNode:
    """A node. ``images`` are the names of those that it has. ``image_percent``: their size on this node, in percent of that in IMAGES."""

    name: str
    labels: dict[str, str]
    cpu_m: int
    memory_mi: int
    pods: int
    taints: tuple[Json, ...] = ()
    images: tuple[str, ...] = ()
    unschedulable: bool = False
    image_percent: int = 100

    def manifest(self) -> Json:
        """Return the node for the API server. It is Ready from the beginning."""
        offered = {"cpu": f"{self.cpu_m}m", "memory": f"{self.memory_mi}Mi", "ephemeral-storage": "100Gi", "pods": str(self.pods)}
        images = [{"names": [image], "sizeBytes": IMAGES[image] * 1024 * 1024 * self.image_percent // 100} for image in self.images]
        return {
            "metadata": {"name": self.name, "labels": {HOST: self.name, **self.labels}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": list(self.taints), **({"unschedulable": True} if self.unschedulable else {})},
            "status": {
                "capacity": offered,
                "allocatable": offered,
                "images": images,
                "addresses": [{"type": "Hostname", "address": self.name}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }

    def domain(self, key: str) -> str | None:
        """Return the domain of the topology key. None if the node has none."""
        return self.name if key == HOST else self.labels.get(key)


@dataclass(frozen=True)
class CaseWorkload:
    """A Deployment or StatefulSet. ``node_names``: the nodes of its replicas, those of a StatefulSet by ordinal.

    ``stop_after_s``: the seconds after which each replica ends when it is deleted. Empty means after its grace period.
    """

    manifest: Json
    node_names: tuple[str, ...]
    stop_after_s: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        kind: str = self.manifest["kind"]
        return kind

    @property
    def name(self) -> str:
        name: str = self.manifest["metadata"]["name"]
        return name

    @property
    def path(self) -> str:
        """The path of its kind in the namespace."""
        return f"/apis/apps/v1/namespaces/{NAMESPACE}/{self.kind.lower()}s"


@dataclass(frozen=True)
class RandomCase:
    """A cluster and the options of the check.

    ``is_full``: all nodes have little free capacity. ``profiles``: the scheduler's configuration; None means its defaults.
    ``awaits_ends``: the next workload is checked when all old pods of the one before have ended. Otherwise some of them are terminating.
    """

    seed: int
    nodes: Sequence[CaseNode]
    fillers: Sequence[Json]
    services: Sequence[Json]
    workloads: Sequence[CaseWorkload]
    topology_keys: tuple[str, ...]
    max_skew: int | None
    limit_ranges: Sequence[Json] = ()
    profiles: Json | None = None
    profiles_kind: str = "default"
    awaits_ends: bool = True
    is_full: bool = False
