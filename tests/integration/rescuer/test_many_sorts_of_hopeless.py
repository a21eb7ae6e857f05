# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hundred different pods that no eviction helps, each sort by its own reason, on hundreds of nodes; and pods that can be rescued."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import ClusterFactory
from lab.scenario import Scenario
from tests.bench.rescue.clusters import fill, names_of, workers
from tests.bench.rescue.crowd import priority_classes
from tests.bench.rescue.hopeless_pods import SORTS, crowds, hopeless, possible
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.rescue.scene import HOLD_KEY
from tests.integration.rescuer.daemons import Daemon
from tests.integration.workloads import wait_until

NODES = 300
HOPELESS = 200
A_FEW = 20
"""Judgements that may be made until a signal is seen."""
PODS = "/api/v1/namespaces/kube-system/pods"
WAIT_S = 300.0

# Judgements that take as long as on a cluster of thousands of nodes. What is judged and released, and who is seen to be bound, is written
# into a file in this order.
SLOW = """
import sys, time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.holds import Holds
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.controller import RescueController
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.services.rescuer.cli import main

judge, give_back, see, written = RescuePlanner.plan_rescue, Holds.release, RescueController._update_tasks, open({file!r}, "a", buffering=1)

def slow(planner, pod, facts, **how):
    written.write("judged " + pod.metadata.name + "\\n")
    time.sleep(0.2)
    return judge(planner, pod, facts, **how)

def releasing(holds, held, *args, **how):
    written.write("released " + held.node.name + "\\n")
    return give_back(holds, held, *args, **how)

def seeing(rescuer, snapshot, *args):
    for pod in snapshot.pods:
        if pod.metadata.name.startswith("possible-") and pod.spec.node_name:
            written.write("bound " + pod.metadata.name + " " + pod.spec.node_name + "\\n")
    return see(rescuer, snapshot, *args)

RescuePlanner.plan_rescue, Holds.release, RescueController._update_tasks = slow, releasing, seeing
sys.exit(main(sys.argv[1:], {{}}))
"""


@pytest.fixture(scope="module")
def cluster(fresh_module_cluster: ClusterFactory) -> Cluster:
    """Full nodes, and no other ones that are open."""
    made = fresh_module_cluster("single-worker", variant="budget_safe")
    made.apply(priority_classes())
    for node in made.get("/api/v1/nodes")["items"]:
        made.api.merge_patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": True}})
    group = workers(NODES, crowd="full")
    made.add_nodes(Scenario("full", (group,)))
    fill(made, crowds(["team-0", "team-1", "agents"], names_of(group)))
    return made


@pytest.fixture(autouse=True)
def pods(cluster: Cluster) -> Iterator[None]:
    """The hopeless pods, gone after each test."""
    for number in range(HOPELESS):
        cluster.api.post(PODS, hopeless(number))
    yield
    for pod in cluster.get(PODS)["items"]:
        if pod["metadata"]["name"].startswith(("hopeless-", "possible-")):
            cluster.api.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    wait_until(lambda: not _named(cluster, "hopeless-"), timeout_s=WAIT_S, what="the end of the pods")


def test_each_hopeless_pod_is_told_why_and_those_between_them_are_rescued(cluster: Cluster, tmp_path: Path) -> None:
    names = [f"possible-{number}" for number in range(3)]
    daemon = Daemon(cluster, tmp_path / "log", "--grace-period=1s", kubeconfig=cluster.service_account("rescuer"))
    try:
        for name in names:
            cluster.api.post(PODS, possible(name))
        wait_until(lambda: all(_node_of(cluster, name) for name in names), timeout_s=WAIT_S, what="the rescues")
        hopeless_names = {f"kube-system/hopeless-{number:03}" for number in range(HOPELESS)}

        def told() -> dict[str, str]:
            return {line["pod"]: line["text"] for line in daemon.said("pod planned", status="impossible") if line["pod"] in hopeless_names}

        wait_until(lambda: len(told()) == HOPELESS, timeout_s=WAIT_S, what="the reasons of every pod")
        for number in range(len(SORTS)):
            assert REASONS[list(SORTS)[number]] in told()[f"kube-system/hopeless-{number:03}"]
        held = {line["pod"] for line in daemon.said("node held")}
        assert held == {f"kube-system/{name}" for name in names}
        wait_until(lambda: not _held(cluster), timeout_s=WAIT_S, what="the releases")
    finally:
        daemon.stop()


REASONS = {
    "too large": "Insufficient cpu, even without its other pods",
    "budgets closed": "no disruption now",
    "options refuse": "no controller would start it elsewhere",
    "critical pods only": "it is critical itself",
    "kept apart on every node": "didn't match pod anti-affinity rules",
    "kept apart in every zone": "didn't match pod anti-affinity rules",
    "affinity to nobody": "didn't match pod affinity rules",
    "selector of no node": "didn't match Pod's node affinity/selector",
}


def test_a_new_pod_a_release_and_a_signal_are_answered_between_two_judgements(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "written"
    flags = ("--listen-address=", "--settle-time=0", "--grace-period=1s", f"--kubeconfig={cluster.service_account('rescuer')}")
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-c", SLOW.format(file=str(file)), *flags]
        process = subprocess.Popen(command, stderr=log, env={"PYTHONPATH": str(COLLECTIONS)})
    try:
        wait_until(lambda: len(set(judged(file))) == HOPELESS, timeout_s=WAIT_S, what="the first round")
        before = len(judged(file))
        cluster.api.post(PODS, possible("possible-late"))
        wait_until(lambda: _node_of(cluster, "possible-late"), timeout_s=WAIT_S, what="the rescue")
        wait_until(lambda: "possible-late" in judged(file), timeout_s=WAIT_S, what="the judgement")
        assert len(set(judged(file)[before:])) < HOPELESS, "it comes before those that were judged already"
        wait_until(lambda: not _held(cluster), timeout_s=WAIT_S, what="the release")
        lines = file.read_text().splitlines()
        bound = next(number for number, line in enumerate(lines) if line.startswith("bound possible-late"))
        release = f"released {lines[bound].split()[-1]}"
        between = lines[bound : lines.index(release, bound)]
        assert sum(line.startswith("judged") for line in between) <= 1, between
        before = len(judged(file))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert len(judged(file)) - before < A_FEW
    finally:
        process.kill()
        process.wait()


def judged(file: Path) -> list[str]:
    """The pods that were judged, in order."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.removeprefix("judged ") for line in lines if line.startswith("judged ")]


def _named(cluster: Cluster, prefix: str) -> list[str]:
    names = (pod["metadata"]["name"] for pod in cluster.get(PODS)["items"])
    return [name for name in names if name.startswith(prefix)]


def _node_of(cluster: Cluster, name: str) -> str:
    return str(cluster.get(f"{PODS}/{name}")["spec"].get("nodeName", ""))


def _held(cluster: Cluster) -> list[str]:
    nodes = cluster.get("/api/v1/nodes")["items"]
    return [node["metadata"]["name"] for node in nodes if any(taint["key"] == HOLD_KEY for taint in node["spec"].get("taints") or ())]
