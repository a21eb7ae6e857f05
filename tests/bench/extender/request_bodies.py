# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bodies of prioritize as kube-scheduler sends them with nodeCacheCapable: whole pods, and the names of nodes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.big_cluster import pod_spec_of
from tests.bench.extender.settings import PROFILE

PODS, DEMANDS = 50, 10


def write(file: Path, names: Sequence[str]) -> None:
    """Write the bodies for these nodes, one a line."""
    bodies = ({"Pod": pod(number), "Nodes": None, "NodeNames": list(names)} for number in range(PODS))
    file.write_text("".join(json.dumps(body, separators=(",", ":")) + "\n" for body in bodies))


def pod(number: int) -> dict[str, Any]:
    """Return a pod of a Deployment as the scheduler has it in its cache, without managedFields. It has one of ten demands."""
    name, demand = f"app-{number}", number % DEMANDS + 1
    spec = pod_spec_of(name)
    spec["schedulerName"] = PROFILE
    memory = f"{256 * demand}Mi"
    spec["containers"][0]["resources"] = {"requests": {"cpu": f"{100 * demand}m", "memory": memory}, "limits": {"memory": memory}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-5d4f8c7b9", "uid": _uid(f"{name} owner"), "controller": True}
    labels = {"app": name, "app.kubernetes.io/managed-by": "helm", "tier": "backend", "pod-template-hash": "5d4f8c7b9"}
    metadata = {
        "name": f"{name}-5d4f8c7b9-x7k2p",
        "generateName": f"{name}-5d4f8c7b9-",
        "namespace": "team-1",
        "uid": _uid(name),
        "resourceVersion": str(1000 + number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
        "annotations": {"checksum/config": "0" * 64, "prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        "ownerReferences": [owner],
    }
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/500 nodes are available: Too many pods",
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [condition], "qosClass": "Burstable"}}


def _uid(text: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))
