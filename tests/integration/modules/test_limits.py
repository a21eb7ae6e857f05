# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of one run on a real control plane: what is beyond a limit is skipped and stays as it is."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import budget, deployment, identity, lay_out, pile_up, pod_uids, restarted_at, wait_rolled_out, workers


def actions(done: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(entry["name"], entry["action"], entry["reason"]) for entry in done["workloads"]]


@pytest.mark.parametrize("wait", [True, False])
def test_workloads_beyond_max_workloads_are_skipped_in_a_plan_and_in_a_run(
    cluster: Cluster, modules: Modules, namespace: str, wait: bool
) -> None:
    webs = [deployment(namespace, f"web-{number}", 2) for number in range(3)]
    pile_up(cluster, *webs)
    options: dict[str, Any] = {"check": modules.check(namespace), "max_workloads": 2, "max_parallel": 3, "wait": wait}
    expected = [("web-0", "restarted", "collapsed"), ("web-1", "restarted", "collapsed"), ("web-2", "skipped", "limit_reached")]
    plan = modules.restart(**options, check_mode=True)
    planned = [(name, {"restarted": "would_restart"}.get(action, action), reason) for name, action, reason in expected]
    assert actions(plan) == planned and [restarted_at(cluster, web) for web in webs] == [None] * 3
    done = modules.restart(**options)
    assert actions(done) == expected and not done["failed"], done
    assert done["workloads"][2]["message"] == "the limit max_workloads (2 workloads in a run) is reached"
    assert [entry["message"] for entry in plan["workloads"]] == [entry["message"] for entry in done["workloads"]]
    assert [restarted_at(cluster, web) is not None for web in webs] == [True, True, False]


def test_a_refused_workload_does_not_count(cluster: Cluster, modules: Modules, namespace: str) -> None:
    kept, web = deployment(namespace, "kept", 2), deployment(namespace, "web", 2)
    pile_up(cluster, kept, web)
    kept["spec"]["paused"] = True
    cluster.apply(kept)
    done = modules.restart(workloads=[identity(kept), identity(web)], max_workloads=1)
    assert [entry["action"] for entry in done["workloads"]] == ["refused", "restarted"], done


def test_evictions_end_at_the_limit_and_their_outcome_is_recorded(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web, api = deployment(namespace, "web"), deployment(namespace, "api")
    lay_out(cluster, web, 4, 1, 1)
    lay_out(cluster, api, 4, 1, 1)
    old = pod_uids(cluster, web)
    options: dict[str, Any] = {"workloads": [identity(web), identity(api)], "strategy": "evict_surplus", "max_evictions": 2}
    plan = modules.restart(**options, check_mode=True)["workloads"]
    assert [(entry["action"], len(entry["evicted"])) for entry in plan] == [("would_evict", 2), ("skipped", 0)], plan
    done = modules.restart(**options)["workloads"]
    assert [(entry["action"], entry["outcome"], len(entry["evicted"])) for entry in done] == [
        ("evicted", "improved", 2),
        ("skipped", "", 0),
    ], done
    assert done[0]["reason"] == "surplus" and "the limit max_evictions (2 pods in a run) is reached" in done[0]["message"]
    assert (done[1]["reason"], done[1]["message"]) == ("limit_reached", "the limit max_evictions (2 pods in a run) is reached")
    assert len(old - pod_uids(cluster, web)) == 2


def test_a_denied_eviction_does_not_count(cluster: Cluster, modules: Modules, namespace: str) -> None:
    kept, web = deployment(namespace, "kept"), deployment(namespace, "web")
    lay_out(cluster, kept, 3, 1, 0)
    lay_out(cluster, web, 3, 1, 0)
    cluster.apply(budget(namespace, "kept", "kept", minAvailable=4))
    done = modules.restart(workloads=[identity(kept), identity(web)], strategy="evict_surplus", max_evictions=1)["workloads"]
    assert [(entry["action"], len(entry["evicted"])) for entry in done] == [("refused", 0), ("evicted", 1)], done


def test_each_node_and_each_namespace_has_its_own_limit(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web, api = deployment(namespace, "web"), deployment(namespace, "api")
    lay_out(cluster, web, 4, 1, 1)
    lay_out(cluster, api, 1, 4, 1)
    options: dict[str, Any] = {"workloads": [identity(web), identity(api)], "strategy": "evict_surplus"}
    done = modules.restart(**options, max_evictions_per_node=1, check_mode=True)["workloads"]
    assert [{pod["node"] for pod in entry["evicted"]} for entry in done] == [{workers(cluster)[0]}, {workers(cluster)[1]}], done
    done = modules.restart(**options, max_evictions_per_namespace=1)["workloads"]
    assert [(entry["action"], len(entry["evicted"])) for entry in done] == [("evicted", 1), ("skipped", 0)], done
    assert f"max_evictions_per_namespace (1 pod in a run) is reached for namespace {namespace}" in done[1]["message"]


@pytest.mark.parametrize("strategy", ["rollout", "evict_surplus"])
def test_workloads_that_cannot_end_in_time_take_neither_the_limit_nor_the_time(
    cluster: Cluster, modules: Modules, namespaces: NamespaceFactory, strategy: str
) -> None:
    """The pods of the slow ones are ready, and count as available after 20 seconds."""
    slow_namespace, namespace = namespaces("slow"), namespaces("quick")
    slow, web = [deployment(slow_namespace, f"slow-{number}", 3) for number in range(2)], deployment(namespace, "web", 3)
    pile_up(cluster, *slow, web)
    for one in slow:
        one["spec"]["minReadySeconds"] = 20
        cluster.apply(one)
    for one in slow:
        wait_rolled_out(cluster, one)
    listed = [identity(one) for one in (*slow, web)]
    options: dict[str, Any] = {"workloads": listed, "max_workloads": 1, "wait_timeout": 15, "strategy": strategy}
    plan = modules.restart(**options, check_mode=True)
    begun_s = time.monotonic()
    done = modules.restart(**options)
    assert time.monotonic() - begun_s < 20
    moved = "restarted" if strategy == "rollout" else "evicted"
    assert actions(done)[:2] == [(one["metadata"]["name"], "refused", "too_slow") for one in slow], done
    assert actions(done)[2][:2] == ("web", moved) and done["workloads"][2]["outcome"] == "improved", done
    assert [entry["reason"] for entry in plan["workloads"]] == [entry["reason"] for entry in done["workloads"]]


def test_namespaces_take_turns_also_over_several_runs(cluster: Cluster, modules: Modules, namespaces: NamespaceFactory) -> None:
    many, one = namespaces("many"), namespaces("one")
    webs, api = [deployment(many, f"web-{number}", 2) for number in range(3)], deployment(one, "api", 2)
    pile_up(cluster, *webs, api)
    options: dict[str, Any] = {"workloads": [identity(each) for each in (*webs, api)], "max_workloads": 1}
    for expected in ("web-0", "api", "web-1"):
        plan = modules.restart(**options, check_mode=True)["workloads"]
        done = modules.restart(**options)["workloads"]
        moved = [[entry["name"] for entry in entries if entry["reason"] == "collapsed"] for entries in (plan, done)]
        assert moved == [[expected], [expected]], (plan, done)
