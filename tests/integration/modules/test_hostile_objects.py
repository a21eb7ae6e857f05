# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that the API server admits from any tenant, and that must not keep the check from the others."""

from __future__ import annotations

from typing import Any

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, identity, pile_up

LONG = "9" * 5000


def by_name(modules: Modules, namespace: str) -> dict[str, dict[str, Any]]:
    """The lines of all workloads."""
    return {line["name"]: line for line in modules.check(namespace, include_healthy=True)["workloads"]}


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
    assert (line["action"], line["reason"]) == ("refused", "invalid_strategy"), line
