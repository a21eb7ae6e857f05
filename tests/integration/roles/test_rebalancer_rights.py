# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rights of the role spread_cronjob are those that the program uses: no right is missing, and none is unused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.integration.modules.conftest import namespace
from tests.integration.modules.test_documented_permissions import LIMITED_NODE
from tests.integration.rebalancer.program import LEASE, Rebalancer
from tests.integration.roles.installed import remove_all
from tests.integration.roles.role_play import RolePlay
from tests.integration.workloads import deployment, known_outcome, pile_up, stateful_set

__all__ = ["namespace"]

NAME = "kube-scheduling-rebalancer"
USER = f"system:serviceaccount:kube-scheduling:{NAME}"
FILE = REPOSITORY / "roles" / "spread_cronjob" / "vars" / "main" / "permissions.yml"
PERMISSIONS = yaml.safe_load(FILE.read_text())["__spread_cronjob_permissions"]

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/kube-scheduling-rebalance"

Right = tuple[str, str, str]


def rights(entries: list[dict[str, Any]]) -> set[Right]:
    """Return (API group, resource, verb) of entries of the data file."""
    return {(entry["api_group"], resource, verb) for entry in entries for resource in entry["resources"] for verb in entry["verbs"]}


def used(events: list[AuditEvent]) -> set[Right]:
    return {(event.group, "/".join(filter(None, (event.resource, event.subresource))), event.verb) for event in events}


def in_cluster(cluster: Cluster) -> set[Right]:
    """Return the rights in the ClusterRole and the Role of the program."""
    base = "/apis/rbac.authorization.k8s.io/v1"
    places = (f"{base}/clusterroles/{NAME}", f"{base}/namespaces/kube-system/roles/{NAME}")
    rules = [rule for place in places for rule in cluster.get(place)["rules"]]
    return {(rule["apiGroups"][0], resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def run(cluster: Cluster, kubeconfig: Path, log: Path, *flags: str) -> tuple[Rebalancer, list[AuditEvent]]:
    """Make one pass, and return it with its requests for resources."""
    mark = cluster.audit().mark()
    process = Rebalancer(log, f"--kubeconfig={kubeconfig}", *flags)
    try:
        assert process.code() == 0, process.log.read_text()
    finally:
        process.kill()
    events = cluster.audit().events(since=mark, user=USER, stages=(STARTED, COMPLETE))
    return process, [event for event in events if event.resource]


def test_a_pass_uses_each_right_that_is_not_rare_and_no_other_one(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    variables = {
        "spread_cronjob_kubeconfig": str(cluster.kubeconfig),
        "spread_cronjob_image": "registry.example.org/kube-scheduling/services:1",
        "spread_cronjob_schedule": "0 0 1 1 *",
    }
    role = RolePlay("spread_cronjob", tmp_path, variables)
    installed = role.run()
    assert installed.code == 0, installed.output
    user = cluster.service_account(NAME, namespace="kube-scheduling", cluster_role=None)
    granted, rare = rights(PERMISSIONS), rights([entry for entry in PERMISSIONS if "rare" in entry])

    # The first pass of a cluster makes the Lease and the ConfigMap. A normal pass finds them.
    cluster.api.request("DELETE", LEASE)
    cluster.api.request("DELETE", CONFIG_MAP)
    _first, first = run(cluster, user, tmp_path / "first.log", f"--namespaces={namespace}")
    _normal, normal = run(cluster, user, tmp_path / "normal.log", f"--namespaces={namespace}")
    assert granted - rare <= used(normal) <= granted

    web, queue, shop = deployment(namespace, "web", 2), stateful_set(namespace, "queue", 2), deployment(namespace, "shop", 2)
    for workload in (web, queue, shop):
        # A workload that is ready at the first read after its restart would not have to be watched.
        workload["spec"]["template"]["metadata"]["annotations"] = {"lab.onprem/ready-delay": "2"}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounting = deployment(namespace, "mounting", 0, template={"volumes": volumes})
    mounting["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    cluster.apply([mounting, LIMITED_NODE])
    pile_up(cluster, web, queue, shop)
    cluster.kubectl("--namespace", namespace, "annotate", "deployment", "shop", "kube-scheduling.onprem/spread=ignore")
    _restarted, restarted = run(cluster, user, tmp_path / "restart.log", f"--namespaces={namespace}", "--max-parallel=2")
    assert known_outcome(cluster, web)["outcome"] == known_outcome(cluster, queue)["outcome"] == "improved", _restarted.log.read_text()
    cluster.kubectl("--namespace", namespace, "annotate", "deployment", "shop", "kube-scheduling.onprem/spread-")
    _evicted, evicted = run(cluster, user, tmp_path / "evict.log", f"--namespaces={namespace}", "--strategy=evict_surplus")
    assert known_outcome(cluster, shop)["outcome"] == "improved", _evicted.log.read_text()

    events = [*first, *normal, *restarted, *evicted]
    assert used(events) == granted
    assert [event for event in events if event.code in (401, 403)] == []
    named = {name for entry in PERMISSIONS for name in entry.get("names", [])}
    assert {event.name for event in events if event.resource in ("leases", "configmaps") and event.verb != "create"} <= named

    # A program that only plans gets no right to write, also if it had these rights before.
    planned = role.run(spread_cronjob_settings={"dry_run": True})
    assert planned.code == 0, planned.output
    to_read = granted - {right for right in granted if right[2] in ("create", "patch")}
    assert in_cluster(cluster) == to_read
    later = deployment(namespace, "later", 2)
    pile_up(cluster, later)
    plan, events = run(cluster, user, tmp_path / "plan.log", f"--namespaces={namespace}", "--dry-run")
    assert plan.decision("later")["action"] == "would_restart", plan.log.read_text()
    assert used(events) <= to_read and [event for event in events if event.code in (401, 403)] == []
    assert role.run().code == 0 and in_cluster(cluster) == granted
    remove_all(cluster)
    cluster.kubectl("delete", "csinode", LIMITED_NODE["metadata"]["name"])
