# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A restart has a correct result although its workload is edited or deleted, its write is refused, or its watch is forbidden."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_restart
from tests.integration.modules.module_process import Modules, result_of
from tests.integration.workloads import (
    deployment,
    identity,
    known_outcome,
    outcome,
    pile_up,
    pod_uids,
    restarted_at,
    wait_until,
)

SLOW = {"lab.onprem/ready-delay": "5"}


def slow_deployment(namespace: str, name: str = "web") -> dict[str, Any]:
    """Its pods become ready five seconds after they start, so that a rollout can be disturbed in its middle."""
    manifest = deployment(namespace, name, 2)
    manifest["spec"]["template"]["metadata"]["annotations"] = dict(SLOW)
    return manifest


def test_write_that_changes_no_checked_field_does_not_end_the_restart(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    conflicts: list[str] = []

    def touch_first(review: Review) -> None:
        if is_restart(review) and len(conflicts) < 3:
            conflicts.append(review["uid"])
            cluster.kubectl("label", "deployment/web", "-n", namespace, "--overwrite", f"touched={len(conflicts)}")

    audit = cluster.audit()
    mark = audit.mark()
    with admission_webhook(cluster, "touch", namespace, touch_first):
        line = modules.restart(workloads=[identity(web)])["workloads"][0]
    assert (line["action"], line["outcome"]) == ("restarted", "improved")
    codes = [event.code for event in audit.events(since=mark, user_agent="onprem.kube_scheduling", verb="patch", resource="deployments")]
    assert codes.count(409) >= 1


def test_an_edit_in_between_is_kept_and_the_restart_is_skipped(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    edited: list[str] = []

    def edit_first(review: Review) -> None:
        if is_restart(review) and not edited:
            edited.append(review["uid"])
            cluster.kubectl("set", "image", "deployment/web", "-n", namespace, "main=registry.k8s.io/pause:3.9")

    with admission_webhook(cluster, "edit", namespace, edit_first):
        result = modules.restart(workloads=[identity(web)])
    line = result["workloads"][0]
    assert (line["action"], line["reason"]) == ("skipped", "changed_meanwhile")
    assert not result.get("failed") and restarted_at(cluster, web) is None and outcome(cluster, web) is None


def test_a_webhook_that_refuses_fails_the_task_with_its_words(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    pods = pod_uids(cluster, web)
    with admission_webhook(cluster, "refuse", namespace, lambda review: "frozen until Monday" if is_restart(review) else None):
        result = modules.restart(workloads=[identity(web)])
    assert result["failed"] and "frozen until Monday" in result["workloads"][0]["message"]
    assert f"Deployment {namespace}/web" in result["msg"]
    assert pod_uids(cluster, web) == pods and outcome(cluster, web) is None


def test_a_workload_deleted_between_check_and_restart_is_skipped(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    found = modules.check(namespace)
    cluster.kubectl("delete", "deployment", "web", "-n", namespace)
    result = modules.restart(workloads=found["restartable"])
    assert not result.get("failed") and result["changed"] is False
    assert (result["workloads"][0]["action"], result["workloads"][0]["reason"]) == ("skipped", "vanished")


def test_a_workload_deleted_during_its_rollout_is_reported(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = slow_deployment(namespace)
    pile_up(cluster, web)
    process = modules.start("k8s_rollout_restart", workloads=[identity(web)])
    wait_until(lambda: restarted_at(cluster, web) is not None, what="the restart")
    cluster.kubectl("delete", "deployment", "web", "-n", namespace)
    result = result_of(process)
    assert result["failed"] and result["workloads"][0]["action"] == "failed"
    assert "web" in result["workloads"][0]["message"]


LONG_S = 900
"""Longer than a test waits for a module: who waits for it fails the test."""


@pytest.mark.parametrize("strategy", ["rollout", "evict_surplus"])
def test_a_workload_that_is_created_again_during_its_restart_is_not_taken_for_the_restarted_one(
    cluster: Cluster, modules: Modules, namespace: str, strategy: str
) -> None:
    web = slow_deployment(namespace)
    pile_up(cluster, web)
    process = modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy=strategy, wait_timeout=LONG_S)
    wait_until(lambda: outcome(cluster, web) is not None, what="the restart")
    cluster.kubectl("delete", "deployment", "web", "-n", namespace)
    cluster.apply(web)
    result = result_of(process)
    line = result["workloads"][0]
    assert result["failed"] and line["action"] == "failed" and line["outcome"] != "improved", line
    assert outcome(cluster, web) is None, "nothing is remembered on the new workload"


def test_a_deployment_that_is_paused_during_its_rollout_is_not_waited_for(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = slow_deployment(namespace)
    pile_up(cluster, web)
    process = modules.start("k8s_rollout_restart", workloads=[identity(web)], wait_timeout=LONG_S)
    wait_until(lambda: restarted_at(cluster, web) is not None, what="the restart")
    cluster.kubectl("rollout", "pause", "deployment/web", "-n", namespace)
    line = result_of(process)["workloads"][0]
    assert (line["action"], line["outcome"]) == ("failed", "failed") and "is paused" in line["message"], line
    cluster.kubectl("rollout", "resume", "deployment/web", "-n", namespace)


def test_a_restart_that_is_scaled_meanwhile_is_finished_and_remembered(cluster: Cluster, modules: Modules, namespace: str) -> None:
    sets = [slow_deployment(namespace), {**slow_deployment(namespace, "db"), "kind": "StatefulSet"}]
    sets[1]["spec"]["serviceName"] = "db"
    pile_up(cluster, *sets)
    process = modules.start("k8s_rollout_restart", workloads=[identity(one) for one in sets], max_parallel=2, wait_timeout=LONG_S)
    wait_until(lambda: all(restarted_at(cluster, one) is not None for one in sets), what="the restarts")
    wait_until(lambda: "expected" in (outcome(cluster, sets[1]) or {}), what="the revision of the StatefulSet")
    for one in sets:
        cluster.kubectl("scale", f"{one['kind'].lower()}/{one['metadata']['name']}", "-n", namespace, "--replicas=3")
    result = result_of(process)
    lines = [(line["action"], line["outcome"]) for line in result["workloads"]]
    assert lines == [("restarted", "improved")] * 2 and not result.get("warnings"), result
    assert [known_outcome(cluster, one)["outcome"] for one in sets] == ["improved"] * 2


def test_without_permission_to_watch_the_workload_is_read_repeatedly(cluster: Cluster, modules: Modules, namespace: str) -> None:
    rules = [
        {"apiGroups": ["", "apps", "policy", "autoscaling"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]},
    ]
    subject = {"kind": "ServiceAccount", "name": "no-watch", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "no-watch"}
    kubeconfig = cluster.service_account("no-watch", namespace=namespace, cluster_role=None)
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    cluster.apply([
        {**api, "kind": "ClusterRole", "metadata": {"name": "no-watch"}, "rules": rules},
        {**api, "kind": "ClusterRoleBinding", "metadata": {"name": "no-watch"}, "roleRef": reference, "subjects": [subject]},
    ])  # fmt: skip
    web = slow_deployment(namespace)
    pile_up(cluster, web)
    result = Modules(kubeconfig).restart(workloads=[identity(web)], wait_sleep=1)
    assert (result["workloads"][0]["action"], result["workloads"][0]["outcome"]) == ("restarted", "improved"), result
    assert any("no event was written" in str(warning) for warning in result["warnings"])
