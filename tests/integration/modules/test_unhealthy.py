# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that do not become ready: they are not restarted, and a rollout that cannot end is not waited for."""

from __future__ import annotations

import subprocess
from functools import partial
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules, result_of
from tests.integration.workloads import (
    deployment,
    identity,
    known_outcome,
    not_ready,
    outcome,
    pile_up,
    pod_uids,
    pods_of,
    stateful_set,
    wait_until,
    workers,
)

WAITING = "lab.onprem/waiting"
READY = "lab.onprem/ready"
MESSAGE = "kept waiting by the annotation lab.onprem/waiting"
LONG_S = 300
"""Much longer than any of these tests may take: who waits for it fails them."""


def annotate_pods(cluster: Cluster, manifest: dict[str, Any], annotation: str, *, pods: int | None = None) -> None:
    """Give the workload's first pods (all, unless a number is given) an annotation, or take it away (``key-``)."""
    names = sorted(pod["metadata"]["name"] for pod in pods_of(cluster, manifest))
    cluster.kubectl("annotate", "pods", *names[:pods], annotation, "--overwrite", "-n", manifest["metadata"]["namespace"])


def ready_pods(cluster: Cluster, manifest: dict[str, Any]) -> int:
    conditions = (pod["status"].get("conditions", []) for pod in pods_of(cluster, manifest))
    return sum(any(c["type"] == "Ready" and c["status"] == "True" for c in found) for found in conditions)


def fails_when_restarted(cluster: Cluster, manifest: dict[str, Any], annotation: str, value: str) -> None:
    """Pile the workload up so that the pods of today are ready and those that its template makes from now on are not."""
    manifest["spec"]["template"]["metadata"]["annotations"] = {annotation: value}
    replicas = manifest["spec"]["replicas"]
    others = workers(cluster)[1:]
    cluster.cordon(*others)
    try:
        cluster.apply(manifest)
        wait_until(lambda: len(pods_of(cluster, manifest)) == replicas, what="the pods")
        annotate_pods(cluster, manifest, f"{annotation}-")
        wait_until(lambda: ready_pods(cluster, manifest) == replicas, what="ready pods")
        cluster.kubectl(
            "rollout", "status", f"{manifest['kind'].lower()}/{manifest['metadata']['name']}", "-n", manifest["metadata"]["namespace"]
        )
    finally:
        cluster.uncordon(*others)


@pytest.mark.parametrize("strategy", ["rollout", "evict_surplus"])
@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"])
def test_a_workload_with_a_waiting_container_is_refused_with_the_containers_message(
    cluster: Cluster, modules: Modules, namespace: str, reason: str, strategy: str
) -> None:
    web = deployment(namespace, "web", 3)
    pile_up(cluster, web)
    before = pod_uids(cluster, web)
    annotate_pods(cluster, web, f"{WAITING}={reason}", pods=1)
    wait_until(lambda: ready_pods(cluster, web) == 2, what="the waiting container")
    assert modules.check(namespace)["restartable"] == []
    result = modules.restart(**identity(web), strategy=strategy, wait_timeout=LONG_S)
    line = result["workloads"][0]
    assert result["failed"] and line["action"] == "refused", line
    assert (
        line["reason"] == "unhealthy_pods"
        and line["message"].startswith("container main of pod web-")
        and f"{reason}: {MESSAGE}" in line["message"]
    )
    assert pod_uids(cluster, web) == before and outcome(cluster, web) is None


def test_a_workload_that_never_became_ready_is_refused(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    annotate_pods(cluster, web, f"{READY}=false")
    wait_until(lambda: ready_pods(cluster, web) == 0, what="pods that are not ready")
    before = pod_uids(cluster, web)
    line = modules.restart(**identity(web), allow_downtime=True, wait_timeout=LONG_S)["workloads"][0]
    assert (line["action"], line["reason"]) == ("refused", "no_ready_replica"), line
    assert "lab.onprem/ready" in line["message"], "the message of the pod"
    assert pod_uids(cluster, web) == before


def test_a_workload_whose_node_is_not_ready_is_restarted(cluster: Cluster, modules: Modules, namespace: str) -> None:
    home = workers(cluster)[0]
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=home)
    with not_ready(cluster, home):
        annotate_pods(cluster, web, f"{READY}=false")  # the lab's kubelets would make the pods ready again
        wait_until(lambda: ready_pods(cluster, web) == 0, what="pods that are not ready")
        line = modules.restart(**identity(web), allow_downtime=True, wait_timeout=60)["workloads"][0]
    assert line["action"] == "restarted", line
    assert home not in {pod["spec"]["nodeName"] for pod in pods_of(cluster, web) if "deletionTimestamp" not in pod["metadata"]}


@pytest.mark.parametrize("manifest", [deployment, partial(stateful_set, podManagementPolicy="Parallel")], ids=["Deployment", "StatefulSet"])
def test_a_rollout_whose_new_pods_crash_is_not_waited_for_and_the_next_run_knows_it(
    cluster: Cluster, modules: Modules, namespace: str, manifest: Any
) -> None:
    web = manifest(namespace, "web", 3)
    fails_when_restarted(cluster, web, WAITING, "CrashLoopBackOff")
    line = modules.restart(workloads=[identity(web)], wait_timeout=LONG_S)["workloads"][0]
    assert (line["action"], line["outcome"]) == ("failed", "failed"), line
    assert f"waits with CrashLoopBackOff: {MESSAGE}" in line["message"]
    assert line["duration"] < LONG_S / 2, "it was not waited for"
    assert known_outcome(cluster, web)["outcome"] == "failed"
    (judged,) = modules.check(namespace)["workloads"]
    again = modules.restart(**identity(web))["workloads"][0]
    assert (judged["verdict"], again["action"], judged["message"]) == ("rolling", "refused", again["message"])
    for words in ("k8s_rollout_restart began at", "does not progress", "CrashLoopBackOff", "kubectl rollout undo"):
        assert words in again["message"]


def test_a_rollout_that_is_not_finished_in_time_says_what_its_pod_says(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 3)
    fails_when_restarted(cluster, web, READY, "false")
    line = modules.restart(workloads=[identity(web)], wait_timeout=4)["workloads"][0]
    assert line["action"] == "failed" and "after 4 s; pod web-" in line["message"] and "lab.onprem/ready" in line["message"], line


def test_a_new_pod_that_recovers_from_a_crash_does_not_end_the_wait(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    fails_when_restarted(cluster, web, WAITING, "Error")  # ended, and to be started again: the kubelet does not back off yet
    process = modules.start("k8s_rollout_restart", workloads=[identity(web)], wait_timeout=LONG_S)
    old = pod_uids(cluster, web)
    wait_until(lambda: len(pod_uids(cluster, web) - old) > 0, what="a new pod")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=12)  # two checks of its containers
    for _pod in range(2):
        wait_until(lambda: waiting_pods(cluster, web) != [] or process.poll() is not None, what="a waiting pod")
        for name in waiting_pods(cluster, web):  # only these: the rollout deletes the old ones meanwhile
            cluster.kubectl("annotate", "pod", name, f"{WAITING}-", "-n", namespace)
    line = result_of(process)["workloads"][0]
    assert (line["action"], line["outcome"]) == ("restarted", "improved"), line


def waiting_pods(cluster: Cluster, manifest: dict[str, Any]) -> list[str]:
    """The names of the workload's pods with a container that waits."""
    return [pod["metadata"]["name"] for pod in pods_of(cluster, manifest) if _waits(pod)]


def _waits(pod: dict[str, Any]) -> bool:
    return any("waiting" in status["state"] for status in pod["status"].get("containerStatuses", []))


def test_a_replacement_that_crashes_is_not_waited_for(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 3)
    fails_when_restarted(cluster, web, WAITING, "CreateContainerConfigError")
    line = modules.restart(workloads=[identity(web)], strategy="evict_surplus", wait_timeout=LONG_S)["workloads"][0]
    assert (line["action"], line["outcome"], len(line["evicted"])) == ("failed", "failed", 1), line
    assert f"waits with CreateContainerConfigError: {MESSAGE}" in line["message"] and line["duration"] < LONG_S / 2


def test_a_replacement_that_crashes_after_it_was_ready_is_not_waited_for(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 3, minReadySeconds=20)
    pile_up(cluster, web)
    old = pod_uids(cluster, web)
    process = modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy="evict_surplus", wait_timeout=LONG_S)
    wait_until(lambda: len(pod_uids(cluster, web) - old) > 0 and ready_pods(cluster, web) == 3, what="a ready replacement")
    (name,) = (pod["metadata"]["name"] for pod in pods_of(cluster, web) if pod["metadata"]["uid"] not in old)
    cluster.kubectl("annotate", "pod", name, f"{WAITING}=CrashLoopBackOff", "-n", namespace)
    line = result_of(process)["workloads"][0]
    assert (line["action"], line["outcome"], len(line["evicted"])) == ("failed", "failed", 1), line
    assert f"pod {name} waits with CrashLoopBackOff: {MESSAGE}" in line["message"] and line["duration"] < LONG_S / 2
