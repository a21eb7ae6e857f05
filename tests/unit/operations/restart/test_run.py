# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The second check of restarts that were begun by an earlier run."""

from __future__ import annotations

import json
import typing as t
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import BUDGETS, PODS, Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart import run as restart_run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.observation import STATES_OF_RUN
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import restart_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.distribution import Distribution
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.draws import MAX_DRAWS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.restart_simulation import (
    RestartSimulation,
    SimulatedRestart,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.skew_cost import measure_skew
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import WINDOW_ANNOTATION
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.support.cluster import ClusterBuilder, Json, workers
from tests.unit.support.fakes import FakeApi

NOW = 1_767_225_600.0
LATE = {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}], "updatedReplicas": 1}
UNDER_WAY = {"updatedReplicas": 1}


def interrupted(cluster: ClusterBuilder, name: str, *homes: str, status: Json | None = None) -> Target:
    """A Deployment that an earlier run restarted a minute ago, when all its pods were on one of two nodes, without a second check."""
    piled_up = [Distribution("kubernetes.io/hostname", ("worker-1", "worker-2"), {"worker-1": len(homes)}, 0, len(homes), 0)]
    lowest = measure_skew(piled_up)
    outcome = make_outcome(now_s=NOW - 60, attempts=1, outcome="pending", revision="hash0", eligible="x", lowest=lowest)
    template = {"metadata": {"labels": {"app": name}, "annotations": {"kubectl.kubernetes.io/restartedAt": outcome.time}}}
    metadata = {"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}}
    cluster.deployment(name, homes, metadata=metadata, template=template, status=status)
    return Target("Deployment", "app", name)


def remembered(api: FakeApi) -> list[str]:
    return [json.loads(patch["metadata"]["annotations"][OUTCOME_ANNOTATION])["outcome"] for patch in api.patches]


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize(
    ("homes", "status", "action", "verdict"),
    [
        (("worker-1", "worker-2"), None, "skipped", "improved"),
        (("worker-1", "worker-1"), None, "skipped", "unchanged"),
        (("worker-1", "worker-2"), LATE, "failed", "failed"),
    ],
)
def test_an_ended_rollout_gets_its_second_check_with_and_without_waiting(homes, status, action, verdict, wait):
    cluster = workers(2)
    target = interrupted(cluster, "web", *homes, status=status)
    api = FakeApi(cluster, now=NOW)
    (result,) = run_restart(api, [target], RestartOptions(wait=wait))
    assert (result.action, result.outcome, result.changed) == (action, verdict, True)
    assert str(result.reason).startswith("already_restarted" if action == "skipped" else "rollout_not_finished: ")
    assert remembered(api) == [verdict]


def test_a_rollout_under_way_is_not_changed_by_a_run_that_does_not_wait():
    cluster = workers(2)
    target = interrupted(cluster, "web", "worker-1", "worker-2", status=UNDER_WAY)
    api = FakeApi(cluster, now=NOW)
    (result,) = run_restart(api, [target], RestartOptions(wait=False))
    assert (result.action, result.outcome, result.changed, api.patches) == ("skipped", "pending", False, [])


@pytest.mark.parametrize("wait", [True, False])
def test_ended_rollouts_share_one_second_check(wait):
    cluster = workers(2)
    targets = [interrupted(cluster, f"web-{number}", "worker-1", "worker-2") for number in range(5)]
    api = FakeApi(cluster, now=NOW)
    results = run_restart(api, targets, RestartOptions(wait=wait, max_parallel=1))
    assert [result.outcome for result in results] == ["improved"] * 5
    assert remembered(api) == ["improved"] * 5
    assert api.listed.count("nodes") == 2


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize(
    ("homes", "status"),
    [
        pytest.param(("worker-1", "worker-2"), None, id="improved"),
        pytest.param(("worker-1", "worker-1"), None, id="unchanged"),
        pytest.param(("worker-1", "worker-2"), LATE, id="failed"),
    ],
)
def test_check_mode_has_the_result_of_the_run_that_records_the_outcome_of_an_ended_rollout(
    homes: tuple[str, ...], status: Json | None, wait: bool
) -> None:
    results = []
    for dry_run in (True, False):
        cluster = workers(2)
        target = interrupted(cluster, "web", *homes, status=status)
        api = FakeApi(cluster, now=NOW)
        found = restart_result(run_restart(api, [target], RestartOptions(dry_run=dry_run, wait=wait)), named=False, diff=True)
        found["workloads"][0].pop("duration")
        results.append(found)
        assert bool(api.patches) is not dry_run
    assert results[0] == results[1] and results[0]["changed"]
    outcome = results[0]["workloads"][0]["outcome"]
    assert [(change["before"], change["after"]) for change in results[0]["diff"]] == [({"outcome": "pending"}, {"outcome": outcome})]


@pytest.mark.parametrize("dry_run", [True, False])
def test_rollout_in_progress_is_no_change_for_a_run_that_does_not_wait_for_it(dry_run: bool) -> None:
    cluster = workers(2)
    target = interrupted(cluster, "web", "worker-1", "worker-2", status=UNDER_WAY)
    found = restart_result(
        run_restart(FakeApi(cluster, now=NOW), [target], RestartOptions(dry_run=dry_run, wait=dry_run)), named=False, diff=True
    )
    assert (found["changed"], found["diff"], found["workloads"][0]["outcome"]) == (False, [], "pending")


def evicted_earlier(homes: list[str], **annotations: str) -> tuple[FakeApi, Target]:
    """A Deployment of which an earlier run evicted a pod without waiting, an hour ago."""
    cluster = workers(3)
    outcome = make_outcome(now_s=NOW - 3600, attempts=1, outcome="pending", revision="hash1", eligible="x")
    cluster.deployment("web", homes, metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation(), **annotations}})
    return FakeApi(cluster, now=NOW), Target("Deployment", "app", "web")


@pytest.mark.parametrize(
    ("homes", "annotations"),
    [
        pytest.param(["worker-1", "worker-2"], {}, id="even"),
        pytest.param(["worker-1"] * 3, {WINDOW_ANNOTATION: "Wed 00:00-24:00 UTC"}, id="outside of the window"),
    ],
)
def test_check_mode_has_the_result_of_the_run_that_records_the_outcome_of_earlier_evictions(
    homes: list[str], annotations: dict[str, str]
) -> None:
    results = []
    for dry_run in (True, False):
        api, target = evicted_earlier(homes, **annotations)
        options = RestartOptions(strategy=EVICT_SURPLUS, dry_run=dry_run)
        found = restart_result(run_restart(api, [target], options), named=False, diff=True)
        found["workloads"][0].pop("duration")
        results.append(found)
        assert bool(api.patches) is not dry_run
    assert results[0] == results[1] and results[0]["changed"] and len(results[0]["diff"]) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_outcome_of_earlier_evictions_stays_pending_without_verify_spread(dry_run: bool) -> None:
    api, target = evicted_earlier(["worker-1"] * 3, **{WINDOW_ANNOTATION: "Wed 00:00-24:00 UTC"})
    before = api.outcome_of("web")
    options = RestartOptions(strategy=EVICT_SURPLUS, verify_spread=False, dry_run=dry_run)
    (result,) = run_restart(api, [target], options)
    assert (result.outcome, result.changed, api.outcome_of("web")) == ("pending", False, before)


class WithoutPods(FakeApi):
    """The role of the user has changed: pods may not be listed any more."""

    def list_all(self, resource: Resource, **how: t.Any) -> list[t.Any]:
        if resource is PODS:
            raise ForbiddenError("cannot list pods in namespace app: forbidden", status=403, reason="Forbidden")
        return super().list_all(resource, **how)


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("way", ["rollout", EVICT_SURPLUS])
def test_outcome_stays_pending_if_the_pods_cannot_be_read(way: str, wait: bool) -> None:
    """Otherwise an attempt that has helped would count."""
    cluster = workers(2)
    target = interrupted(cluster, "web", "worker-1", "worker-2")
    api = WithoutPods(cluster, now=NOW)
    if way == EVICT_SURPLUS:
        evicted, target = evicted_earlier(["worker-1", "worker-2", "worker-3"])
        api = WithoutPods(evicted._cluster, now=NOW)
    before = api.outcome_of("web")
    (result,) = run_restart(api, [target], RestartOptions(strategy=way, wait=wait, wait_timeout_s=1))
    assert (result.outcome, api.outcome_of("web"), api.patches) == ("pending", before, [])


@pytest.mark.parametrize("wait", [True, False])
def test_job_that_only_checks_does_not_reset_the_attempts(wait: bool) -> None:
    """A restart of a job with max_skew 1 has improved nothing. For another job without max_skew the workload is even."""
    cluster = workers(2)
    distribution = Distribution("kubernetes.io/hostname", ("worker-1", "worker-2"), {"worker-1": 5, "worker-2": 1}, 0, 6, 0)
    lowest = measure_skew([distribution])
    outcome = make_outcome(now_s=NOW - 60, attempts=2, outcome="pending", revision="hash0", eligible="x", lowest=lowest)
    template = {"metadata": {"labels": {"app": "web"}, "annotations": {"kubectl.kubernetes.io/restartedAt": outcome.time}}}
    metadata = {"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}}
    cluster.deployment("web", ["worker-1"] * 5 + ["worker-2"], metadata=metadata, template=template)
    api = FakeApi(cluster, now=NOW)
    (result,) = run_restart(api, [Target("Deployment", "app", "web")], RestartOptions(wait=wait))
    written = json.loads(api.outcome_of("web") or "")
    assert (result.outcome, written["outcome"], written["attempts"]) == ("unchanged", "unchanged", 2)


@pytest.mark.parametrize("answers_lost", [True, False])
def test_an_outcome_whose_answer_was_lost_is_kept(answers_lost: bool) -> None:
    def got_through(workload: Json) -> None:
        workload["metadata"]["annotations"][OUTCOME_ANNOTATION] = written["metadata"]["annotations"][OUTCOME_ANNOTATION]

    cluster = workers(2)
    target = interrupted(cluster, "web", "worker-1", "worker-2")
    first = FakeApi(cluster, now=NOW)
    run_restart(first, [target], RestartOptions())
    (written,) = first.patches
    api = FakeApi(cluster, now=NOW, meddlers=[got_through], answers_lost=answers_lost)
    (result,) = run_restart(api, [target], RestartOptions())
    assert (result.outcome, api.patches) == ("improved", [])
    assert [("changed by another client" in warning) for warning in result.warnings] == [True] * (not answers_lost)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (["worker-2"], "a node that is not ready: worker-2"),
        (["worker-1", "worker-2"], "nodes that are not ready: worker-1, worker-2"),
    ],
)
def test_a_node_that_is_not_ready_is_named_where_a_rollout_has_not_ended(lost: list[str], said: str) -> None:
    cluster = workers(2)
    target = interrupted(cluster, "web", "worker-1", "worker-2", status=LATE)
    nodes = [node for node in cluster.nodes if node.name not in lost]
    cluster.nodes.clear()
    for name in lost:
        cluster.node(name, ready=False)
    cluster.nodes.extend(nodes)
    (result,) = run_restart(FakeApi(cluster, now=NOW), [target], RestartOptions())
    assert str(result.reason).endswith(said) and "; pods of Deployment app/web are on " in str(result.reason)


def large_workers() -> ClusterBuilder:
    """Two nodes on which many small pods make no difference to the scheduler."""
    cluster = ClusterBuilder()
    for name in ("worker-1", "worker-2"):
        cluster.node(name, allocatable={"cpu": "64", "memory": "64Gi", "pods": "110"})
    return cluster


def uneven(cluster: ClusterBuilder, count: int) -> list[Target]:
    """So many Deployments with both pods on one node."""
    for number in range(count):
        cluster.deployment(f"web-{number}", ["worker-1"] * 2)
    return [Target("Deployment", "app", f"web-{number}") for number in range(count)]


@pytest.mark.parametrize("count", [2, 20])
def test_targets_that_are_not_waited_for_are_begun_on_one_observation(count: int) -> None:
    cluster = large_workers()
    targets = uneven(cluster, count)
    api = FakeApi(cluster, now=NOW)
    results = run_restart(api, targets, RestartOptions(wait=False))
    assert [(result.action, result.outcome) for result in results] == [("restarted", "pending")] * count
    assert (api.listed.count("nodes"), api.listed.count("pods")) == (1, 1)


def test_each_target_is_simulated_a_fixed_number_of_times_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    def counted(restart: RestartSimulation) -> SimulatedRestart:
        played.append(restart._workload.metadata.name)
        return run(restart)

    run = RestartSimulation.run
    monkeypatch.setattr(RestartSimulation, "run", counted)
    cluster = large_workers()
    targets = uneven(cluster, 10)
    run_restart(FakeApi(cluster, now=NOW), targets, RestartOptions(wait=False))
    # In each possible state once to find the best result, and some times with the scores of the scheduler. Then to assume the restart.
    assert set(played) == {target.name for target in targets}
    assert all(number <= STATES_OF_RUN * (MAX_DRAWS + 2) for number in Counter(played).values())


def test_an_old_observation_is_replaced_before_the_next_target_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_run, "OBSERVATION_VALID_S", -1.0)
    cluster = workers(2)
    targets = uneven(cluster, 3)
    api = FakeApi(cluster, now=NOW)
    results = run_restart(api, targets, RestartOptions(wait=False))
    assert [result.action for result in results] == ["restarted"] * 3
    assert api.listed.count("nodes") == 1 + 3


def test_without_waiting_a_target_does_not_use_the_capacity_of_earlier_targets() -> None:
    cluster = workers(2)
    big = {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1500m"}}}]}}
    cluster.deployment("one", ["worker-1"] * 2, template=big)
    cluster.deployment(
        "two", ["worker-1"] * 2, template={"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "500m"}}}]}}
    )
    small = {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "2100m"}}}]}}
    cluster.pod("filler-0", "worker-2", template=small)
    targets = [Target("Deployment", "app", name) for name in ("one", "two")]
    api = FakeApi(cluster, now=NOW)
    results = run_restart(api, targets, RestartOptions(wait=False))
    assert [(result.action, result.reason and result.reason.code) for result in results] == [
        ("restarted", "collapsed"),
        ("skipped", "no_gain"),
    ]
    # The second target is decided on its own observation, which could have shown more free capacity.
    assert api.listed.count("nodes") == 2


def test_without_waiting_a_budget_is_not_taken_from_twice() -> None:
    cluster = workers(2)
    one_less = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
    for name in ("one", "two"):
        cluster.deployment(name, ["worker-1"] * 3, template={"metadata": {"labels": {"app": name, "tier": "web"}}}, strategy=one_less)
    cluster.budget("both", "", desired=2, current=6, labels={"tier": "web"})
    api = FakeApi(cluster, now=NOW)
    targets = [Target("Deployment", "app", name) for name in ("one", "two")]
    results = run_restart(api, targets, RestartOptions(wait=False))
    assert [result.action for result in results] == ["restarted", "refused"]
    assert "shares PodDisruptionBudget both" in str(results[1].reason)


class BehindApi(FakeApi):
    """After the first restart, ``observations`` of the budgets are ``behind``."""

    observations = 0
    behind: t.Sequence[t.Any] = ()

    def list_all(self, resource: Resource, **scope: t.Any) -> list[t.Any]:
        if resource is not BUDGETS or not self.patches or not self.observations:
            return super().list_all(resource, **scope)
        self.observations -= 1
        return list(self.behind)


@pytest.mark.usefixtures("slept")
@pytest.mark.parametrize(("observations", "actions"), [(3, ["restarted", "restarted"]), (1000, ["restarted", "refused"])])
def test_the_next_restart_on_a_budget_waits_until_it_counts_the_new_pods(observations: int, actions: list[str]) -> None:
    cluster, later = workers(3), workers(0)
    one_less = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    for name in ("one", "two"):
        cluster.deployment(name, ["worker-1"] * 3, template={"metadata": {"labels": {"app": name, "tier": "web"}}}, strategy=one_less)
    cluster.budget("both", "", desired=5, current=6, labels={"tier": "web"})
    later.budget("both", "", desired=5, current=5, expected=6, labels={"tier": "web"})
    api = BehindApi(cluster, now=NOW)
    api.observations, api.behind = observations, later.budgets
    targets = [Target("Deployment", "app", name) for name in ("one", "two")]
    results = run_restart(api, targets, RestartOptions(verify_spread=False, wait_timeout_s=60))
    assert [result.action for result in results] == actions
