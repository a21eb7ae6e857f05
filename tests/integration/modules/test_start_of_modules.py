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
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "check": ("k8s_spread_check", {"include_healthy": True, "include_nodes": True}),
    "restart": ("k8s_rollout_restart", {"check_mode": True, "diff": True}),
    "rescue": ("k8s_critical_rescue", {"priority_threshold": 0, "settle_time": 0, "check_mode": True, "diff": True}),
    "objects": ("k8s_namespace_objects", {"exclude_kinds": ["Event"]}),
    "wrong option": ("k8s_rollout_restart", {"strategy": SECRET, "api_key": SECRET}),
    "no connection": ("k8s_spread_check", {"host": "https://127.0.0.1:1", "context": "nowhere"}),
}


@pytest.mark.parametrize("call", CALLS)
def test_process_and_call_have_the_same_result(
    cluster: Cluster, modules: Modules, namespace: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large", "namespace": namespace}, "spec": TOO_LARGE})
    wait_until(lambda: cluster.get(f"/api/v1/namespaces/{namespace}/pods/large")["status"].get("conditions"), what="an unschedulable pod")
    own = {
        "k8s_spread_check": {"namespaces": [namespace]},
        "k8s_rollout_restart": {"workloads": [identity(web)]},
        "k8s_critical_rescue": {"namespaces": [namespace]},
        "k8s_namespace_objects": {"namespace": namespace},
    }
    module, given = CALLS[call]
    params = {**own[module], **given}
    monkeypatch.setenv("K8S_AUTH_HOST", "https://127.0.0.1:1")
    before = dict(os.environ)
    results = [modules.run(module, **params), result_of(modules.start(module, **params)), modules.run(module, **params)]
    assert results[0] == results[1] == results[2], results
    assert os.environ == before and SECRET not in str(results)
    assert bool(results[0].get("failed")) == (call in ("wrong option", "no connection")), results[0]
    if call == "rescue":
        assert [row["status"] for row in results[0]["pods"]] == ["impossible"]
