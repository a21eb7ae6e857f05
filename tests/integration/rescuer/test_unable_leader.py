# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A leader that cannot do its work lets another replica lead, and leads again only when it can work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.rescue.conftest import separate_cluster as cluster
from tests.integration.rescue.scene import Scene
from tests.integration.rescuer.conftest import Start
from tests.integration.rescuer.test_rescuer import full_node, wait_bound, wait_free
from tests.integration.workloads import wait_until

__all__ = ["cluster"]

Json = dict[str, Any]

ACCOUNT = "unable"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = f"{RBAC}/clusterroles/{ACCOUNT}"
EVERYTHING = [
    {"apiGroups": ["", "policy", "batch", "storage.k8s.io", "resource.k8s.io"], "resources": ["*"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods/eviction", "events"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "patch", "create"]},
]


def config_maps(*verbs: str) -> Json:
    return {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", *verbs]}


@pytest.fixture
def user(cluster: Cluster) -> Iterator[Path]:
    """A service account with a role of its own."""
    kubeconfig = cluster.service_account(ACCOUNT, cluster_role=None)
    grant(cluster, config_maps("get", "patch", "create"))
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    cluster.apply({**kind, "metadata": {"name": ACCOUNT}, "roleRef": reference, "subjects": [subject]})
    yield kubeconfig
    for kind_name in ("clusterrolebindings", "clusterroles"):
        cluster.api.request("DELETE", f"{RBAC}/{kind_name}/{ACCOUNT}")


def grant(cluster: Cluster, *rules: Json, without: tuple[str, ...] = ()) -> None:
    """Let the role have these rules beside the others."""
    others = [rule for rule in EVERYTHING if not set(without) & set(rule["resources"])]
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    if cluster.api.find(ROLE) is None:
        cluster.apply({**kind, "metadata": {"name": ACCOUNT}, "rules": [*others, *rules]})
    else:
        cluster.api.merge_patch(ROLE, {"rules": [*others, *rules]})


@pytest.mark.parametrize("left", [pytest.param((), marks=pytest.mark.full), ("get", "create")])
def test_a_leader_that_may_not_use_the_config_map_lets_another_replica_lead(
    scene: Scene, cluster: Cluster, daemons: Start, user: Path, left: tuple[str, ...]
) -> None:
    """Without the right to read it, and without only the right to write it, which only a write can show."""
    unable = daemons("--housekeeping-interval=1s", kubeconfig=user)
    wait_until(lambda: unable.leads, timeout_s=60, what="a leader")
    able = daemons("--housekeeping-interval=1s")
    assert not able.leads
    grant(cluster, config_maps(*left))
    wait_until(lambda: not unable.ready, timeout_s=60, what="no readiness")
    assert "configmaps" in unable.ask("/readyz")[1], unable.ask("/readyz")
    wait_until(lambda: unable.metric("unready") == 1, what="the metric")
    wait_until(lambda: able.leads, timeout_s=120, what=lambda: f"another leader; {unable.log.read_text()}\n{able.log.read_text()}")
    assert not unable.leads and unable.metric("errors_total") > 0
    assert unable.said("the Lease is released, because this rescuer could not work")
    node = full_node(scene)
    wait_bound(scene, scene.critical("dns"), node, able, timeout_s=60)
    wait_free(scene)
    assert able.stop() == 0
    wait_until(lambda: len(unable.said("cannot ")) > 0 and not unable.leads, what="a refusal")
    assert len(unable.said("leading")) == 1, "it has taken the Lease without being able to work"
    grant(cluster, config_maps("get", "patch", "create"))
    wait_until(lambda: unable.leads and unable.ready, timeout_s=60, what=lambda: f"the Lease again; {unable.log.read_text()}")
    assert unable.metric("unready") == 0


def test_a_leader_whose_watches_are_broken_lets_another_replica_lead(cluster: Cluster, daemons: Start, user: Path) -> None:
    unable = daemons("--housekeeping-interval=1s", kubeconfig=user)
    wait_until(lambda: unable.leads, timeout_s=60, what="a leader")
    able = daemons("--housekeeping-interval=1s")
    rule = {"apiGroups": [""], "resources": ["namespaces", "nodes", "persistentvolumes"], "verbs": ["list", "watch"]}
    grant(cluster, rule, config_maps("get", "patch", "create"), without=("*", "nodes"))
    cluster.kill("kube-apiserver")  # it does not end a watch whose role is gone
    cluster.start("kube-apiserver")
    wait_until(lambda: able.leads, timeout_s=180, what=lambda: f"another leader; {unable.log.read_text()}\n{able.log.read_text()}")
    wait_until(lambda: not unable.ready, timeout_s=60, what="no readiness")
    assert not unable.leads and "pods" in unable.ask("/readyz")[1]
