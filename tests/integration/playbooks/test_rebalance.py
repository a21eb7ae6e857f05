# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""rebalance.yml against a real control plane: as a plan, for real, a second time, and for several clusters side by side."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.cluster_identity import identity_of
from tests.integration.modules.module_process import Modules
from tests.integration.roles.role_play import ansible_playbook
from tests.integration.workloads import (
    OUTCOME,
    deployment,
    identity,
    known_outcome,
    not_ready,
    only_node,
    outcome,
    wait_rolled_out,
    wait_until,
)
from tests.unit.report.results import data_of_page

REPLICAS = 3
UNREACHABLE = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "gone", "user": {"token": "none"}}],
    "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "gone"}}],
    "current-context": "gone",
}
GONE = {"name": "gone", "context": "gone", "server": "https://127.0.0.1:1"}


@dataclass(frozen=True)
class Run:
    """The exit code and the output of one run of ansible-playbook."""

    code: int
    output: str

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """The set_stats dict, by cluster."""
        found = re.search(r"^\s*RUN: (\{.*\})$", self.output, re.MULTILINE)
        assert found, self.output
        stats: dict[str, dict[str, Any]] = json.loads(found.group(1))["kube_scheduling_rebalance"]
        return stats

    def recap(self, host: str) -> dict[str, int]:
        found = re.search(rf"^{host} +: (.*)$", self.output, re.MULTILINE)
        assert found, self.output
        return {key: int(value) for key, value in (pair.split("=") for pair in found.group(1).split())}


class Inventory:
    """An inventory in which each of two namespaces is a separate cluster. More hosts are added on request."""

    def __init__(self, folder: Path, cluster: Cluster, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        self._folder = folder
        self._file = folder / "clusters.json"
        common = {
            "rebalance_kubeconfig": str(cluster.kubeconfig),
            # Relative to where ansible-playbook is started, not to the playbook.
            "rebalance_report_path": "{{ inventory_hostname }}.html",
            "rebalance_map_path": "{{ inventory_hostname }}.txt",
            "rebalance_markdown_path": "{{ inventory_hostname }}.md",
            "rebalance_json_path": "{{ inventory_hostname }}.json",
            "rebalance_metrics_path": "{{ inventory_hostname }}.prom",
        }
        self._file.write_text(json.dumps({"clusters": {"hosts": hosts, "vars": common}}))

    def play(self, *arguments: str, playbook: str = "rebalance", **variables: str) -> Run:
        """Run a playbook with more variables of the environment."""
        arguments = ("-i", str(self._file), "-e", "rebalance_hosts=clusters", *arguments)
        done = ansible_playbook(REPOSITORY / f"playbooks/{playbook}.yml", *arguments, folder=self._folder, environment=variables)
        return Run(done.code, done.output)

    def report(self, host: str) -> str:
        return (self._folder / f"{host}.html").read_text()

    def data(self, host: str) -> dict[str, Any]:
        """Return the data of the HTML report, which are also in the JSON file."""
        data: dict[str, Any] = data_of_page(self.report(host))
        stored = json.loads((self._folder / f"{host}.json").read_text())
        assert {**stored, "time": ""} == {**data, "time": ""}
        return data

    def summary(self, host: str) -> str:
        return (self._folder / f"{host}.md").read_text()

    def map(self, host: str) -> str:
        return (self._folder / f"{host}.txt").read_text()

    def metrics(self, host: str) -> str:
        file = self._folder / f"{host}.prom"
        return file.read_text() if file.exists() else ""


@pytest.fixture(scope="module")
def cluster(lab_cluster: Cluster) -> Cluster:
    """The shared cluster."""
    return lab_cluster


@pytest.fixture(scope="module")
def piled_up(cluster: Cluster, namespaces: NamespaceFactory) -> Callable[..., str]:
    """Makes a namespace with a Deployment `web` whose replicas are all on worker-1, and become ready or never do."""

    def create(*, ready: bool = True) -> str:
        namespace = namespaces("piled", annotations={"kube-scheduling.onprem/spread": "allow"})
        web = deployment(namespace, "web", REPLICAS)
        web["spec"]["template"]["metadata"]["annotations"] = {"lab.onprem/ready": str(ready).lower()}
        with only_node(cluster, "worker-1"):
            cluster.apply(web)
            wait_until(lambda: len(_nodes(cluster, namespace)) == REPLICAS, what="all pods running")
        assert set(_nodes(cluster, namespace).values()) == {"worker-1"}
        return namespace

    return create


@pytest.fixture(scope="module")
def waiting(piled_up: Callable[..., str]) -> str:
    """A namespace whose Deployment stays collapsed, because nothing restarts it."""
    return piled_up()


def _nodes(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Node by UID of the pods that run and are not about to go."""
    pods = cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {
        pod["metadata"]["uid"]: pod["spec"]["nodeName"]
        for pod in pods
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def test_a_cluster_is_planned_then_spread(cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path) -> None:
    _planned_then_spread(cluster, {"berlin": piled_up()}, tmp_path)


def test_two_clusters_are_planned_then_spread(cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path) -> None:
    _planned_then_spread(cluster, {"berlin": piled_up(), "munich": piled_up()}, tmp_path)


def _planned_then_spread(cluster: Cluster, places: Mapping[str, str], tmp_path: Path) -> None:
    """Plan, then spread, the workload in a namespace of each host."""
    inventory = Inventory(tmp_path, cluster, {host: {"rebalance_namespaces": [ns]} for host, ns in places.items()})
    before = {host: _nodes(cluster, namespace) for host, namespace in places.items()}

    plan = inventory.play("--check")
    assert plan.code == 0, plan.output
    for host, namespace in places.items():
        assert _nodes(cluster, namespace) == before[host]
        assert (plan.stats[host]["plan"], plan.stats[host]["would_restart"]) == (True, 1)
        assert "collapsed, would_restart" in inventory.map(host)
        data = inventory.data(host)
        assert data["plan"] and [entry["action"] for entry in data["workloads"]] == ["would_restart"]
        assert "**Plan.** Nothing was restarted." in inventory.summary(host)
        assert inventory.metrics(host) == ""

    # All are one cluster in truth, and a cluster has one run at a time.
    done = inventory.play("--forks", "1")
    assert done.code == 0, done.output
    for host, namespace in places.items():
        assert len(set(_nodes(cluster, namespace).values())) == REPLICAS
        assert done.recap(host)["changed"] == 1
        numbers = done.stats[host]
        assert (numbers["ok"], numbers["plan"], numbers["improved"]) == (True, False, 1)
        assert (numbers["collapsed_before"], numbers["collapsed_after"]) == (1, 0)
        assert "collapsed → healthy" in inventory.map(host)
        (row,) = inventory.data(host)["workloads"]
        assert (row["namespace"], row["before"]["verdict"], row["after"]["verdict"]) == (namespace, "collapsed", "healthy")
        assert f"| Deployment {namespace}/web | {REPLICAS} | {REPLICAS} on worker-1 → 1 on " in inventory.summary(host)
        assert 'kube_scheduling_rebalance_workloads{verdict="healthy"} 1.0' in inventory.metrics(host)
        assert "kube_scheduling_rebalance_failed 0.0" in inventory.metrics(host)


def test_a_run_with_a_tag_of_site_changes_nothing_that_is_spread(cluster: Cluster, namespaces: NamespaceFactory, tmp_path: Path) -> None:
    namespace = namespaces("spread", annotations={"kube-scheduling.onprem/spread": "allow"})
    web = deployment(namespace, "web", REPLICAS)
    cluster.apply(web)
    wait_rolled_out(cluster, web)
    spread = _nodes(cluster, namespace)
    inventory = Inventory(tmp_path, cluster, {"berlin": {"rebalance_namespaces": [namespace]}})
    run = inventory.play("--tags", "rebalance", playbook="site")
    assert run.code == 0 and run.recap("berlin")["changed"] == 0, run.output
    assert _nodes(cluster, namespace) == spread
    assert (run.stats["berlin"]["restarted"], run.stats["berlin"]["collapsed_before"]) == (0, 0)


def test_replicas_are_evicted_one_by_one_where_that_is_the_strategy(cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path) -> None:
    namespace = piled_up()
    hosts = {"berlin": {"rebalance_namespaces": [namespace], "rebalance_strategy": "evict_surplus", "rebalance_max_skew": 1}}
    inventory = Inventory(tmp_path, cluster, hosts)
    before = _nodes(cluster, namespace)

    plan = inventory.play("--check")
    assert plan.code == 0, plan.output
    assert _nodes(cluster, namespace) == before
    assert (plan.stats["berlin"]["would_restart"], plan.stats["berlin"]["would_evict"]) == (0, 1)
    assert "collapsed, would_evict (2 pods)" in inventory.map("berlin")

    done = inventory.play()
    assert done.code == 0, done.output
    after = _nodes(cluster, namespace)
    assert len(set(after.values())) == REPLICAS and len(set(after) & set(before)) == 1
    assert (done.stats["berlin"]["evicted"], done.stats["berlin"]["improved"], done.stats["berlin"]["collapsed_after"]) == (1, 1, 0)
    assert "evicted from 1 (improved 1)" in inventory.map("berlin")
    assert inventory.data("berlin")["totals"]["evicted"] == 1


def test_a_cluster_that_cannot_be_reached_does_not_stop_the_others(cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path) -> None:
    namespace = piled_up()
    kubeconfig = tmp_path / "gone.kubeconfig"
    kubeconfig.write_text(json.dumps(UNREACHABLE))
    cluster.kubectl("annotate", "deployment", "web", "-n", namespace, "argocd.argoproj.io/tracking-id=shop:apps/Deployment:shop/web")
    added = {"rebalance_spread_constraint": "add", "rebalance_force_managed": True}
    hosts: dict[str, dict[str, Any]] = {
        "berlin": {"rebalance_namespaces": [namespace], **added},
        "gone": {"rebalance_kubeconfig": str(kubeconfig)},
    }
    inventory = Inventory(tmp_path, cluster, hosts)

    run = inventory.play()

    assert run.code != 0
    assert run.recap("berlin")["failed"] == 0
    assert run.recap("gone")["failed"] == 1
    assert len(set(_nodes(cluster, namespace).values())) == REPLICAS
    template = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")["spec"]["template"]["spec"]
    assert len(template["topologySpreadConstraints"]) == 2
    assert (run.stats["berlin"]["ok"], run.stats["gone"]["ok"]) == (True, False)
    assert "port=1" in run.stats["gone"]["error"]
    assert "(the whole error is above)" in run.output
    assert inventory.data("gone")["error"] and "**Error:**" in inventory.summary("gone")
    assert inventory.map("gone").startswith("gone (context gone, https://127.0.0.1:1)\nerror: ")
    assert [run.stats[host]["cluster"] for host in hosts] == [identity_of(cluster), GONE]
    assert "kube_scheduling_rebalance_failed 1.0" in inventory.metrics("gone") and "verdict" not in inventory.metrics("gone")


def test_a_restart_that_does_not_finish_fails_the_run_and_is_reported(
    cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path
) -> None:
    namespace = piled_up(ready=False)
    # The pods of today are ready, and those that the template makes from now on are not.
    pods = [pod["metadata"]["name"] for pod in cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]]
    cluster.kubectl("annotate", "pods", *pods, "lab.onprem/ready-", "-n", namespace)
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=30s")
    inventory = Inventory(tmp_path, cluster, {"berlin": {"rebalance_namespaces": [namespace], "rebalance_wait_timeout": 2}})

    run = inventory.play()

    assert run.code != 0
    numbers = run.stats["berlin"]
    assert (numbers["ok"], numbers["failed"], numbers["checked"]) == (False, 1, 1)
    for shown in (inventory.map("berlin"), inventory.report("berlin")):
        assert re.search(r"failed \(rollout_not_finished\): .* after 2\s+s;", shown)


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (["--tags", "check"], False),
        (["--skip-tags", "restart"], True),
    ],
    ids=["check", "skip-restart"],
)
def test_these_tags_restart_nothing(cluster: Cluster, waiting: str, tmp_path: Path, arguments: list[str], written: bool) -> None:
    inventory = Inventory(tmp_path, cluster, {"berlin": {"rebalance_namespaces": [waiting]}})
    before = _nodes(cluster, waiting)

    run = inventory.play(*arguments)

    assert run.code == 0, run.output
    assert _nodes(cluster, waiting) == before
    assert run.stats["berlin"]["ok"]
    assert (tmp_path / "berlin.html").exists() is written


def test_these_variables_restart_nothing(cluster: Cluster, waiting: str, tmp_path: Path) -> None:
    common = {"rebalance_namespaces": [waiting]}
    hosts = {
        "plan-only": {**common, "rebalance_plan_only": True},
        "letter": {**common, "rebalance_plan_only": "t"},
        "few-nodes": {**common, "rebalance_min_ready_nodes": 50},
    }
    inventory = Inventory(tmp_path, cluster, hosts)
    before = _nodes(cluster, waiting)

    run = inventory.play()

    assert run.code == 0, run.output
    assert _nodes(cluster, waiting) == before
    for host in ("plan-only", "letter"):
        assert (run.stats[host]["plan"], run.stats[host]["would_restart"]) == (True, 1)
    assert run.stats["few-nodes"]["restarted"] == 0
    assert run.stats["few-nodes"]["reason"] == "too_few_ready_nodes" and "min_ready_nodes: 50" in inventory.map("few-nodes")


def test_relative_paths_start_in_the_folder_in_which_ansible_playbook_was_started(cluster: Cluster, waiting: str, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig.read_text())
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "scheduler-config.yaml").write_text(json.dumps(config))
    common = {"rebalance_namespaces": [waiting], "rebalance_kubeconfig": "kubeconfig"}
    hosts = {
        "variable": {**common, "rebalance_scheduler_config": ["scheduler-config.yaml"]},
        "environment": {**common, "rebalance_kubeconfig": ""},
        "missing": {**common, "rebalance_scheduler_config": ["nowhere.yaml"]},
    }
    run = Inventory(tmp_path, cluster, hosts).play("--check", KUBECONFIG="nowhere:kubeconfig")

    assert {host: stats["ok"] for host, stats in run.stats.items()} == {"variable": True, "environment": True, "missing": False}, run.output
    assert f"scheduler_config: there is no file {tmp_path}/nowhere.yaml on the machine" in run.stats["missing"]["error"]


def test_one_message_names_every_wrong_variable_before_anything_is_done(cluster: Cluster, waiting: str, tmp_path: Path) -> None:
    wrong: dict[str, tuple[dict[str, Any], list[str]]] = {
        "names": (
            {"rebalance_max_skeew": 1, "rebalance_nodes": 2},
            [
                "There is no variable rebalance_max_skeew; the nearest is rebalance_max_skew.",
                "There is no variable rebalance_nodes. The variables are rebalance_context, ",
            ],
        ),
        "word": ({"rebalance_plan_only": "flase"}, ["argument 'rebalance_plan_only' ", "The value 'flase' is not a valid boolean."]),
        "choice": (
            {"rebalance_strategy": "evict", "rebalance_spread_constraint": "yes"},
            [
                "rebalance_strategy must be one of: rollout, evict_surplus, auto, got: evict",
                "rebalance_spread_constraint must be one of: keep, add, got: yes",
            ],
        ),
        "everything": (
            {
                "rebalance_max_parallel": 0,
                "rebalance_cooldown": -1,
                "rebalance_max_attempts": True,
                "rebalance_min_ready_nodes": "few",
                "rebalance_map_width": "59",
                "rebalance_report_path": "nowhere/report.html",
                "rebalance_map_path": "{{ '.' }}",
            },
            [
                "rebalance_max_parallel is 0: ",
                "rebalance_cooldown is -1: ",
                "rebalance_max_attempts is True: ",
                "argument 'rebalance_min_ready_nodes' ",
                "rebalance_map_width is 59: ",
                f"rebalance_report_path is nowhere/report.html, and there is no folder {tmp_path}/nowhere: create it first",
                "rebalance_map_path is ., which is a folder",
            ],
        ),
        "namespaces": ({"rebalance_namespaces": []}, ["namespaces: is empty"]),
        "kinds": ({"rebalance_kinds": []}, ["kinds: is empty"]),
        "keys": ({"rebalance_topology_keys": []}, ["topology_keys: is empty"]),
        "file": ({"rebalance_kubeconfig": "nowhere"}, ["kubeconfig: there is no file nowhere", "(in the playbooks: rebalance_kubeconfig"]),
    }
    common = {"rebalance_namespaces": [waiting]}
    hosts = {host: {**common, **variables} for host, (variables, _said) in wrong.items()}
    empty = {"rebalance_max_skew": "", "rebalance_kinds": "", "rebalance_topology_keys": "", "rebalance_context": ""}
    inventory = Inventory(tmp_path, cluster, {**hosts, "good": {**common, **empty, "rebalance_plan_only": "yes"}})
    before = _nodes(cluster, waiting)

    run = inventory.play()

    assert run.code == 2, run.output
    assert _nodes(cluster, waiting) == before
    for host, (_variables, said) in wrong.items():
        assert run.recap(host)["failed"] == 1, run.output
        assert [text for text in said if text not in run.output] == [], run.output
    assert set(run.stats) == {"namespaces", "kinds", "keys", "file", "good"}
    assert (run.stats["good"]["plan"], run.stats["good"]["would_restart"]) == (True, 1)


def test_an_interrupted_restart_that_helped_is_settled_by_the_next_run(
    cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path
) -> None:
    namespace = piled_up()
    web = deployment(namespace, "web", REPLICAS)
    Modules(cluster.kubeconfig).restart(workloads=[identity(web)], wait=False)
    wait_rolled_out(cluster, web)
    assert known_outcome(cluster, web)["outcome"] == "pending"
    inventory = Inventory(tmp_path, cluster, {"berlin": {"rebalance_namespaces": [namespace], "rebalance_cooldown": 0}})
    pods = set(_nodes(cluster, namespace))

    plan = inventory.play("--check")
    assert plan.code == 0 and known_outcome(cluster, web)["outcome"] == "pending"
    run = inventory.play()

    assert run.code == 0, run.output
    assert (run.stats["berlin"]["restarted"], run.stats["berlin"]["improved"]) == (0, 1)
    assert (known_outcome(cluster, web)["outcome"], known_outcome(cluster, web)["attempts"]) == ("improved", 0)
    assert set(_nodes(cluster, namespace)) == pods, "nothing was restarted once more"


def test_without_healthy_workloads_in_the_list_what_was_fixed_is_healthy_and_not_gone(
    cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path
) -> None:
    namespace = piled_up()
    inventory = Inventory(tmp_path, cluster, {"berlin": {"rebalance_namespaces": [namespace], "rebalance_include_healthy": False}})

    run = inventory.play()

    assert run.code == 0 and run.stats["berlin"]["improved"] == 1, run.output
    assert "collapsed → healthy" in inventory.map("berlin")
    for shown in (inventory.map("berlin"), json.dumps(inventory.data("berlin"))):
        assert "gone" not in shown


def test_cooldown_and_attempts_reach_the_check(cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path) -> None:
    namespace = piled_up()
    web = deployment(namespace, "web", REPLICAS)
    unchanged = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600)), "attempts": 3, "outcome": "unchanged"}
    (replica_set,) = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    written = {**unchanged, "revision": replica_set["metadata"]["labels"]["pod-template-hash"], "eligible": "another", "number": 1}
    cluster.kubectl("annotate", "deployment/web", "-n", namespace, f"{OUTCOME}={json.dumps(written)}")
    wait_rolled_out(cluster, web)
    hosts = {"cooled-down": (10, 3), "cooling": (1200, 3), "cooling-with-attempts": (1200, 9)}
    settings = {
        host: {"rebalance_namespaces": [namespace], "rebalance_cooldown": cooldown, "rebalance_max_attempts": attempts}
        for host, (cooldown, attempts) in hosts.items()
    }
    run = Inventory(tmp_path, cluster, settings).play("--check")
    restartable = {host: (run.stats[host]["restartable"], run.stats[host]["would_restart"]) for host in hosts}
    assert restartable == {"cooled-down": (1, 1), "cooling": (0, 0), "cooling-with-attempts": (0, 0)}


def test_a_node_that_becomes_not_ready_during_the_run_is_marked_and_named(
    cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path
) -> None:
    namespace = piled_up()
    web = deployment(namespace, "web", REPLICAS)
    with only_node(cluster, "worker-1"):
        cluster.kubectl("patch", "deployment/web", "-n", namespace, "--type=merge", "-p", SLOW)
        wait_rolled_out(cluster, web)
        wait_until(lambda: set(_nodes(cluster, namespace).values()) == {"worker-1"}, what="all replicas on worker-1")
    inventory = Inventory(tmp_path, cluster, {"berlin": {"rebalance_namespaces": [namespace]}})
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(inventory.play)
        wait_until(lambda: outcome(cluster, web) is not None, timeout_s=60, what="the restart")
        with not_ready(cluster, "worker-1"):
            run = running.result()
    assert run.code == 0, run.output
    shown = inventory.map("berlin")
    assert "Not ready at " in shown and "worker-1*" in shown
    assert inventory.data("berlin")["lost_nodes"] == ["worker-1"]


SLOW = json.dumps({"spec": {"template": {"metadata": {"annotations": {"lab.onprem/ready-delay": "4"}}}}})
