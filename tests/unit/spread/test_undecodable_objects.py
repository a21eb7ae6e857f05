# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The check, the restart and the eviction of surplus replicas treat the content of an undecodable object as unknown."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import resources
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import Undecodable, undecodable_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import check_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker, check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import decide_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import decide_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import SpreadReport

from tests.unit.support.cluster import NOW, ClusterBuilder, workers

Json = dict[str, t.Any]


def odd(resource: resources.Resource, name: str = "odd", *, namespace: str = "app", spec: t.Any = 5, **metadata: t.Any) -> Undecodable:
    """An object of which neither spec nor status can be decoded."""
    value = {"metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}", **metadata}, "spec": spec, "status": 5}
    found = undecodable_of(resource.read(json.dumps(value).encode()))
    assert found is not None
    return found


def piled_up(nodes: int = 3) -> ClusterBuilder:
    cluster = workers(nodes)
    cluster.deployment("web", ["worker-1"] * 3, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}})
    return cluster


def snapshot(cluster: ClusterBuilder, *undecodable: Undecodable) -> ClusterSnapshot:
    return cluster.snapshot(undecodable=undecodable)


def check(cluster: ClusterBuilder, *undecodable: Undecodable) -> SpreadReport:
    return check_spread(snapshot(cluster, *undecodable), CheckOptions(max_skew=1))


def only_line(cluster: ClusterBuilder, *undecodable: Undecodable) -> Json:
    found: Json = check_result(check(cluster, *undecodable), CheckOptions(), include_healthy=True)
    return found


def bound(node: str, phase: str = "Running") -> tuple[Pod, Undecodable]:
    value = {
        "metadata": {"name": "odd", "namespace": "x", "uid": "odd"},
        "spec": {"nodeName": node, "containers": 5},
        "status": {"phase": phase},
    }
    pod = resources.PODS.read(json.dumps(value).encode())
    found = undecodable_of(pod)
    assert found is not None
    return pod, found


def test_workload_is_restartable_where_everything_can_be_decoded() -> None:
    """Otherwise the other tests of this file would prove nothing."""
    assert [entry["name"] for entry in only_line(piled_up())["restartable"]] == ["web"]


def test_undecodable_pod_makes_the_free_capacity_of_its_own_node_unknown() -> None:
    cluster = piled_up(2)
    pod, undecodable = bound("worker-2")
    cluster.pods.append(pod)
    line = only_line(cluster, undecodable)["workloads"][0]
    assert line["restart_helps"] is None
    assert [blocker["reason"] for blocker in line["blockers"]] == ["undecodable"] and "Pod x/odd" in line["blockers"][0]["message"]


def test_undecodable_pod_leaves_the_other_nodes_as_they_are() -> None:
    cluster = piled_up(3)
    pod, undecodable = bound("worker-3")
    cluster.pods.append(pod)
    line = only_line(cluster, undecodable)["workloads"][0]
    assert line["restart_helps"] is True and line["feasible_domains"]


@pytest.mark.parametrize(("node", "phase"), [("", "Pending"), ("worker-2", "Succeeded"), ("worker-2", "Failed"), ("gone", "Running")])
def test_undecodable_pod_without_a_node_or_finished_affects_no_node(node: str, phase: str) -> None:
    cluster = piled_up(2)
    pod, undecodable = bound(node, phase)
    cluster.pods.append(pod)
    assert only_line(cluster, undecodable)["workloads"][0]["restart_helps"] is True


def test_undecodable_pod_that_may_be_anywhere_makes_all_nodes_unknown() -> None:
    assert only_line(piled_up(), odd(resources.PODS))["workloads"][0]["restart_helps"] is None


def test_undecodable_pod_of_a_workload_counts_as_a_replica_on_its_node() -> None:
    cluster = workers(2)
    cluster.deployment("web", ["worker-1", "worker-1"], replicas=3)
    owner = cluster.pods[0].metadata.controller
    assert owner is not None
    owners = [{"kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}]
    labels = cluster.pods[0].metadata.labels
    value = {"metadata": {"name": "web-x", "namespace": "app", "uid": "web-x", "ownerReferences": owners, "labels": labels}}
    pod = resources.PODS.read(json.dumps({**value, "spec": {"nodeName": "worker-2", "containers": 5}}).encode())
    undecodable = undecodable_of(pod)
    assert undecodable is not None
    cluster.pods.append(pod)
    line = only_line(cluster, undecodable)["workloads"][0]
    assert (line["placed"], line["domains"]["kubernetes.io/hostname"]) == (3, {"worker-1": 2, "worker-2": 1})


def test_undecodable_node_is_no_candidate_and_counts_in_no_domain() -> None:
    cluster = piled_up(2)
    cluster.nodes.pop()
    result = only_line(cluster, odd(resources.NODES, "worker-2", namespace=""))
    assert result["nodes"]["total"] == 1 and result["skipped_objects"][0]["name"] == "worker-2"


@pytest.mark.parametrize(
    "undecodable",
    [
        odd(resources.BUDGETS),
        odd(resources.BUDGETS, spec={"selector": {"matchLabels": {"app": "web"}}}),
        odd(resources.BUDGETS, namespace=""),
        odd(resources.QUOTAS),
        odd(resources.LIMIT_RANGES),
        odd(resources.REPLICA_SETS, ownerReferences=[{"uid": "d-web", "controller": True}]),
        odd(resources.REPLICA_SETS, ownerReferences="text"),
        odd(resources.NAMESPACES, "app", namespace=""),
    ],
    ids=["budget", "selecting budget", "budget somewhere", "quota", "limit range", "replica set", "ownerless", "namespace"],
)
def test_undecodable_object_that_may_forbid_a_restart_forbids_it(undecodable: Undecodable) -> None:
    cluster = piled_up()
    of = snapshot(cluster, undecodable)
    checker = WorkloadChecker(of, CheckOptions(max_skew=1))
    line = checker.check(of.deployments[0])
    decision = decide_restart(line, of, RestartOptions(only_if_helps=False), now_s=NOW)
    assert (decision.action, decision.reason.code) == ("refused", "undecodable")
    assert undecodable.name in decision.reason.text
    assert only_line(cluster, undecodable)["restartable"] == []


@pytest.mark.parametrize(
    "undecodable",
    [
        odd(resources.BUDGETS, spec={"selector": {"matchLabels": {"app": "db"}}}),
        odd(resources.BUDGETS, namespace="other"),
        odd(resources.QUOTAS, namespace="other"),
        odd(resources.REPLICA_SETS, ownerReferences=[{"uid": "d-other", "controller": True}]),
        odd(resources.CLAIMS),
        odd(resources.DEPLOYMENTS),
        odd(resources.JOBS),
        odd(resources.VOLUMES, namespace=""),
    ],
    ids=["other budget", "budget elsewhere", "quota elsewhere", "other replica set", "claim", "deployment", "job", "volume"],
)
def test_undecodable_object_of_others_forbids_nothing(undecodable: Undecodable) -> None:
    result = only_line(piled_up(), undecodable)
    assert [entry["name"] for entry in result["restartable"]] == ["web"]
    assert [entry["name"] for entry in result["skipped_objects"]] == ["odd"]


def test_undecodable_autoscaler_leaves_the_gain_unknown() -> None:
    assert only_line(piled_up(), odd(resources.AUTOSCALERS))["workloads"][0]["restart_helps"] is None


def test_deployment_with_an_undecodable_replica_set_is_not_judged() -> None:
    result = only_line(piled_up(), odd(resources.REPLICA_SETS, ownerReferences=[{"uid": "d-web", "controller": True}]))
    assert result["workloads"][0]["verdict"] == "unknown" and "ReplicaSet app/odd" in result["workloads"][0]["message"]


@pytest.mark.parametrize("name", ["data", ""])
def test_undecodable_claim_leaves_unknown_where_a_pod_that_mounts_it_can_run(name: str) -> None:
    cluster = workers(3)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.deployment("web", ["worker-1"] * 3, template={"spec": {"volumes": volumes}})
    undecodable = odd(resources.CLAIMS, name)
    line = only_line(cluster, undecodable)["workloads"][0]
    assert line["restart_helps"] is None and not only_line(cluster, undecodable)["restartable"]


def test_namespace_that_cannot_be_decoded_is_left_out_and_said() -> None:
    cluster = piled_up()
    cluster.namespaces.clear()
    report = check_spread(
        snapshot(cluster, odd(resources.NAMESPACES, "app", namespace="")), CheckOptions(namespaces=["app"], namespace_annotations=())
    )
    assert "cannot be decoded" in report.skipped_namespaces["app"].text and report.workloads == ()


def surplus() -> ClusterBuilder:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1", "worker-1", "worker-1"])
    return cluster


def evict(cluster: ClusterBuilder, *undecodable: Undecodable) -> tuple[str, str]:
    of = snapshot(cluster, *undecodable)
    (line,) = check_spread(of, CheckOptions(max_skew=1)).workloads
    options = RestartOptions(strategy=EVICT_SURPLUS, max_skew=1)
    decision = decide_eviction(line, of, ClusterState.of(of), options, now_s=NOW)
    return decision.action, decision.reason.code


def test_surplus_is_evicted_where_everything_can_be_decoded() -> None:
    """Otherwise the next tests would prove nothing."""
    assert evict(surplus())[0] == "evict"


@pytest.mark.parametrize("undecodable", [odd(resources.BUDGETS), odd(resources.QUOTAS), odd(resources.LIMIT_RANGES)], ids=str)
def test_no_surplus_is_evicted_that_an_undecodable_object_may_protect(undecodable: Undecodable) -> None:
    assert evict(surplus(), undecodable) == ("refused", "undecodable")


def test_no_surplus_is_evicted_beside_an_undecodable_autoscaler() -> None:
    assert evict(surplus(), odd(resources.AUTOSCALERS)) == ("skipped", "undecodable")


def test_workload_with_an_undecodable_pod_loses_none() -> None:
    cluster = surplus()
    first = cluster.pods.pop()
    owner, metadata = first.metadata.controller, first.metadata
    assert owner is not None
    owners = [{"kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}]
    value = {"name": metadata.name, "namespace": "app", "uid": metadata.uid, "ownerReferences": owners, "labels": metadata.labels}
    pod = resources.PODS.read(json.dumps({"metadata": value, "spec": {"nodeName": "worker-1", "containers": 5}}).encode())
    undecodable = undecodable_of(pod)
    assert undecodable is not None
    cluster.pods.append(pod)
    assert evict(cluster, undecodable) == ("refused", "undecodable")


def test_a_workload_that_cannot_be_decoded_is_named_by_its_kind() -> None:
    assert "cannot read the answer as Deployment: " in odd(resources.DEPLOYMENTS).message
