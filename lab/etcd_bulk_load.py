# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thousands of objects in a second, written straight into the cluster's etcd.

The API server is passed by: nothing is validated, admitted or quota-checked. For big scenarios and benchmarks only;
a hundred times faster than creating the objects one by one.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from lab.errors import LabError
from lab.etcd import Etcd

# Where the API server reads them below /registry.
STORED_AS = {
    "Deployment": "deployments",
    "Namespace": "namespaces",
    "Node": "minions",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "ReplicaSet": "replicasets",
    "ServiceAccount": "serviceaccounts",
    "StatefulSet": "statefulsets",
    "StorageClass": "storageclasses",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
# etcd takes up to 128 operations and 1.5 MB in one transaction.
OBJECTS_PER_TRANSACTION = 100
CLOSING_KEY = "/lab/bulk"


def load(etcd_address: str, objects: Iterable[dict[str, Any]]) -> int:
    """Store the objects, which must not exist yet, and return how many they were.

    `uid` and `creationTimestamp` are filled in where they are missing. Raises LabError for a kind that is not in
    STORED_AS, and for a batch of which an object exists already.
    """
    count = 0
    etcd = Etcd(etcd_address)
    try:
        remaining = iter(objects)
        while batch := dict(map(_entry, islice(remaining, OBJECTS_PER_TRANSACTION))):
            _store(etcd, batch)
            count += len(batch)
        _close(etcd)
    finally:
        etcd.close()
    return count


def unload(etcd_address: str, kind: str, namespace: str) -> None:
    """Remove all objects of a kind from a namespace by one request."""
    etcd = Etcd(etcd_address)
    try:
        prefix = f"/registry/{STORED_AS[kind]}/{namespace}"
        etcd.call("kv/deleterange", {"key": _base64(f"{prefix}/"), "range_end": _base64(f"{prefix}0")})  # 0 comes after /
        _close(etcd)
    finally:
        etcd.close()


def _entry(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Key and stored form of one object."""
    kind, metadata = item.get("kind", ""), item["metadata"]
    if kind not in STORED_AS:
        raise LabError(f"bulk load: kind {kind!r} is not supported; supported are {', '.join(STORED_AS)}")
    place = [STORED_AS[kind], metadata.get("namespace", ""), metadata["name"]]
    defaults = {"uid": str(uuid.uuid4()), "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return "/".join(["/registry", *filter(None, place)]), item | {"metadata": defaults | metadata}


def _store(etcd: Etcd, entries: dict[str, dict[str, Any]]) -> None:
    keys = {key: _base64(key) for key in entries}
    transaction = {
        "compare": [{"key": key, "target": "VERSION", "version": "0"} for key in keys.values()],
        "success": [{"requestPut": {"key": keys[key], "value": _base64(json.dumps(item))}} for key, item in entries.items()],
    }
    if not etcd.call("kv/txn", transaction).get("succeeded"):
        raise LabError(f"bulk load: some of {len(entries)} objects from {next(iter(entries))} on exist already")


def _close(etcd: Etcd) -> None:
    """Make one more revision, for which every list of the newest state waits from now on.

    All changes of a transaction have the same revision, which no write of an API server does: its cache has reached that revision with the
    first of them, and shows a part of them in a list. A watch that starts there would never show the rest.
    """
    etcd.call("kv/put", {"key": _base64(CLOSING_KEY), "value": ""})


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pods_running(template: dict[str, Any], bindings: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Pods from a template, each with a name and a node, that run and are Ready."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": now} for name in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    for name, node in bindings:
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": template["metadata"] | {"name": name},
            "spec": {"schedulerName": "default-scheduler", **template["spec"], "nodeName": node},
            "status": {"phase": "Running", "startTime": now, "conditions": conditions},
        }
