# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The role critical_rescuer against a real API server: the Deployment installed, repeated, changed, rendered and deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.roles.host_cases import play_role
from tests.integration.roles.installed import installed, remove_all
from tests.integration.roles.pod_monitors import prometheus_operator
from tests.integration.roles.role_play import RolePlay

__all__ = ["prometheus_operator"]

NAMESPACE = "kube-scheduling"
NAME = "kube-scheduling-rescuer"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
RIGHTS = {
    *(f"{kind} /{NAME}" for kind in ("clusterroles", "clusterrolebindings")),
    *(f"{kind} {namespace}/{NAME}" for kind in ("roles", "rolebindings") for namespace in ("kube-system", "default")),
}
OBJECTS = RIGHTS | {
    f"namespaces /{NAMESPACE}",
    f"configmaps {NAMESPACE}/kube-root-ca.crt",
    f"serviceaccounts {NAMESPACE}/default",
    *(
        f"{kind} {NAMESPACE}/{NAME}"
        for kind in ("serviceaccounts", "configmaps", "services", "networkpolicies", "poddisruptionbudgets", "deployments")
    ),
}
POD_MONITOR = f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}/podmonitors/{NAME}"
# Each run of a role takes many seconds on a machine with other work.
pytestmark = pytest.mark.timeout(1800)
OF_CONTROLLERS = ("replicasets ", "pods ")


def made(cluster: Cluster) -> set[str]:
    """Return the objects of the role, without those that controllers make for them."""
    return {name for name in installed(cluster) if not name.startswith(OF_CONTROLLERS)}


@pytest.fixture
def role(cluster: Cluster, tmp_path: Path) -> Iterator[RolePlay]:
    """The role with an image that no node has, because the pods are simulated. What a test has installed is deleted after it."""
    variables = {
        "critical_rescuer_kubeconfig": str(cluster.kubeconfig),
        "critical_rescuer_image": "registry.example.org/kube-scheduling/services:1",
    }
    yield RolePlay("critical_rescuer", tmp_path, variables)
    remove_all(cluster)


@pytest.fixture
def monitoring(cluster: Cluster) -> Iterator[str]:
    """A namespace whose pods are rescued, too."""
    cluster.kubectl("create", "namespace", "monitoring")
    yield "monitoring"
    cluster.kubectl("delete", "namespace", "monitoring")


@pytest.mark.full
def test_installation_is_planned_made_repeated_changed_and_removed(
    cluster: Cluster, role: RolePlay, monitoring: str, prometheus_operator: Callable[[], None]
) -> None:
    planned = role.run("--check", "--diff")
    assert planned.code == 0 and planned.changed, planned.output
    assert '+    "kind": "ClusterRole"' in planned.output and f"Deployment {NAMESPACE}/{NAME}" in planned.output
    assert installed(cluster) == set()

    settings = {"stop_timeout": "1m15s", "max_victims": 3, "namespaces": f"kube-system, {monitoring}", "respect_windows": True}
    first = role.run(critical_rescuer_settings=settings)
    assert first.code == 0 and first.changed, first.output
    check_deployment(cluster)
    # Rights follow the settings.
    assert made(cluster) == OBJECTS | {f"roles {monitoring}/{NAME}", f"rolebindings {monitoring}/{NAME}"}
    assert rules_of_workloads(cluster) == [["list", "watch"]]
    config = cluster.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}")["data"]["config.yml"]
    assert "listen_address: :9235\nmax_victims: 3\n" in config and config.endswith("stop_timeout: 1m15s\n")
    before = cluster.get(DEPLOYMENT)["spec"]["template"]["metadata"]["annotations"]

    again = role.run("--diff", critical_rescuer_settings=settings)
    assert again.code == 0 and again.changed == 0, again.output

    # A changed setting replaces the pods. The Prometheus operator was installed meanwhile.
    prometheus_operator()
    changed = role.run(critical_rescuer_pod_monitor_labels={"release": "monitoring"})
    assert changed.code == 0, changed.output
    check_pod_monitor(cluster)
    assert made(cluster) == OBJECTS and rules_of_workloads(cluster) == []
    assert cluster.get(DEPLOYMENT)["spec"]["template"]["metadata"]["annotations"] != before

    gone = role.run("--check", critical_rescuer_state="absent")
    assert gone.code == 0 and gone.changed, gone.output
    assert made(cluster) == OBJECTS
    absent = role.run(critical_rescuer_state="absent")
    assert absent.code == 0 and installed(cluster) == set(), absent.output
    assert cluster.get(POD_MONITOR.rpartition("/")[0])["items"] == []


def check_pod_monitor(cluster: Cluster) -> None:
    """The PodMonitor selects the pods of the Deployment, and a port that they have."""
    monitor = cluster.get(POD_MONITOR)
    assert monitor["metadata"]["labels"]["release"] == "monitoring"
    selector = ",".join(f"{key}={value}" for key, value in monitor["spec"]["selector"]["matchLabels"].items())
    pods = json.loads(cluster.kubectl("get", "pods", "--namespace", NAMESPACE, "--selector", selector, "--output", "json"))["items"]
    assert len(pods) >= 2
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = {port["name"] for pod in pods for container in pod["spec"]["containers"] for port in container["ports"]}
    assert endpoint["port"] in ports and endpoint["path"] == "/metrics"


def check_deployment(cluster: Cluster) -> None:
    deployment: dict[str, Any] = cluster.get(DEPLOYMENT)
    status, spec = deployment["status"], deployment["spec"]["template"]["spec"]
    assert status["availableReplicas"] == status["updatedReplicas"] == 2
    assert (spec["terminationGracePeriodSeconds"], spec["priorityClassName"]) == (105, "system-cluster-critical")
    pods = [pod for pod in cluster.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"] if "deletionTimestamp" not in pod["metadata"]]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2 == len(pods)
    assert cluster.get(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{NAME}")["spec"]["maxUnavailable"] == 1


def rules_of_workloads(cluster: Cluster) -> list[list[str]]:
    rules = cluster.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAME}")["rules"]
    return [rule["verbs"] for rule in rules if rule["apiGroups"] == ["apps"]]


@pytest.mark.full
def test_the_rendered_files_are_what_the_role_applies(cluster: Cluster, role: RolePlay, tmp_path: Path) -> None:
    folder = tmp_path / "rendered"
    rendered = role.run(critical_rescuer_render_to=str(folder), critical_rescuer_kubeconfig="")
    assert rendered.code == 0 and installed(cluster) == set(), rendered.output
    cluster.kubectl("apply", "--server-side", "--field-manager", "kube-scheduling", "-k", str(folder))
    applied = role.run("--diff")
    assert applied.code == 0 and applied.changed == 0, applied.output


def test_all_mistakes_are_named_and_nothing_is_changed(cluster: Cluster, role: RolePlay) -> None:
    wrong = {
        "critical_rescuer_replica": 3,
        "critical_rescuer_port": 80,
        "critical_rescuer_image": "",
        "critical_rescuer_settings": {"kubeconfig": "/x", "hold": "rope", "max_victimes": 3},
        "critical_rescuer_form": "static_pod",
    }
    run = play_role(role, {"wrong": wrong, "disabled": {"critical_rescuer_enabled": False, "critical_rescuer_image": ""}})
    for text in (
        "There is no variable critical_rescuer_replica; the nearest is critical_rescuer_replicas.",
        "critical_rescuer_port is 80: ",
        "critical_rescuer_image is empty",
        "critical_rescuer_settings has kubeconfig",
        "there is no host for it",
        "critical_rescuer_settings: hold is 'rope': it must be one of auto, taint, none",
        "critical_rescuer_settings: max_victimes is not a setting; the nearest is max_victims",
    ):
        assert text in run.failure("wrong"), run.failure("wrong")
    assert run.failure("disabled") == "" and run.changed_on("disabled") == 0, run.output
    assert installed(cluster) == set()
