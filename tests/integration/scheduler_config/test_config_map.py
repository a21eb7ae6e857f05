# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""scheduler_profile on a ConfigMap of a real API server."""

from __future__ import annotations

import threading
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.scheduler_config.profile_tasks import Task, run_tasks
from tests.unit.scheduler_config.configurations import EXTENDER, Json, configuration, profile

TEXT = """\
# Of the second scheduler.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: second   # ours
"""


@pytest.fixture
def target(lab_cluster: Cluster, namespaces: NamespaceFactory) -> Json:
    """The options for a ConfigMap in a new namespace."""
    place = {"name": "scheduler", "namespace": namespaces("scheduler-profile")}
    return {"configmap": place, "kubeconfig": str(lab_cluster.kubeconfig)}


def path_of(target: Json) -> str:
    return f"/api/v1/namespaces/{target['configmap']['namespace']}/configmaps"


def data_of(cluster: Cluster, target: Json) -> Json:
    found: Json = cluster.get(f"{path_of(target)}/scheduler")["data"]
    return found


def test_a_config_map_is_created_and_a_second_run_changes_nothing(lab_cluster: Cluster, target: Json, tmp_path: Path) -> None:
    checked, created, again = run_tasks(
        tmp_path,
        Task(check_mode=True, **target, name="second", leader_election={"resourceName": "second"}),
        *[Task(**target, name="second", leader_election={"resourceName": "second"})] * 2,
    )
    assert [one["changed"] for one in (checked, created, again)] == [True, True, False], (checked, created, again)
    wanted = configuration(leaderElection={"resourceName": "second"}, profiles=[profile("second")])
    assert yaml.safe_load(data_of(lab_cluster, target)["config.yaml"]) == wanted == created["config"]


def test_other_keys_and_comments_are_kept(lab_cluster: Cluster, target: Json, tmp_path: Path) -> None:
    body = {"metadata": {"name": "scheduler"}, "data": {"config.yaml": TEXT, "other": "x"}}
    lab_cluster.api.post(path_of(target), body)
    checked, changed, removed = run_tasks(
        tmp_path,
        Task(check_mode=True, **target, name="third"),
        Task(**target, name="third", extenders=[EXTENDER]),
        Task(**target, state="absent", name="third", extenders=[EXTENDER]),
    )
    assert checked["diff"]["before"] == TEXT and checked["diff"]["after"] == TEXT + "- schedulerName: third\n"
    assert changed["diff"]["after"].startswith(TEXT)
    assert removed["changed"] and data_of(lab_cluster, target) == body["data"]


def test_a_key_that_is_not_there_is_added(lab_cluster: Cluster, target: Json, tmp_path: Path) -> None:
    lab_cluster.api.post(path_of(target), {"metadata": {"name": "scheduler"}})
    place = {**target, "configmap": {**target["configmap"], "key": "own.yaml"}}
    (result,) = run_tasks(tmp_path, Task(**place, name="default-scheduler"))
    assert result["changed"] and list(data_of(lab_cluster, target)) == ["own.yaml"]


def test_the_connection_can_be_in_the_environment_of_the_task(lab_cluster: Cluster, target: Json, tmp_path: Path) -> None:
    environment = {"K8S_AUTH_KUBECONFIG": str(lab_cluster.kubeconfig)}
    (result,) = run_tasks(tmp_path, Task(environment=environment, configmap=target["configmap"], name="default-scheduler"))
    assert result["changed"], result


def test_a_change_of_another_client_is_not_lost(lab_cluster: Cluster, target: Json, tmp_path: Path) -> None:
    """The other client adds a comment to the same text every few milliseconds, until the module has given up or has found a pause."""
    lab_cluster.api.post(path_of(target), {"metadata": {"name": "scheduler"}, "data": {"config.yaml": TEXT}})
    ended, added = threading.Event(), 0

    def edit() -> None:
        nonlocal added
        while not ended.wait(0.005):
            found = lab_cluster.get(f"{path_of(target)}/scheduler")
            found["data"]["config.yaml"] += f"# {added}\n"
            # Another answer is a conflict with the module.
            added += lab_cluster.api.request("PUT", f"{path_of(target)}/scheduler", found).status == HTTPStatus.OK

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        (result,) = run_tasks(tmp_path, Task(**target, name="third"))
    finally:
        ended.set()
        editor.join()
    text = data_of(lab_cluster, target)["config.yaml"]
    assert [line for line in text.splitlines() if line in {f"# {number}" for number in range(added)}] == [f"# {n}" for n in range(added)]
    assert ("- schedulerName: third" in text) == result["changed"] and added
    assert result["changed"] or "the object has been modified" in result["msg"]


WRONG: list[tuple[Json, str]] = [
    ({"backup": True}, "backup: it is only for files"),
    ({"validate": "true %s"}, "mutually exclusive"),
    ({"configmap": {"name": "scheduler", "namespace": "nowhere"}}, 'namespaces "nowhere" not found'),
    ({"kubeconfig": "/nowhere"}, "/nowhere"),
    ({"percentage_of_nodes_to_score": 101}, "profiles[1].percentageOfNodesToScore: 101 is not a percentage"),
]


def test_wrong_options_and_faults_are_named(target: Json, tmp_path: Path) -> None:
    results = run_tasks(tmp_path, *(Task(**{**target, "name": "a", **options}) for options, _said in WRONG))
    assert [said for (_options, said), result in zip(WRONG, results, strict=True) if said not in result["msg"]] == []
