# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects written straight into etcd are like any others to the control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab import etcd_bulk_load
from lab.cluster import Cluster
from lab.errors import LabError
from lab.nodes import BULK_FROM, manifests_of, recreate_without_lease
from lab.scenario import NodeGroup, Scenario
from tests.integration.lab.conftest import Pods, wait_for

MANY = Scenario("many", (NodeGroup(prefix="many", count=BULK_FROM, labels={"many": "yes"}, unschedulable=True),))


@pytest.fixture
def many_nodes(lab_cluster: Cluster) -> Iterator[None]:
    lab_cluster.add_nodes(MANY)
    yield
    lab_cluster.api.delete("/api/v1/nodes?labelSelector=many")


@pytest.mark.usefixtures("many_nodes")
def test_many_nodes_are_ready_and_run_pods(lab_cluster: Cluster, pods: Pods) -> None:
    node = lab_cluster.get(f"/api/v1/nodes/many-{BULK_FROM}")
    assert node["status"]["allocatable"]["cpu"] == "8"
    assert node["metadata"]["uid"]
    pods.running("on-many", node=f"many-{BULK_FROM}")


@pytest.mark.usefixtures("many_nodes")
def test_node_that_kwok_has_not_taken_over_is_created_again(lab_cluster: Cluster, pods: Pods) -> None:
    api, nodes = lab_cluster.api, list(manifests_of(MANY))
    lost, kept = (api.get(f"/api/v1/nodes/many-{number}")["metadata"] for number in (7, 8))
    api.delete(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{lost['name']}")
    recreate_without_lease(api, nodes)
    assert api.get(f"/api/v1/nodes/{lost['name']}")["metadata"]["uid"] != lost["uid"]
    assert api.get(f"/api/v1/nodes/{kept['name']}")["metadata"]["uid"] == kept["uid"]
    pods.running("on-recreated", node=lost["name"])


def test_bulk_pods_run_and_can_be_deleted(lab_cluster: Cluster, namespaces: Callable[..., str]) -> None:
    namespace = namespaces("bulk")
    template = {
        "metadata": {"namespace": namespace, "labels": {"app": "bulk"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.invalid/app:1", "resources": {"requests": {"cpu": "1m"}}}],
        },
    }
    bindings = [(f"bulk-{number}", f"worker-{1 + number % 6}") for number in range(250)]
    assert lab_cluster.bulk_load(etcd_bulk_load.pods_running(template, bindings)) == len(bindings)
    pods = Pods(lab_cluster.api, namespace)
    wait_for(lambda: pods.ready("bulk-249"))
    assert len(lab_cluster.get(pods.path)["items"]) == len(bindings)
    pods.delete("bulk-0")
    wait_for(lambda: pods.gone("bulk-0"))
    with pytest.raises(LabError, match="on exist already"):
        lab_cluster.bulk_load(etcd_bulk_load.pods_running(template, bindings[-1:]))
    lab_cluster.bulk_unload("Pod", namespace)
    assert not lab_cluster.get(pods.path)["items"], "a list never shows a part of what has gone"


def test_unknown_kinds_are_refused(lab_cluster: Cluster) -> None:
    with pytest.raises(LabError, match="kind 'Service' is not supported; supported are Deployment, Namespace, Node"):
        lab_cluster.bulk_load([{"kind": "Service", "metadata": {"name": "x"}}])
