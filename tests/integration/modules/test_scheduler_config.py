# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option scheduler_config: workloads are judged by the profile that a real kube-scheduler has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.second_scheduler import second_scheduler
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, filler, identity, pile_up, workers

PROFILE = "packing"
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
WITHOUT_FIT = {**HEADER, "profiles": [{"schedulerName": PROFILE, "plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}}}]}


def fenced(node: str) -> dict[str, Any]:
    """Return a configuration whose profile allows only this node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    plugin = {"name": "NodeAffinity", "args": {"addedAffinity": affinity}}
    return {**HEADER, "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [plugin]}]}


@pytest.fixture
def extended_scheduler(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The Deployment of the role extended_scheduler, with its configuration and without pods. It is deleted after the test."""
    made = deployment("kube-system", "kube-scheduling-scheduler", 0)
    made["metadata"]["annotations"] = {"kube-scheduling.onprem/scheduler-config": json.dumps(WITHOUT_FIT)}
    yield made
    cluster.kubectl("delete", "deployment", "kube-scheduling-scheduler", "--namespace", "kube-system", "--ignore-not-found")


def helps(spread: dict[str, Any]) -> tuple[Any, list[str]]:
    (entry,) = spread["workloads"]
    return entry["restart_helps"], [blocker["reason"] for blocker in entry["blockers"]]


@pytest.mark.full
def test_restart_by_the_profile_of_a_real_scheduler_helps_as_predicted(
    cluster: Cluster, modules: Modules, namespace: str, extended_scheduler: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "scheduler-config.yaml"
    file.write_text(json.dumps(WITHOUT_FIT))
    web = deployment(namespace, "web", 3, cpu="500m", template={"schedulerName": PROFILE})
    with second_scheduler(cluster, WITHOUT_FIT, tmp_path):
        pile_up(cluster, web)
        _home, *others = workers(cluster)
        # All other nodes are full, which only the default profile minds.
        cluster.apply([filler(namespace, name) for name in others])
        assert helps(modules.check(namespace)) == (False, ["insufficient_cpu", "untolerated_taint"])
        spread = modules.check(namespace, scheduler_config=[str(file)])
        assert helps(spread) == (True, []) and spread["restartable"] == [identity(web)]
        # The profiles of the role need no option.
        cluster.apply(extended_scheduler)
        assert helps(modules.check(namespace)) == (True, [])
        # The restart reads the configuration of the check.
        (done,) = modules.restart(check=spread)["workloads"]
        assert (done["action"], done["outcome"]) == ("restarted", "improved"), done


def test_config_map_changes_the_eligible_nodes_and_a_wrong_one_is_an_error(cluster: Cluster, modules: Modules, namespace: str) -> None:
    pile_up(cluster, deployment(namespace, "web", 2))
    home = workers(cluster)[0]
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scheduler", "namespace": namespace}}
    cluster.apply({**config, "data": {"config.yaml": json.dumps(fenced(home)), "wrong": json.dumps({**HEADER, "parallelism": 0})}})
    spread = modules.check(namespace, scheduler_config=[f"configmap:{namespace}/scheduler"], include_healthy=True, min_ready_nodes=1)
    assert [(entry["verdict"], entry["reason"]) for entry in spread["workloads"]] == [("healthy", "single_domain")], spread
    assert spread["options"]["scheduler_config"] == [f"configmap:{namespace}/scheduler"]
    failed = modules.run("k8s_critical_rescue", scheduler_config=[f"configmap:{namespace}/scheduler/wrong"], check_mode=True)
    assert failed["failed"] and failed["msg"].startswith(f"scheduler_config: the key wrong of ConfigMap {namespace}/scheduler "), failed
    assert "parallelism: 0 is not above 0" in failed["msg"]
