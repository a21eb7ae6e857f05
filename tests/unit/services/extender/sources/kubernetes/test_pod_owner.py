# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owner of a pod is the same in a watch and in a request, and for all pods of a workload."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.http.wire import RequestPod
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_objects import (
    POD_RESOURCE,
    SharedParts,
    pod_record_of,
)

HASH = {"pod-template-hash": "5d4f8c7b9"}


@pytest.mark.parametrize(
    ("kind", "name", "labels", "owner"),
    [
        ("ReplicaSet", "web-5d4f8c7b9", HASH, "web"),
        ("ReplicaSet", "web-5d4f8c7b9", {}, "web-5d4f8c7b9"),
        ("ReplicaSet", "web-5d4f8c7b9", {"pod-template-hash": ""}, "web-5d4f8c7b9"),
        ("StatefulSet", "db-28379220", {}, "db-28379220"),
        ("Job", "backup-28379220", {}, "backup"),
        ("Job", "migration-3", {}, "migration-3"),
        ("", "", HASH, ""),
    ],
)
def test_the_owner_has_no_hash_of_a_revision_and_no_time_of_a_run(kind: str, name: str, labels: dict[str, str], owner: str) -> None:
    owners = [{"kind": "Machine", "name": "other"}, *([{"kind": kind, "name": name, "controller": True}] if kind else [])]
    metadata: dict[str, t.Any] = {"name": "x", "namespace": "app", "uid": "u", "labels": labels, "ownerReferences": owners}
    data = json.dumps({"metadata": metadata, "spec": {"containers": [{"name": "main"}]}}).encode()
    assert RequestPod(data).view.owner == owner
    assert pod_record_of(POD_RESOURCE.read(data), SharedParts()).owner == owner
