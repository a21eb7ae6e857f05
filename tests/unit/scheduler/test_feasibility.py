# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""find_feasible returns feasible nodes, rejections and unknowns of all filters together."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import SchedulerProfile
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import find_feasible

from tests.unit.support.cluster import cluster_state, feasibility_of
from tests.unit.support.objects import container, node, pod

HOST = "kubernetes.io/hostname"


def test_only_the_first_plugin_that_rejects_is_named() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    found = feasibility_of(pod({"cpu": "9"}, nodeSelector={"no": "such"}), [node(cordoned=True, taints=[taint])])
    assert [reason.code for reason in found.rejected["node-1"]] == ["node_unschedulable"]


def test_nodes_are_in_the_order_of_the_snapshot() -> None:
    now = cluster_state([node(name) for name in ("c", "a", "b")])
    assert find_feasible(pod(), now).feasible == ("c", "a", "b")
    assert find_feasible(pod(), now, node_names=["b", "gone", "c"]).feasible == ("c", "b")


def test_counts_are_by_reason_most_first() -> None:
    nodes = [node(f"small-{i}", allocatable={"cpu": "1", "memory": "1Gi"}) for i in range(2)]
    nodes += [node("cordoned", cordoned=True), node("slow", allocatable={"cpu": "1"}), node("fine")]
    found = feasibility_of(pod({"cpu": "2", "memory": "2Gi"}), nodes)
    assert found.feasible == ("fine",)
    assert [(reason.text, count) for reason, count in found.counts()] == [
        ("Insufficient cpu", 3),
        ("Insufficient memory", 2),
        ("node(s) were unschedulable", 1),
    ]


def test_readiness_is_not_the_scheduler_s_business() -> None:
    assert feasibility_of(pod(), [node(ready=False)]).feasible == ("node-1",)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"schedulerName": "mine"}, "foreign_scheduler"),
        ({"schedulingGates": [{"name": "wait"}]}, "scheduling_gates"),
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "unreadable"),
        ({"volumes": [{"name": "data", "ephemeral": {}}]}, "unreadable"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource_claims"),
        ({"containers": [container({"deviceclass.resource.kubernetes.io/gpu": "1"})]}, "resource_claims"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "scheduling_group"),
    ],
)
def test_what_cannot_be_judged_is_said(spec: dict[str, t.Any], code: str) -> None:
    found = feasibility_of(pod(**spec), [node()])
    assert [reason.code for reason in found.unknown] == [code]
    assert found.feasible == ("node-1",)


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "token", "projected": {}}]},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
        {"affinity": {"podAffinity": {}}},
    ],
)
def test_what_does_not_close_nodes_is_no_doubt(spec: dict[str, t.Any]) -> None:
    assert feasibility_of(pod(**spec), [node()]).unknown == ()


def test_the_caller_says_which_schedulers_are_known() -> None:
    found = find_feasible(pod(schedulerName="mine"), cluster_state([node()]), profiles={"mine": SchedulerProfile()})
    assert found.unknown == ()


def test_with_unreadable_pods_the_free_capacity_is_unknown() -> None:
    assert [reason.code for reason in feasibility_of(pod(), [node()], complete_pods=False).unknown] == ["pods_not_readable"]


@pytest.mark.parametrize(
    ("needs", "features", "feasible"),
    [
        ({"hostNetwork": True, "hostUsers": False}, [], False),
        ({"hostNetwork": True, "hostUsers": False}, ["UserNamespacesHostNetworkSupport", "Other"], True),
        ({"hostNetwork": True}, [], True),
        ({"hostUsers": False}, [], True),
        ({"containers": [container(restartPolicyRules=[{"action": "RestartAllContainers"}])]}, [], False),
        (
            {"containers": [container(restartPolicyRules=[{"action": "RestartAllContainers"}])]},
            ["RestartAllContainersOnContainerExits"],
            True,
        ),
        ({"containers": [container(restartPolicyRules=[{"action": "Restart"}])]}, [], True),
        (
            {"hostNetwork": True, "hostUsers": False, "containers": [container(restartPolicyRules=[{"action": "RestartAllContainers"}])]},
            ["RestartAllContainersOnContainerExits"],
            False,
        ),
    ],
)
def test_kubelet_features_must_be_declared(needs: dict[str, t.Any], features: list[str], feasible: bool) -> None:
    found = feasibility_of(pod(**needs), [node(features=features)])
    assert bool(found.feasible) is feasible
    assert [reason.code for reason, _count in found.counts()] == ([] if feasible else ["node_declared_features"])
