# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each module as a process of its own. Most other tests call modules in their own process, and this result must be the same."""

from __future__ import annotations

import os
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules, result_of
from tests.integration.workloads import deployment, identity, pile_up, wait_until

SECRET = "secret-of-the-user"
TOO_LARGE = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1000"}}}]}


def test_process_and_call_of_a_module_have_the_same_result(
    cluster: Cluster, modules: Modules, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large", "namespace": namespace}, "spec": TOO_LARGE})
    wait_until(lambda: cluster.get(f"/api/v1/namespaces/{namespace}/pods/large")["status"].get("conditions"), what="an unschedulable pod")
    any_pod = {"namespaces": [namespace], "priority_threshold": 0, "settle_time": 0}
    calls: tuple[tuple[str, bool, dict[str, Any]], ...] = (
        ("k8s_rollout_restart", True, {"workloads": [], "strategy": SECRET, "api_key": SECRET}),
        ("k8s_spread_check", True, {"context": "nowhere"}),
        ("k8s_spread_check", False, {"namespaces": [namespace], "include_healthy": True, "include_nodes": True}),
        ("k8s_rollout_restart", False, {"workloads": [identity(web)], "check_mode": True}),
        ("k8s_critical_rescue", False, {**any_pod, "check_mode": True, "diff": True}),
        ("k8s_cluster_identity", False, {}),
        ("k8s_apply_set", False, {"name": "none", "component": "none", "namespace": namespace, "state": "absent"}),
    )
    monkeypatch.setenv("K8S_AUTH_HOST", "https://127.0.0.1:1")
    environment = dict(os.environ)
    for module, fails, params in calls:
        called, printed = modules.run(module, **params), result_of(modules.start(module, **params))
        for row in (*called.get("workloads", ()), *printed.get("workloads", ())):
            row.pop("duration", None)
        assert called == printed and bool(called.get("failed")) == fails, (module, called, printed)
        assert SECRET not in str(called) and os.environ == environment
        if module == "k8s_critical_rescue":
            assert [row["status"] for row in called["pods"]] == ["impossible"], called
