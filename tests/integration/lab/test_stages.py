# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Stages start pods, make them ready, and end them in several ways."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import pytest

from lab.cluster import Cluster
from tests.integration.lab.conftest import Pods, wait_for

HOLD = ["lab.onprem/hold"]


def test_bound_pod_runs_and_is_ready(pods: Pods) -> None:
    pods.running("plain")
    wait_for(lambda: pods.ready("plain"))
    pod = pods.get("plain")
    assert pod
    assert pod["status"]["podIP"]
    assert pod["status"]["hostIP"] == "172.20.0.2"


def test_grace_period_is_honoured(pods: Pods) -> None:
    pods.running("grace", grace_s=2)
    started = time.monotonic()
    pods.delete("grace")
    wait_for(lambda: pods.gone("grace"))
    # deletionTimestamp has whole seconds, which cuts off up to one.
    assert time.monotonic() - started >= 1.0


@pytest.mark.parametrize(("name", "grace_s", "annotations"), [("quick", 300, {"lab.onprem/stop-after": "0"}), ("brief", 1, {})])
def test_a_pod_needs_a_second_to_stop_as_with_a_kubelet(pods: Pods, name: str, grace_s: int, annotations: dict[str, str]) -> None:
    pods.running(name, grace_s=grace_s, annotations=annotations)
    started = time.monotonic()
    pods.delete(name)
    wait_for(lambda: pods.gone(name))
    assert time.monotonic() - started >= 1.0


def test_hang_keeps_the_pod_running_until_its_finalizer_goes(pods: Pods) -> None:
    pods.running("hang", grace_s=1, annotations={"lab.onprem/on-delete": "hang"}, finalizers=HOLD)
    pods.running("later", grace_s=1)
    pods.delete("hang")
    pods.delete("later")
    wait_for(lambda: pods.gone("later"))
    assert pods.phase("hang") == "Running"
    pods.patch_metadata("hang", {"finalizers": None})
    wait_for(lambda: pods.gone("hang"))


def test_terminal_pod_fails_after_its_grace_though_a_finalizer_holds_it(pods: Pods) -> None:
    pods.running("terminal", grace_s=1, annotations={"lab.onprem/on-delete": "terminal"}, finalizers=HOLD)
    pods.delete("terminal")
    wait_for(lambda: pods.phase("terminal") == "Failed")
    pods.patch_metadata("terminal", {"finalizers": None})
    wait_for(lambda: pods.gone("terminal"))


def test_terminal_pod_with_exit_code_0_succeeds(pods: Pods) -> None:
    annotations = {"lab.onprem/on-delete": "terminal", "lab.onprem/exit-code": "0"}
    pods.running("succeeds", grace_s=1, annotations=annotations, finalizers=HOLD)
    pods.delete("succeeds")
    wait_for(lambda: pods.phase("succeeds") == "Succeeded")
    pods.patch_metadata("succeeds", {"finalizers": None})


def test_ready_false_holds_readiness_and_can_be_changed(pods: Pods) -> None:
    pods.running("held", annotations={"lab.onprem/ready": "false"})
    assert not pods.ready("held")
    pods.patch_metadata("held", {"annotations": {"lab.onprem/ready": None}})
    wait_for(lambda: pods.ready("held"))
    pods.patch_metadata("held", {"annotations": {"lab.onprem/ready": "false"}})
    wait_for(lambda: not pods.ready("held"))
    assert pods.phase("held") == "Running"


def test_waiting_gives_the_containers_that_reason_until_it_is_removed(pods: Pods) -> None:
    def reasons() -> list[str]:
        statuses = (pods.get("waits") or {})["status"]["containerStatuses"]
        return [status["state"].get("waiting", {}).get("reason", "") for status in statuses]

    pods.running("waits", annotations={"lab.onprem/waiting": "ImagePullBackOff"})
    wait_for(lambda: reasons() == ["ImagePullBackOff"])
    assert not pods.ready("waits")
    pods.patch_metadata("waits", {"annotations": {"lab.onprem/waiting": None}})
    wait_for(lambda: pods.ready("waits"))
    assert reasons() == [""]


def test_ready_delay_counts_from_the_start(pods: Pods) -> None:
    started = time.monotonic()
    pods.running("late", annotations={"lab.onprem/ready-delay": "2"})
    wait_for(lambda: pods.ready("late"))
    assert time.monotonic() - started > 0.9


def test_ready_jitter_differs_between_pods(pods: Pods) -> None:
    names = [f"jitter-{number}" for number in range(8)]
    for name in names:
        pods.running(name, annotations={"lab.onprem/ready-delay": "1", "lab.onprem/ready-jitter": "4"})
    wait_for(lambda: all(pods.ready(name) for name in names))

    def delay_s(name: str) -> float:
        pod = pods.get(name)
        assert pod
        (ready,) = [entry for entry in pod["status"]["conditions"] if entry["type"] == "Ready"]
        moments = (pod["status"]["startTime"], ready["lastTransitionTime"])
        started, became_ready = (datetime.fromisoformat(moment).timestamp() for moment in moments)
        return became_ready - started

    assert len({delay_s(name) for name in names}) > 1


def test_conditions_of_others_survive(pods: Pods) -> None:
    """An eviction's DisruptionTarget must still be there when the Stages write the status."""
    pods.running("evicted", grace_s=2, annotations={"lab.onprem/on-delete": "terminal"}, finalizers=HOLD)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    pods.api.post(f"{pods.path}/evicted/eviction", eviction)
    wait_for(lambda: pods.phase("evicted") == "Failed")
    pod = pods.get("evicted")
    assert pod
    assert "DisruptionTarget" in [entry["type"] for entry in pod["status"]["conditions"]]
    pods.patch_metadata("evicted", {"finalizers": None})


def test_job_completes(lab_cluster: Cluster, namespaces: Callable[..., str]) -> None:
    namespace = namespaces("job")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.invalid/job:1"}]}}
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    lab_cluster.api.post(path, {"metadata": {"name": "once"}, "spec": {"template": template}})
    wait_for(lambda: lab_cluster.get(f"{path}/once").get("status", {}).get("succeeded") == 1)


def test_deployment_becomes_available(lab_cluster: Cluster, namespaces: Callable[..., str]) -> None:
    namespace = namespaces("deployment")
    labels = {"app": "web"}
    lab_cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "replicas": 6,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "example.invalid/app:1"}]},
                },
            },
        }
    )
    lab_cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=20s")
    items = lab_cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert {item["spec"]["nodeName"] for item in items} == {f"worker-{number}" for number in range(1, 7)}
