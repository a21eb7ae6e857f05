# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Workloads whose pods do not become ready are not restarted, and the refusal says what the container says."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import force_setattr
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import decide_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.restart import restart_violation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import decide_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.stuck_pods import (
    LASTING_REASONS,
    new_pods,
    stuck_container,
    unfinished_cause,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.support.cluster import NOW, ClusterBuilder, Json, struct, workers

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def waits(cluster: ClusterBuilder, pod: str, reason: str, message: str = "", *, init: bool = False, ready: bool = False) -> None:
    """A container of the pod waits with this reason."""
    found = next(one for one in cluster.pods if one.metadata.name == pod)
    state = {"waiting": {"reason": reason, "message": message}}
    statuses = "initContainerStatuses" if init else "containerStatuses"
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": str(ready)}],
        statuses: [{"name": "main", "state": state}],
    }
    force_setattr(found, "status", struct(Pod, {"status": status}).status)


def never_ready(cluster: ClusterBuilder) -> None:
    message = "containers with unready status: [main]"
    conditions = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": message}]
    for pod in cluster.pods:
        force_setattr(pod, "status", struct(Pod, {"status": {"phase": "Running", "conditions": conditions}}).status)


def refused(cluster: ClusterBuilder, *, allow_downtime: bool = False) -> str:
    snapshot = cluster.snapshot()
    (workload,) = snapshot.workloads()
    return str(restart_violation(workload, snapshot, allow_downtime=allow_downtime) or "")


def test_it_is_not_known_whether_a_restart_of_unhealthy_pods_would_end() -> None:
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    waits(cluster, cluster.pods[0].metadata.name, "CrashLoopBackOff")
    snapshot = cluster.snapshot()
    line = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0])
    assert line.prediction is not None and line.prediction.restart_helps is None
    assert [blocker.reason.code for blocker in line.prediction.blockers] == ["unhealthy_pods"]


@pytest.mark.parametrize("init", [False, True], ids=["container", "init container"])
@pytest.mark.parametrize(
    "reason",
    ["ImagePullBackOff", "ErrImagePull", "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
     "InvalidImageName"],
)  # fmt: skip
def test_a_waiting_container_refuses_the_restart_with_its_reason_and_message(reason: str, init: bool) -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    waits(cluster, "web-1", reason, "what the kubelet says", init=init)
    said = refused(cluster)
    assert said.startswith(f"unhealthy_pods: container main of pod web-1 waits with {reason}: what the kubelet says; ")
    assert refused(cluster, allow_downtime=True) == said


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", ""])
def test_a_container_that_is_being_started_does_not_refuse_the_restart(reason: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    waits(cluster, "web-1", reason)
    assert refused(cluster) == ""


def test_a_long_message_is_cut() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    waits(cluster, "web-1", "ErrImagePull", "x" * 5000)
    assert len(refused(cluster)) < 500


def test_pods_that_leave_or_have_ended_do_not_refuse_the_restart() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    cluster.pod("web-8", "worker-1", owner=("ReplicaSet", "rs-web-hash1"), deletionTimestamp="2026-01-01T00:00:00Z")
    waits(cluster, "web-8", "CrashLoopBackOff")
    cluster.pod("web-9", "worker-1", owner=("ReplicaSet", "rs-web-hash1"), phase="Failed")
    assert refused(cluster) == ""


def test_a_workload_without_a_ready_replica_is_refused_with_what_its_pod_says() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    never_ready(cluster)
    said = refused(cluster, allow_downtime=True)
    assert said.startswith("no_ready_replica: none of the 3 replicas of Deployment app/web is ready: pod web-0: containers with unready")


def test_a_stateful_set_without_a_ready_replica_is_refused() -> None:
    cluster = workers(3)
    cluster.stateful_set("db", ["worker-1"] * 3)
    never_ready(cluster)
    assert refused(cluster, allow_downtime=True).startswith("no_ready_replica: ")


def test_one_ready_replica_is_enough() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    ready = cluster.pods[0].status
    never_ready(cluster)
    force_setattr(cluster.pods[0], "status", ready)
    assert refused(cluster) == ""


@pytest.mark.parametrize("reason", ["", "CrashLoopBackOff"])
def test_pods_on_a_node_that_is_not_ready_do_not_refuse_the_restart(reason: str) -> None:
    cluster = workers(3)
    cluster.node("lost", ready=False)
    cluster.deployment("web", ["lost"] * 3)
    never_ready(cluster)
    if reason:
        waits(cluster, "web-1", reason)
    assert refused(cluster, allow_downtime=True) == ""


def test_pods_on_a_node_that_does_not_exist_any_more_do_not_refuse_the_restart() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["removed"] * 3)
    never_ready(cluster)
    assert refused(cluster, allow_downtime=True) == ""


def test_a_pod_that_is_never_ready_on_a_ready_node_counts_beside_those_on_a_lost_one() -> None:
    cluster = workers(3)
    cluster.node("lost", ready=False)
    cluster.deployment("web", ["lost", "lost", "worker-1"])
    never_ready(cluster)
    assert refused(cluster, allow_downtime=True).startswith("no_ready_replica: ")


def test_a_workload_of_no_replicas_is_not_called_unhealthy() -> None:
    cluster = workers(3)
    cluster.deployment("web", [])
    assert refused(cluster) == ""


@pytest.mark.parametrize("strategy", ["rollout", EVICT_SURPLUS])
def test_neither_a_rollout_nor_an_eviction_is_begun_and_the_check_does_not_offer_it(strategy: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    waits(cluster, "web-1", "CrashLoopBackOff", "back-off 5m0s restarting failed container")
    snapshot = cluster.snapshot()
    line = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0])
    options = RestartOptions(strategy=strategy, only_if_helps=False)
    made: t.Any
    if strategy == EVICT_SURPLUS:
        made = decide_eviction(line, snapshot, ClusterState.of(snapshot), options, now_s=NOW)
    else:
        made = decide_restart(line, snapshot, options, now_s=NOW)
    assert (made.action, made.reason.code) == ("refused", "unhealthy_pods")
    assert not line.restartable


# --- a rollout that hangs ---------------------------------------------------------------------------------------------


def hanging(verdict: str, *, restarted_at: str = "", revision: str = "hash1", number: int | None = 2) -> ClusterBuilder:
    """A Deployment whose newest pod crashes while the old ones are still there, and what is remembered on it."""
    outcome = make_outcome(now_s=NOW - 60, attempts=1, outcome=verdict, revision=revision, eligible="x", number=number)
    annotations = {RESTARTED_AT: restarted_at or outcome.time}
    template: Json = {"metadata": {"labels": {"app": "web"}, "annotations": annotations}}
    cluster = workers(3)
    metadata = {"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}}
    cluster.deployment("web", ["worker-1"], replicas=3, metadata=metadata, template=template, status={"updatedReplicas": 1})
    cluster.replica_sets.clear()
    cluster.replica_set("web", 1, "hash0")
    cluster.replica_set("web", 2, "hash1")
    for index in range(3):
        cluster.pod(f"web-old-{index}", "worker-1", owner=("ReplicaSet", "rs-web-hash0"))
    waits(cluster, "web-0", "CrashLoopBackOff", "back-off 10s restarting failed container")
    return cluster


@pytest.mark.parametrize(
    ("verdict", "revision", "number"),
    [("failed", "hash1", 2), ("pending", "hash0", 1), ("failed", "hash1", None), ("pending", "hash0", None)],
)
def test_the_next_run_says_that_the_hanging_rollout_is_its_own_and_why_it_hangs(verdict: str, revision: str, number: int | None) -> None:
    cluster = hanging(verdict, revision=revision, number=number)
    said = refused(cluster)
    assert said.startswith(
        "rolling: the rollout of Deployment app/web that k8s_rollout_restart began at 2025-12-31T23:59:00Z does not progress: "
        "container main of pod web-0 waits with CrashLoopBackOff: back-off 10s restarting failed container; "
    )
    snapshot = cluster.snapshot()
    verdict_now = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0]).verdict
    assert (verdict_now.verdict, str(verdict_now.reason)) == ("rolling", said)


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(hanging("failed", restarted_at="2026-01-01T00:00:00Z"), id="restarted by another client"),
        pytest.param(hanging("failed", number=1), id="rolled by another client since"),
        pytest.param(hanging("improved"), id="the own restart has ended"),
    ],
)
def test_a_hanging_rollout_of_another_client_is_not_called_its_own(cluster: ClusterBuilder) -> None:
    said = refused(cluster)
    assert said.startswith(
        "rolling: a rollout of Deployment app/web does not progress: container main of pod web-0 waits with CrashLoopBackOff: "
    )
    assert "k8s_rollout_restart" not in said


@pytest.mark.parametrize(("reason", "ends"), [("CrashLoopBackOff", True), ("ImagePullBackOff", True), ("ErrImagePull", False)])
def test_only_lasting_states_of_new_pods_let_a_rollout_hang(reason: str, ends: bool) -> None:
    cluster = hanging("pending")
    waits(cluster, "web-0", reason)
    waits(cluster, "web-old-1", "CrashLoopBackOff")
    snapshot = cluster.snapshot()
    pods = new_pods(snapshot.workloads()[0], snapshot)
    assert [pod.metadata.name for pod in pods] == ["web-0"]
    assert bool(stuck_container(pods)) is ends is (reason in LASTING_REASONS)


def test_a_rollout_whose_new_pods_cannot_be_created_says_why() -> None:
    denial = 'pods "web-2" is forbidden: exceeded quota: small'
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": denial}
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, replicas=3, status={"updatedReplicas": 2, "conditions": [failure]})
    snapshot = cluster.snapshot()
    assert unfinished_cause(snapshot.deployments[0], snapshot) == f"a pod of Deployment app/web cannot be created: {denial}"


def test_before_the_controller_has_seen_a_revision_there_are_no_new_pods() -> None:
    cluster = workers(3)
    workload = cluster.deployment("web", ["worker-1"] * 3, metadata={"generation": 2})
    assert new_pods(workload, cluster.snapshot()) == []


def test_pods_that_a_partition_keeps_are_no_new_pods() -> None:
    cluster = workers(3)
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    workload = cluster.stateful_set("db", ["worker-1"] * 3, updateStrategy=update, status={"updateRevision": "rev2"})
    assert new_pods(workload, cluster.snapshot()) == []
