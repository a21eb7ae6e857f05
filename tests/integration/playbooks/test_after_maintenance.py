# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""after_maintenance.yml against a real control plane: it waits, names what is not ready, and then rebalances."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.playbooks.site_runs import stats_of
from tests.integration.roles.role_play import RoleRun, ansible_playbook
from tests.integration.workloads import deployment, not_ready, pile_up, pod_uids, pods_of, restarted_at, wait_until

__all__ = ["cluster", "namespace"]

NAME = "kube_scheduling_after_maintenance"
USER = "system:serviceaccount:default:maintenance"
READY = "lab.onprem/ready"


class Maintenance:
    """The playbook for the workloads of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        kubeconfig = cluster.service_account("maintenance")
        self._given = {"rebalance_kubeconfig": str(kubeconfig), "rebalance_namespaces": [namespace], "rebalance_report_path": ""}
        self._folder = folder

    def play(self, *arguments: str, **variables: Any) -> RoleRun:
        given = self._given | {f"after_maintenance_{name}": value for name, value in variables.items()}
        file = REPOSITORY / "playbooks" / "after_maintenance.yml"
        return ansible_playbook(file, *arguments, "-e", json.dumps(given), folder=self._folder)


@pytest.fixture
def maintenance(cluster: Cluster, namespace: str, tmp_path: Path) -> Maintenance:
    return Maintenance(cluster, namespace, tmp_path)


@pytest.fixture
def web(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """A Deployment whose three replicas are on one node."""
    manifest = deployment(namespace, "web", 3)
    pile_up(cluster, manifest)
    return manifest


@pytest.fixture
def drained(cluster: Cluster, web: dict[str, Any]) -> Iterator[str]:
    """A node without replicas that is cordoned. It is uncordoned after the test."""
    cluster.cordon("worker-2")
    yield "worker-2"
    cluster.uncordon("worker-2")


@pytest.fixture
def away(cluster: Cluster) -> Iterator[str]:
    """A node that is not Ready. It is Ready again after the test."""
    with not_ready(cluster, "worker-3"):
        yield "worker-3"


def test_nodes_that_are_cordoned_or_not_ready_are_named_and_nothing_is_rebalanced(
    cluster: Cluster, maintenance: Maintenance, web: dict[str, Any], drained: str, away: str
) -> None:
    run = maintenance.play(node_timeout=1, poll=1)
    assert run.code == 2, run.output
    assert "Nothing was rebalanced." in run.output
    assert f"Node {drained} is cordoned: run kubectl uncordon {drained}, or add it to after_maintenance_ignored_nodes" in run.output
    assert f"Node {away} is not Ready" in run.output
    numbers = stats_of(run, NAME)
    assert (numbers["ok"], numbers["nodes"], numbers["workloads"]) == (False, 2, 0)
    assert restarted_at(cluster, web) is None

    # A plan waits for nothing, and shows what a run would do.
    plan = maintenance.play("--check")
    assert plan.code == 0 and f"Node {away} is not Ready" in plan.output, plan.output
    assert stats_of(plan, "kube_scheduling_rebalance")["would_restart"] == 1 and restarted_at(cluster, web) is None


@pytest.mark.full
def test_workload_that_is_not_settled_is_named_and_stops_the_rebalance(
    cluster: Cluster, namespace: str, maintenance: Maintenance, web: dict[str, Any], drained: str
) -> None:
    slow = deployment(namespace, "slow", 2)
    cluster.apply(slow)
    wait_until(lambda: len(running(cluster, slow)) == 2, what="the pods")
    change = {"spec": {"template": {"metadata": {"annotations": {READY: "false"}}}}}
    cluster.kubectl("patch", "deployment/slow", "-n", namespace, "--type=merge", "-p", json.dumps(change))

    ignored = {"ignored_nodes": [drained], "workload_timeout": 1, "poll": 1}
    run = maintenance.play(**ignored)
    assert run.code == 2 and f"Deployment {namespace}/slow is rolling: " in run.output, run.output
    assert f"Deployment {namespace}/web" not in run.output.partition("Nothing was rebalanced.")[2]
    assert stats_of(run, NAME)["workloads"] == 1 and restarted_at(cluster, web) is None

    run = maintenance.play(**ignored, require_settled=False)
    assert run.code == 0 and f"Deployment {namespace}/slow is rolling: " in run.output, run.output
    assert stats_of(run, "kube_scheduling_rebalance")["improved"] == 1 and restarted_at(cluster, web) is not None


def running(cluster: Cluster, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [pod for pod in pods_of(cluster, manifest) if pod["status"].get("phase") == "Running"]


def test_the_rebalance_begins_when_the_node_is_uncordoned_and_the_replicas_are_available(
    cluster: Cluster, namespace: str, maintenance: Maintenance, web: dict[str, Any], drained: str
) -> None:
    (first, *_others) = (pod["metadata"]["name"] for pod in pods_of(cluster, web))
    cluster.kubectl("annotate", "pod", first, "-n", namespace, f"{READY}=false")
    before, mark = pod_uids(cluster, web), cluster.audit().mark()

    def reads(resource: str) -> int:
        """The number of reads of all objects of a resource by the playbook."""
        return sum(1 for _event in cluster.audit().events(since=mark, user=USER, verb="list", resource=resource))

    with ThreadPoolExecutor(max_workers=1) as pool:
        playing = pool.submit(maintenance.play, poll=1)
        wait_until(lambda: reads("nodes") >= 3 or playing.done(), what="the wait for the node")
        assert not playing.done(), playing.result().output
        cluster.uncordon(drained)
        # The first one is that of the check.
        wait_until(lambda: reads("deployments") >= 3 or playing.done(), what="the wait for the workload")
        assert not playing.done() and pod_uids(cluster, web) == before
        cluster.kubectl("annotate", "pod", first, "-n", namespace, f"{READY}-")
        run = playing.result()
    assert run.code == 0, run.output
    assert (stats_of(run, NAME)["ok"], stats_of(run, "kube_scheduling_rebalance")["improved"]) == (True, 1)
    assert len({pod["spec"]["nodeName"] for pod in running(cluster, web)}) == 3


def test_wrong_variables_of_both_playbooks_are_named_before_the_wait(maintenance: Maintenance, drained: str) -> None:
    run = maintenance.play("-e", "rebalance_max_parallel=0", node_timout=5, poll=0)
    assert run.code == 2, run.output
    for text in (
        "There is no variable after_maintenance_node_timout; the nearest is after_maintenance_node_timeout.",
        "after_maintenance_poll is 0: ",
        "rebalance_max_parallel is 0: ",
    ):
        assert text in run.output, run.output
    assert f"Node {drained}" not in run.output
