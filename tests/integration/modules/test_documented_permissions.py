# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The roles in docs/rebalance.md have enough permissions. The role for checks has no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, identity, pile_up, stateful_set

GUIDE = (Path(__file__).parents[3] / "docs" / "rebalance.md").read_text()
SECTION = GUIDE[GUIDE.index("\n## Permissions\n") :].split("\n## ")[1]
LOOK, RESTART, EVICT = re.findall(r"^```yaml\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
# Storage is asked for where a workload mounts a claim, attachments only where a node limits them as well.
LIMITED_NODE: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "limited"},
    "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "limited", "allocatable": {"count": 1}}]},
}
LEASE = (
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduling-rebalance",
    "/api/v1/namespaces/kube-system/configmaps/kube-scheduling-rebalance",
)
USER = "system:serviceaccount:kube-scheduling:rebalance"

Verb = tuple[str, str, str]


def granted(manifests: str) -> set[Verb]:
    """(API group, resource, verb) of all rules."""
    rules = [rule for manifest in yaml.safe_load_all(manifests) for rule in manifest.get("rules", ())]
    return {
        (group, resource, verb) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
    }


def requests(cluster: Cluster, since: int) -> list[AuditEvent]:
    """Return the requests of the service account, without discovery."""
    events = cluster.audit().events(since=since, user=USER, stages=(STARTED, COMPLETE))
    return [event for event in events if event.resource]


def asked(events: list[AuditEvent]) -> set[Verb]:
    names = {event: event.resource + (f"/{event.subresource}" if event.subresource else "") for event in events}
    return {(event.group, names[event], event.verb) for event in events}


@pytest.fixture
def rights(cluster: Cluster) -> Iterator[None]:
    """The rights for checks. All objects of the guide are deleted at the end, because tests of the roles list what has such names."""
    cluster.apply([LIMITED_NODE])
    cluster.apply(LOOK)
    cluster.wait_namespace("kube-scheduling")
    yield
    cluster.kubectl("delete", "--filename", "-", "--ignore-not-found", input=f"{LOOK}\n---\n{RESTART}")
    cluster.kubectl("delete", "csinode", LIMITED_NODE["metadata"]["name"])


@pytest.mark.usefixtures("rights")
def test_the_documented_roles_are_enough(cluster: Cluster, namespace: str) -> None:
    web, queue, shop = deployment(namespace, "web", 2), stateful_set(namespace, "queue", 2), deployment(namespace, "shop", 2)
    for workload in (web, queue, shop):
        # A workload that is ready at the first read after its restart would not have to be watched.
        workload["spec"]["template"]["metadata"]["annotations"] = {"lab.onprem/ready-delay": "2"}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounting = deployment(namespace, "mounting", 0, template={"volumes": volumes})
    # Device classes are asked for where a workload asks for an extended resource.
    mounting["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    cluster.apply(mounting)
    pile_up(cluster, web, queue, shop)
    modules = Modules(cluster.service_account("rebalance", namespace="kube-scheduling", cluster_role=None))

    mark = cluster.audit().mark()
    found = modules.run("k8s_spread_check")
    events = requests(cluster, mark)
    assert found["skipped_namespaces"] == [] and {"web", "queue"} <= {entry["name"] for entry in found["restartable"]}
    assert asked(events) == granted(LOOK)
    assert {event.code for event in events} == {200}

    refused = modules.restart(**identity(web))
    assert refused["failed"] and f"Grant the verb 'get' on deployments in namespace {namespace} to this user." in refused["msg"]

    cluster.apply(RESTART)
    for path in LEASE:  # an earlier test of the shared cluster may have made them
        cluster.api.request("DELETE", path)
    mark = cluster.audit().mark()
    both = {**found, "restartable": [identity(web), identity(queue)], "uneven": [identity(web), identity(queue)], "interrupted": []}
    planned = modules.restart(check=both, check_mode=True)
    done = modules.restart(check=both, spread_constraint="add", max_parallel=2)
    again = modules.restart(check=both)
    events = requests(cluster, mark)
    assert [entry["action"] for entry in planned["workloads"]] == ["would_restart", "would_restart"], planned
    assert [entry["outcome"] for entry in done["workloads"]] == ["improved", "improved"], done
    assert [entry["action"] for entry in again["workloads"]] == ["skipped", "skipped"], again
    assert [len(entry["spread_constraints"]) for entry in done["workloads"]] == [2, 2], done
    assert not done.get("warnings") and not again.get("warnings")
    assert granted(RESTART) <= asked(events) <= granted(LOOK) | granted(RESTART)
    assert not [event for event in events if event.code in (401, 403)]

    role = next(manifest for manifest in yaml.safe_load_all(RESTART) if manifest["kind"] == "ClusterRole")
    cluster.apply({**role, "rules": role["rules"] + yaml.safe_load(EVICT)["rules"]})
    mark = cluster.audit().mark()
    (evicted,) = modules.restart(workloads=[identity(shop)], strategy="evict_surplus")["workloads"]
    events = requests(cluster, mark)
    assert (evicted["action"], evicted["outcome"]) == ("evicted", "improved"), evicted
    assert granted(EVICT) <= asked(events) <= granted(LOOK) | granted(RESTART) | granted(EVICT)
    assert not [event for event in events if event.code in (401, 403)]
