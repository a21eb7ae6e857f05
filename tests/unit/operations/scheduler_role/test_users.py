# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods and workloads that need a scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.scheduler_role.users import users_of

PROFILE = "network-traffic"
TEMPLATE = {"template": {"spec": {"schedulerName": PROFILE}}}
PROBE = {"app.kubernetes.io/name": "kube-scheduling-probe", "app.kubernetes.io/managed-by": "onprem.kube_scheduling"}
OWNED = {"ownerReferences": [{"controller": True, "kind": "Deployment", "name": "web"}]}
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


def item(kind: str, spec: dict[str, Any], status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"namespace": "shop", "name": "web", **metadata}, "spec": spec, "status": status or {}}


def pod(phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    return item("Pod", {"schedulerName": PROFILE, **spec}, {"phase": phase})


@pytest.mark.parametrize(
    ("found", "is_user"),
    [
        (pod(), True),
        (pod(nodeName="worker-1"), False),
        (pod("Failed"), False),
        (pod(schedulerName="other"), False),
        (item("Pod", {"schedulerName": PROFILE}, {"phase": "Pending"}, deletionTimestamp="2026-01-01T00:00:00Z"), False),
        (item("Pod", {"schedulerName": PROFILE}, {"phase": "Pending"}, labels=PROBE), False),
        (item("Deployment", TEMPLATE), True),
        (item("Deployment", {"replicas": 0, **TEMPLATE}), True),
        (item("Deployment", {"template": {"spec": {}}}), False),
        (item("ReplicaSet", TEMPLATE, **OWNED), False),
        (item("ReplicaSet", TEMPLATE), True),
        (item("Job", TEMPLATE), True),
        (item("Job", TEMPLATE, COMPLETE), False),
        (item("CronJob", {"jobTemplate": {"spec": TEMPLATE}}), True),
    ],
)
def test_an_object_needs_the_scheduler_if_its_pods_would_wait(found: dict[str, Any], is_user: bool) -> None:
    assert users_of([found], [PROFILE]) == ([f"{found['kind']} shop/web ({PROFILE})"] if is_user else [])
