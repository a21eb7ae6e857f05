# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Decisions that depend on pods that are terminating: the run waits for their end, and the plan decides as after it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS, Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, ROLLOUT, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target

from tests.unit.operations.restart.test_limited_evictions import EvictingApi
from tests.unit.support.cluster import ClusterBuilder, Json

WAIT_S = 60
NEVER = 1000
SKIPPED = ("skipped", "waits_for_terminating_pods")


class EndingApi(EvictingApi):
    """A terminating pod has ended after the ``observations``."""

    def __init__(self, cluster: ClusterBuilder, observations: int) -> None:
        super().__init__(cluster)
        self._observations = observations

    def list_all(self, resource: Resource, **scope: t.Any) -> list[t.Any]:
        found = super().list_all(resource, **scope)
        if resource is not PODS:
            return found
        self._observations -= 1
        return found if self._observations >= 0 else [pod for pod in found if not pod.terminating]


def sized(cpu: str) -> Json:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}


def after_a_drain(*, ready: bool = True, end: str = "2026-01-01T00:00:05Z") -> ClusterBuilder:
    """Two pods of ``web`` are on worker-1, which has capacity for two more. A terminating pod uses worker-2."""
    cluster = ClusterBuilder()
    for name, cpu in (("worker-1", "12"), ("worker-2", "6")):
        cluster.node(name, allocatable={"cpu": cpu, "memory": "16Gi", "pods": "110"}, ready=ready or name == "worker-1")
    cluster.pod("other", "worker-2", labels={"app": "other"}, template=sized("5"), deletionTimestamp=end)
    cluster.deployment("web", ["worker-1"] * 2, template=sized("2.5"))
    return cluster


def run(api: EndingApi, **options: t.Any) -> RestartResult:
    given = {"wait_timeout_s": WAIT_S, "verify_spread": False, "asks_server": False, **options}
    (result,) = run_restart(api, [Target("Deployment", "app", "web")], RestartOptions(**given))
    return result


def code(result: RestartResult) -> tuple[str, str]:
    return result.action, result.reason.code if result.reason is not None else ""


@pytest.mark.parametrize(("strategy", "moved"), [(ROLLOUT, "restarted"), (EVICT_SURPLUS, "evicted")])
def test_a_run_waits_until_the_terminating_pods_have_ended(strategy: str, moved: str, slept: list[float]) -> None:
    result = run(EndingApi(after_a_drain(), 2), strategy=strategy)
    assert (code(result), slept[:2]) == ((moved, "collapsed"), [1, 2])


@pytest.mark.parametrize("strategy", [ROLLOUT, EVICT_SURPLUS])
@pytest.mark.parametrize(("options", "waited_s"), [({}, WAIT_S), ({"wait": False}, 0), ({"wait": False, "dry_run": True}, 0)])
def test_pods_that_do_not_end_in_time_are_named(strategy: str, options: dict[str, t.Any], waited_s: float, slept: list[float]) -> None:
    api = EndingApi(after_a_drain(), NEVER)
    result = run(api, strategy=strategy, **options)
    assert (code(result), sum(slept), api.patches, api.evicted) == (SKIPPED, waited_s, [], 0)
    assert "app/other" in result.message and "run again" in result.message


@pytest.mark.parametrize(("strategy", "moved"), [(ROLLOUT, "would_restart"), (EVICT_SURPLUS, "would_evict")])
def test_a_plan_decides_as_after_the_end_of_the_terminating_pods(strategy: str, moved: str, slept: list[float]) -> None:
    result = run(EndingApi(after_a_drain(), NEVER), strategy=strategy, dry_run=True)
    assert (code(result), result.condition, slept) == ((moved, "collapsed"), "", [])


def test_the_workload_that_waits_keeps_its_turn(slept: list[float]) -> None:
    cluster = after_a_drain()
    cluster.deployment("api", ["worker-1"] * 2, template=sized("10m"))
    ends = {}
    for dry_run in (True, False):
        targets = [Target("Deployment", "app", name) for name in ("web", "api")]
        options = RestartOptions(wait_timeout_s=WAIT_S, verify_spread=False, asks_server=False, max_workloads=1, dry_run=dry_run)
        ends[dry_run] = [code(result) for result in run_restart(EndingApi(cluster, 2), targets, options)]
    assert ends == {
        True: [("would_restart", "collapsed"), ("skipped", "limit_reached")],
        False: [("restarted", "collapsed"), ("skipped", "limit_reached")],
    }
    assert slept


def test_a_workload_that_waits_is_not_begun_beside_another_one(slept: list[float]) -> None:
    cluster = after_a_drain()
    cluster.node("worker-3", allocatable={"cpu": "1", "memory": "16Gi", "pods": "110"})
    cluster.deployment("api", ["worker-3"] * 2, template=sized("10m"))
    options = RestartOptions(wait_timeout_s=WAIT_S, verify_spread=False, asks_server=False, max_parallel=2)
    results = run_restart(EndingApi(cluster, NEVER), [Target("Deployment", "app", name) for name in ("api", "web")], options)
    assert [code(result) for result in results] == [("restarted", "collapsed"), SKIPPED]


def test_an_eviction_that_helps_only_before_the_end_of_a_terminating_pod_is_not_made(slept: list[float]) -> None:
    """The scores prefer worker-1, which the terminating pod fills."""
    cluster = ClusterBuilder()
    for name, disk in (("worker-1", "ssd"), ("worker-2", "hdd")):
        cluster.node(name, labels={"disk": disk}, allocatable={"cpu": "8", "memory": "16Gi", "pods": "110"})
    cluster.pod("other", "worker-1", labels={"app": "other"}, template=sized("6"), deletionTimestamp="2026-01-01T00:00:05Z")
    ssd = {"weight": 100, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}
    template = sized("1")
    template["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [ssd]}}
    cluster.deployment("web", ["worker-1"] * 2, template=template)
    assert code(run(EndingApi(cluster, NEVER), strategy=EVICT_SURPLUS)) == SKIPPED
    assert code(run(EndingApi(cluster, 1), strategy=EVICT_SURPLUS)) == ("skipped", "scoring_does_not_spread")
    assert slept


def test_a_limit_is_a_reason_before_the_wait(slept: list[float]) -> None:
    assert (code(run(EndingApi(after_a_drain(), NEVER), max_workloads=0)), slept) == (("skipped", "limit_reached"), [])


@pytest.mark.parametrize("strategy", [ROLLOUT, EVICT_SURPLUS])
@pytest.mark.parametrize(
    "where",
    [{"ready": False}, {"end": "2026-01-01T00:05:00Z"}, {"end": "2025-12-31T23:59:00Z"}],
    ids=["lost node", "long grace period", "hangs"],
)
def test_a_run_does_not_wait_for_a_pod_that_will_not_soon_have_ended(strategy: str, where: dict[str, t.Any], slept: list[float]) -> None:
    result = run(EndingApi(after_a_drain(**where), NEVER), strategy=strategy)
    assert (result.action, slept) == ("skipped", []) and code(result) != SKIPPED


def test_the_check_shows_the_prediction_after_the_end_of_the_terminating_pods() -> None:
    (report,) = check_spread(after_a_drain().snapshot(), CheckOptions()).workloads
    assert report.prediction is not None and (report.prediction.restart_helps, report.prediction.awaits_ends) == (True, True)
