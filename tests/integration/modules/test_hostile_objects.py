# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that the API server admits from any tenant, and that must not keep the check from the others."""

from __future__ import annotations

import json
from typing import Any

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, identity, pile_up, read, stateful_set, wait_until

MOST = 2**31 - 1
LONG = "9" * 5000


def by_name(modules: Modules, namespace: str) -> dict[str, dict[str, Any]]:
    """The lines of all workloads."""
    return {line["name"]: line for line in modules.check(namespace, include_healthy=True)["workloads"]}


def test_a_stateful_set_that_wants_billions_of_replicas_is_judged_by_those_that_exist(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    db, web = stateful_set(namespace, "db", 2), deployment(namespace, "web", 2)
    pile_up(cluster, db, web)
    metadata = {"name": "few", "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "4"}}})
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/few"
    wait_until(lambda: "used" in cluster.get(path).get("status", {}), what="the quota's count")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": MOST}}
    patch = json.dumps({"spec": {"replicas": MOST, "updateStrategy": strategy}})
    cluster.kubectl("patch", "statefulset/db", "-n", namespace, "--type=merge", "-p", patch)
    wait_until(lambda: _is_seen(read(cluster, db)), what="its controller")
    found = by_name(modules, namespace)
    assert found["web"]["verdict"] == "collapsed"
    assert (found["db"]["verdict"], found["db"]["placed"]) == ("collapsed", 2), found["db"]


def _is_seen(workload: dict[str, Any]) -> bool:
    observed: int = workload["status"]["observedGeneration"]
    return observed == workload["metadata"]["generation"]


def test_a_revision_that_is_no_number_ends_no_check(cluster: Cluster, modules: Modules, namespace: str) -> None:
    odd, web = deployment(namespace, "odd", 2), deployment(namespace, "web", 2)
    pile_up(cluster, odd, web)
    replica_sets = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets?labelSelector=app%3Dodd")["items"]
    name = replica_sets[0]["metadata"]["name"]
    cluster.kubectl("patch", "deployment/odd", "-n", namespace, "--type=merge", "-p", '{"spec": {"paused": true}}')
    for revision in ("²", LONG):
        key = "deployment.kubernetes.io/revision"
        cluster.kubectl("annotate", "--overwrite", f"replicaset/{name}", "-n", namespace, f"{key}={revision}")
        assert by_name(modules, namespace)["web"]["verdict"] == "collapsed"


def test_a_percentage_of_thousands_of_digits_ends_no_check_and_is_refused(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    patch = f'{{"spec": {{"strategy": {{"rollingUpdate": {{"maxSurge": "{LONG}%"}}}}}}}}'
    cluster.kubectl("patch", "deployment/web", "-n", namespace, "--type=merge", "-p", patch)
    assert by_name(modules, namespace)["web"]["verdict"] in ("collapsed", "rolling")
    line = modules.restart(**identity(web))["workloads"][0]
    assert (line["action"], line["reason"].partition(":")[0]) == ("refused", "invalid_strategy"), line
