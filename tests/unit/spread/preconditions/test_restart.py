# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Budgets, strategies, volumes, quotas and autoscalers can forbid a restart."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.admission.quota import quota_violation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.admission.surge_quota import surge_capacity
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.autoscaling import autoscaling_violation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.restart import (
    disruption_violation,
    restart_violation,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.workload_budgets import lowest_ready
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.rollout import RolloutBounds, rollout_bounds

from tests.unit.support.cluster import ClusterBuilder, Json, struct, workers


def rolling(unavailable: int | str | None, surge: int | str | None) -> dict[str, t.Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}


@pytest.mark.parametrize(
    ("replicas", "strategy", "expected"),
    [
        (4, rolling("25%", "25%"), (1, 1)),
        (3, rolling("25%", "25%"), (0, 1)),
        (1, rolling("25%", "25%"), (0, 1)),
        (10, rolling("34%", "34%"), (3, 4)),
        (3, rolling(0, 0), (1, 0)),
        (3, rolling("10%", 0), (1, 0)),
        (2, rolling(5, 0), (2, 0)),
        (3, {"type": "Recreate"}, (3, 0)),
        (3, None, (0, 1)),
    ],
)
def test_bounds_of_a_deployment_as_its_controller_works_them_out(replicas, strategy, expected):
    cluster = workers(1)
    spec = {} if strategy is None else {"strategy": strategy}
    assert rollout_bounds(cluster.deployment("web", ["worker-1"] * replicas, **spec)) == RolloutBounds(*expected)


def refused(cluster: ClusterBuilder, *, allow_downtime: bool = False, **options: t.Any) -> str:
    snapshot = cluster.snapshot(**options)
    (workload,) = snapshot.workloads()
    reason = restart_violation(workload, snapshot, allow_downtime=allow_downtime)
    return reason.code if reason is not None else ""


@pytest.mark.parametrize(
    ("homes", "spec", "expected"),
    [
        (2, {}, ""),
        (1, {}, ""),
        (1, {"strategy": rolling(1, 0)}, "downtime"),
        (2, {"strategy": rolling(2, 1)}, "downtime"),
        (2, {"strategy": rolling("100%", 0)}, "downtime"),
        (2, {"strategy": {"type": "Recreate"}}, "downtime"),
        (2, {"paused": True}, "paused"),
    ],
)
def test_deployments_that_may_come_down_to_nothing_are_refused(homes, spec, expected):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * homes, **spec)
    assert refused(cluster) == expected
    assert refused(cluster, allow_downtime=True) == ("" if expected == "downtime" else expected)


@pytest.mark.parametrize(
    ("replicas", "desired", "current", "strategy", "expected"),
    [
        (4, 3, 4, rolling(1, 0), ""),
        (4, 4, 4, rolling(1, 0), "budget"),
        (4, 4, 4, rolling(0, 1), ""),
        (4, 3, 4, rolling(2, 0), "budget"),
        pytest.param(4, 5, 8, rolling(2, 0), "", id="the budget also covers pods of others"),
        pytest.param(4, 7, 8, rolling(2, 0), "budget", id="others are no help if the budget is tight"),
    ],
)
def test_a_rollout_must_leave_what_the_budget_asks_for(replicas, desired, current, strategy, expected):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * replicas, strategy=strategy)
    cluster.budget("keep", "web", desired=desired, current=current)
    cluster.budget("other", "someone-else", desired=9, current=9)
    assert refused(cluster) == expected
    assert refused(cluster, allow_downtime=True) == ""


@pytest.mark.parametrize(
    ("strategy", "ready", "available", "expected"),
    [
        ({"type": "Recreate"}, 4, 0, "downtime"),
        ({"type": "Recreate"}, 0, 0, "downtime"),
        (rolling(1, 1), 4, 0, "downtime"),
        (rolling(1, 1), 4, 2, "budget"),
        (rolling(1, 1), 4, 3, ""),
        (rolling(0, 1), 4, 4, ""),
    ],
)
def test_ready_pods_that_are_not_available_yet_are_lost_first(strategy, ready, available, expected):
    cluster = workers(2)
    status = {"readyReplicas": ready, "availableReplicas": available}
    cluster.deployment("web", ["worker-1"] * 4, strategy=strategy, status=status)
    cluster.budget("keep", "web", desired=3, current=ready)
    assert refused(cluster) == expected


def test_a_budget_that_its_controller_cannot_compute_allows_no_restart():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 4, strategy=rolling(1, 0))
    failed = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "found no controller"}
    cluster.budget("keep", "web", desired=1, current=4, conditions=[failed])
    snapshot = cluster.snapshot()
    reason = restart_violation(snapshot.workloads()[0], snapshot, allow_downtime=False)
    assert str(reason) == "budget: the controller of PodDisruptionBudget keep cannot compute its status: found no controller"


@pytest.mark.parametrize(("label", "expected"), [("shop", "budget"), ("other", "")])
def test_a_budget_that_another_rollout_uses_allows_no_further_restart(label, expected):
    cluster = workers(2)
    mine = {"metadata": {"labels": {"app": "web", "tier": "shop"}}}
    cluster.deployment("web", ["worker-1"] * 4, strategy=rolling(1, 0), template=mine)
    theirs = {"metadata": {"labels": {"app": "db", "tier": label}}}
    cluster.stateful_set("db", ["worker-1"] * 2, template=theirs, status={"updatedReplicas": 1})
    cluster.budget("keep", "none", desired=1, current=6, labels={"tier": "shop"})
    snapshot = cluster.snapshot()
    web = next(workload for workload in snapshot.workloads() if workload.metadata.name == "web")
    reason = restart_violation(web, snapshot, allow_downtime=False)
    assert (reason.code if reason is not None else "") == expected


@pytest.mark.parametrize(("observed", "expected"), [(1, "budget"), (2, "")])
def test_a_budget_that_its_controller_has_not_seen_yet_says_nothing(observed, expected):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 4, strategy=rolling(1, 0))
    cluster.budget("keep", "web", desired=1, current=4, generation=2, observed=observed)
    assert refused(cluster) == expected


def test_a_budget_over_a_label_that_only_the_pods_have_counts():
    cluster = workers(2)
    cluster.stateful_set("db", ["worker-1"] * 2)
    cluster.pods[0] = replace(cluster.pods[0], metadata=replace(cluster.pods[0].metadata, labels={"app": "db", "shard": "0"}))
    cluster.budget("first", "db", desired=1, current=1, labels={"shard": "0"})
    assert refused(cluster) == "budget"


def test_a_restart_that_takes_nothing_further_away_is_not_refused():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1", "", ""], strategy=rolling(2, 1), status={"availableReplicas": 1})
    cluster.budget("keep", "web", desired=3, current=1)
    assert refused(cluster) == ""


@pytest.mark.parametrize(
    ("replicas", "spec", "expected"),
    [
        (2, {}, ""),
        (1, {}, "downtime"),
        (3, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}}}, "downtime"),
        (2, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}, ""),
        (2, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}, "partition"),
        (2, {"updateStrategy": {"type": "OnDelete"}}, "on_delete"),
        (5, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "99%"}}}, ""),
    ],
)
def test_stateful_sets(replicas, spec, expected):
    cluster = workers(2)
    cluster.stateful_set("db", ["worker-1"] * replicas, **spec)
    assert refused(cluster) == expected


def test_lowest_ready_of_a_stateful_set_counts_the_partition():
    cluster = workers(2)
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 4, "maxUnavailable": 3}}
    assert lowest_ready(cluster.stateful_set("db", ["worker-1"] * 5, updateStrategy=update)) == 4


@pytest.mark.parametrize(("wanted", "expected"), [(None, 1), ("25%", 1), ("40%", 2), ("10%", 1), (3, 3)])
def test_bounds_of_a_stateful_set_are_rounded_down(wanted, expected):
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": wanted}}
    stateful_set = workers(1).stateful_set("db", ["worker-1"] * 5, updateStrategy=update)
    assert rollout_bounds(stateful_set) == RolloutBounds(expected, 0)


@pytest.mark.parametrize(("own", "expected"), [("other", "shared_rwo_volume"), ("data", "")])
def test_a_claim_that_the_template_of_a_stateful_set_names_is_shared(own, expected):
    cluster = workers(2)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.stateful_set(
        "db", ["worker-1"] * 2, template={"spec": {"volumes": volumes}}, volumeClaimTemplates=[{"metadata": {"name": own}}]
    )
    cluster.claim("data", "ReadWriteOnce")
    assert refused(cluster, allow_downtime=True) == expected


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (["ReadWriteOnce"], "shared_rwo_volume"),
        (["ReadWriteOncePod"], "shared_rwo_volume"),
        (["ReadWriteMany"], ""),
        ([], ""),
        (["ReadWriteOnce", "ReadOnlyMany"], ""),
    ],
)
def test_a_claim_that_only_one_node_can_mount(modes, expected):
    cluster = workers(2)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"volumes": volumes}})
    cluster.claim("data", *modes)
    assert refused(cluster, allow_downtime=True) == expected


@pytest.mark.parametrize(
    ("modes", "source", "drivers", "expected"),
    [
        (["ReadWriteOnce"], {"nfs": {"server": "files", "path": "/"}}, {}, ""),
        (["ReadWriteOncePod"], {"nfs": {"server": "files", "path": "/"}}, {}, "shared_rwo_volume"),
        (["ReadWriteOnce"], {"iscsi": {"iqn": "x"}}, {}, "shared_rwo_volume"),
        (["ReadWriteOnce"], {"hostPath": {"path": "/data"}}, {}, "shared_rwo_volume"),
        (["ReadWriteOnce"], {"csi": {"driver": "nfs.csi.k8s.io"}}, {"nfs.csi.k8s.io": {"attachRequired": False}}, ""),
        (["ReadWriteOnce"], {"csi": {"driver": "disk"}}, {"disk": {"attachRequired": True}}, "shared_rwo_volume"),
        (["ReadWriteOnce"], {"csi": {"driver": "disk"}}, {"disk": {}}, "shared_rwo_volume"),
        (["ReadWriteOnce"], {"csi": {"driver": "unknown"}}, {}, "shared_rwo_volume"),
    ],
)
def test_a_volume_that_is_not_attached_can_be_mounted_by_several_nodes(
    modes: list[str], source: dict[str, t.Any], drivers: dict[str, dict[str, t.Any]], expected: str
) -> None:
    """The scheduler spreads replicas that share an NFS volume in spite of ReadWriteOnce."""
    cluster = workers(2)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"volumes": volumes}})
    spec = {"accessModes": modes, "volumeName": "pv"}
    cluster.claims.append(struct(PersistentVolumeClaim, {"metadata": {"name": "data", "namespace": "app"}, "spec": spec}))
    storage = Storage(
        volumes=(struct(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {"accessModes": modes, **source}}),),
        drivers=tuple(struct(CSIDriver, {"metadata": {"name": name}, "spec": spec}) for name, spec in drivers.items()),
    )
    assert refused(cluster, allow_downtime=True, storage=storage) == expected


@pytest.mark.parametrize(
    ("hard", "used", "spec", "expected"),
    [
        pytest.param({"pods": "5"}, {"pods": "4"}, {}, (1, ""), id="capacity for the whole surge"),
        pytest.param({"pods": "4"}, {"pods": "4"}, {}, (0, "q"), id="no pod more"),
        pytest.param({"requests.cpu": "1"}, {"requests.cpu": "950m"}, {}, (0, "q"), id="no cpu left"),
        pytest.param({"cpu": "1"}, {"cpu": "900m"}, {}, (1, ""), id="just enough cpu"),
        pytest.param({"limits.cpu": "1"}, {"limits.cpu": "1"}, {}, (1, ""), id="limits that the pod does not set"),
        pytest.param({"services": "1"}, {"services": "1"}, {}, (1, ""), id="not about pods"),
        pytest.param({"pods": "0"}, {}, {"scopes": ["BestEffort"]}, (1, ""), id="another scope"),
        pytest.param({"pods": "0"}, {}, {"scopes": ["NotBestEffort"]}, (0, "q"), id="its scope"),
        pytest.param({"pods": "0"}, {}, {"scopes": ["Terminating"]}, (1, ""), id="pods with a deadline"),
    ],
)
def test_quotas_bound_the_surge(hard, used, spec, expected):
    cluster = workers(2)
    workload = cluster.deployment("web", ["worker-1"] * 4, strategy=rolling(0, "25%"))
    cluster.quota("q", hard, used, **spec)
    assert surge_capacity(workload, cluster.snapshot()) == expected


@pytest.mark.parametrize(("hard", "room"), [("requests.cpu", 0), ("limits.cpu", 0), ("requests.memory", 1)])
def test_limits_without_requests_count_as_requests_for_quotas(hard, room):
    cluster = workers(2)
    limits = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}}
    workload = cluster.deployment("web", ["worker-1"] * 4, template=limits, strategy=rolling(0, "25%"))
    cluster.quota("q", {hard: "4"}, {hard: "4"})
    assert surge_capacity(workload, cluster.snapshot()).pods == room


@pytest.mark.parametrize(
    ("hard", "code"),
    [({"pods": "3"}, "quota"), ({"pods": "4"}, ""), ({"requests.cpu": "300m"}, "quota"), ({"secrets": "0"}, "")],
)
@pytest.mark.parametrize("strategy", [rolling(1, 1), {"type": "Recreate"}], ids=["RollingUpdate", "Recreate"])
def test_a_rollout_under_an_overdrawn_quota_would_lose_pods(strategy: Json, hard: dict[str, str], code: str) -> None:
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 4, strategy=strategy)
    cluster.quota("small", hard, {"pods": "4", "requests.cpu": "400m", "secrets": "1"})
    snapshot = cluster.snapshot()
    (line,) = check_spread(snapshot, CheckOptions()).workloads
    forbidden = restart_violation(line.workload, snapshot, allow_downtime=True)
    assert (forbidden.code if forbidden is not None else "") == code
    assert line.prediction is not None and line.prediction.restart_helps is (code == "")


@pytest.mark.parametrize(
    ("hard", "evictions", "rollout"),
    [("1500m", "", ""), ("1100m", "", "quota"), ("900m", "quota", "quota"), ("700m", "quota", "quota")],
)
def test_new_pods_that_ask_for_more_than_those_that_go_need_what_the_quota_leaves(hard: str, evictions: str, rollout: str) -> None:
    """Four pods of 200m, made before the LimitRange gave 350m."""
    cluster = workers(2)
    bare: Json = {"spec": {"containers": [{"name": "main"}]}}
    workload = cluster.deployment("web", ["worker-1"] * 4, template=bare, strategy=rolling(1, 1))
    given = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container main"}
    cluster.pods.clear()
    for number in range(4):
        made: Json = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "200m"}}}]}}
        owner = ("ReplicaSet", "rs-web-hash1")
        cluster.pod(f"web-{number}", "worker-1", owner=owner, template=made, annotations=given)
    cluster.limit_range(defaultRequest={"cpu": "350m"})
    cluster.quota("tight", {"requests.cpu": hard}, {"requests.cpu": "800m"})
    snapshot = cluster.snapshot()
    found = quota_violation(workload, snapshot), disruption_violation(workload, snapshot, allow_downtime=False)
    assert [reason.code if reason is not None else "" for reason in found] == [evictions, rollout]


@pytest.mark.parametrize(
    ("low", "high", "desired", "expected"),
    [(1, 9, 3, ""), (1, 9, 0, ""), (1, 9, 5, "autoscaling"), (4, 9, 3, "autoscaling"), (1, 2, 3, "autoscaling")],
)
def test_an_autoscaler_that_is_about_to_act(low, high, desired, expected):
    cluster = workers(2)
    workload = cluster.deployment("web", ["worker-1"] * 3)
    cluster.autoscaler("web", low, high, desired)
    cluster.autoscaler("other", 7, 9, 8)
    reason = autoscaling_violation(workload, cluster.snapshot())
    assert (reason.code if reason is not None else "") == expected


@pytest.mark.parametrize(("low", "expected"), [(1, ""), (4, "autoscaling")])
def test_an_autoscaler_without_metrics_only_keeps_its_bounds(low: int, expected: str) -> None:
    cluster = workers(2)
    workload = cluster.deployment("web", ["worker-1"] * 3)
    cluster.autoscaler("web", low, 9, 5, active="False")
    reason = autoscaling_violation(workload, cluster.snapshot())
    assert (reason.code if reason is not None else "") == expected


def test_an_autoscaler_of_another_api_group_with_the_same_kind_and_name_does_not_count() -> None:
    cluster = workers(2)
    workload = cluster.deployment("web", ["worker-1"] * 3)
    cluster.autoscaler("web", 7, 9, 8, api_version="example.org/v1")
    assert autoscaling_violation(workload, cluster.snapshot()) is None


def test_a_quota_that_leaves_no_surge_pod_is_told_with_its_numbers() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})
    cluster.quota("tight", {"pods": "3"}, {"pods": "3"})
    (line,) = check_spread(cluster.snapshot(), CheckOptions()).workloads
    assert line.prediction is not None
    (blocker,) = line.prediction.blockers
    assert blocker.reason.text == (
        "ResourceQuota app/tight allows 3 pods and 3 are used: no capacity for a surge pod; evict_surplus needs none"
    )
