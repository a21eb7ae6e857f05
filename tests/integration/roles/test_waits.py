# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A wait of a role that ends without success names the object and what to do, and shows no result of Ansible's own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.roles.host_cases import play_role
from tests.integration.roles.role_play import RolePlay, RoleRun
from tests.integration.workloads import IMAGE
from tests.static_pods import enter, static_pod

pytestmark = pytest.mark.timeout(600)
REBALANCER = "kube-scheduling-rebalancer"


def error_of(run: RoleRun) -> str:
    """The output of a run that has failed, in one line."""
    assert run.code == 2 and "Unknown error" not in run.output, run.output
    return " ".join(run.output.split())


JOBS = {"fails": (2, "has failed (Job was active longer than specified deadline)"), "waits": (None, "has not ended ")}
"""The deadline of a Job in seconds, and what is said of it."""


@dataclass(frozen=True)
class Waited:
    """The error about a Job, its name, its namespace, and the Events there."""

    error: str
    name: str
    namespace: str
    events: str


@pytest.fixture(scope="module")
def waited(lab_cluster: Cluster, namespaces: NamespaceFactory, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Waited]:
    """Both Jobs, each in its own namespace."""
    places, cases = {}, {}
    for case, (deadline_s, _what) in JOBS.items():
        namespace = places[case] = namespaces(f"job-{case}")
        container = {"name": "main", "image": IMAGE}
        # No node has the label, so the pod does not start.
        pod: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [container], "nodeSelector": {"missing": "true"}}}
        job = {"template": pod} | ({} if deadline_s is None else {"activeDeadlineSeconds": deadline_s})
        template = {"metadata": {"labels": {"app": "rebalancer"}}, "spec": job}
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": template}
        metadata = {"name": REBALANCER, "namespace": namespace}
        lab_cluster.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec})
        cases[case] = {
            "spread_cronjob_kubeconfig": str(lab_cluster.kubeconfig),
            "spread_cronjob_namespace": namespace,
            # The role waits 30 seconds more. Without a deadline of the Job, it shall wait only 4 seconds.
            "__spread_cronjob_deadline": -26 if deadline_s is None else deadline_s,
        }
    found = {}
    try:
        run = play_role(RolePlay("spread_cronjob", tmp_path_factory.mktemp("jobs"), tasks_from="run"), cases)
        error_of(run)
        for case, namespace in places.items():
            (made,) = (item["metadata"]["name"] for item in lab_cluster.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"])
            events = lab_cluster.kubectl("--namespace", namespace, "get", "events")
            found[case] = Waited(" ".join(run.failure(case).split()), made, namespace, events)
    finally:
        # Tests of a role compare the objects with its name.
        for namespace in places.values():
            lab_cluster.kubectl("--namespace", namespace, "delete", "cronjobs,jobs", "--all", "--cascade=foreground")
    return found


@pytest.mark.parametrize("case", JOBS)
def test_a_job_that_fails_or_does_not_end_is_named(case: str, waited: dict[str, Waited]) -> None:
    found = waited[case]
    error, namespace = found.error, found.namespace
    assert f"Job {namespace}/{found.name} {JOBS[case][1]}" in error, error
    assert f"kubectl --namespace {namespace} logs job/{found.name}. Kubernetes deletes the pods" in error, error
    # The last command of the message has the reason, also when the pod is deleted.
    assert f"Their events stay: kubectl --namespace {namespace} get events" in error, error
    assert "didn't match Pod's node affinity/selector" in found.events


@pytest.mark.usefixtures("as_root")
def test_extenders_that_do_not_end_are_named_and_their_files_stay(tmp_path: Path) -> None:
    folder, manifest = tmp_path / "folder", tmp_path / "extender.yaml"
    (folder / "extender").mkdir(parents=True)
    (folder / "backup").mkdir()
    for file in ("extender/kubeconfig", "extender/extender-1-0123456789ab.yaml", "backup/extender.yaml"):
        (folder / file).touch()
    manifest.touch()
    given = {
        "extended_scheduler_become": False,
        "extended_scheduler_folder": str(folder),
        "extended_scheduler_extender_manifest_path": str(manifest),
        "extended_scheduler_state": "absent",
        "extended_scheduler_shape": "kubeadm",
        "__extended_scheduler_host_state": "extender",
        "__extended_scheduler_cluster": {"objects": [], "version": "v1.36.0"},
        "__extended_scheduler_found": {},
        "__extended_scheduler_errors": [],
        "__extended_scheduler_end_s": 2,
        "__extended_scheduler_host": "localhost",
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    role = RolePlay("extended_scheduler", tmp_path, given, tasks_from="kubeadm_host")
    with static_pod("kube-scheduling-extender") as cgroup, subprocess.Popen(["sleep", "613"]) as program:
        enter(cgroup, program.pid)
        error = error_of(role.run())
        program.kill()

    assert f"localhost: {manifest} is removed, and the static pod kube-scheduling-extender still runs after 2 s" in error, error
    assert not manifest.exists() and (folder / "extender" / "kubeconfig").exists()
    assert role.run().code == 0 and not folder.exists()
