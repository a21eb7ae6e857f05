# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Evictions over several runs, each of which ends at a limit."""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    OverloadedError,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, read_outcome

from tests.unit.support.cluster import NOW, ClusterBuilder, workers
from tests.unit.support.fakes import FakeApi

DAY_S = 86400


class EvictingApi(FakeApi):
    """An API server whose evicted pods are replaced on the node with the fewest pods. It answers ``busy`` evictions with 429.

    ``then``: its answer to all evictions of a day after the first one. Without ``replaced``, evicted pods are not replaced.
    """

    def __init__(self, cluster: ClusterBuilder, *, busy: int = 0, then: Exception | None = None, replaced: bool = True) -> None:
        super().__init__(cluster, now=NOW)
        self._busy = busy
        self._then = then
        self._replaced = replaced
        self.evicted = 0
        self._evicted_today = False

    def evict(self, _namespace: str, _name: str, *, uid: str, dry_run: bool = False, **_how: t.Any) -> None:
        if dry_run:
            return
        if self._busy:
            self._busy -= 1
            raise OverloadedError("HTTP 429", status=429)
        if self._then is not None and self._evicted_today:
            raise self._then
        self.evicted += 1
        self._evicted_today = True
        (old,) = [pod for pod in self._cluster.pods if pod.metadata.uid == uid]
        self._cluster.pods.remove(old)
        if not self._replaced:
            return
        used = Counter(pod.spec.node_name for pod in self._cluster.pods)
        node = min((node.metadata.name for node in self._cluster.nodes), key=lambda name: (used[name], name))
        metadata = replace(old.metadata, name=f"new-{self.evicted}", uid=f"new-{self.evicted}")
        self._cluster.pods.append(replace(old, metadata=metadata, spec=replace(old.spec, node_name=node)))

    def watch_selected(self, *_what: t.Any, **_how: t.Any) -> t.Iterator[t.Any]:
        return iter(())

    def watch(self, *_what: t.Any, **_how: t.Any) -> t.Iterator[t.Any]:
        return iter(())

    def run(self, *names: str, day: int, **limits: t.Any) -> list[RestartResult]:
        """Evict surplus pods of these Deployments on this day."""
        self._now = NOW + day * DAY_S
        self._evicted_today = False
        options = RestartOptions(strategy=EVICT_SURPLUS, wait_timeout_s=0.2, wait_sleep_s=0.1, **limits)
        return run_restart(self, [Target("Deployment", "app", name) for name in names], options)


@pytest.mark.parametrize("limit", ["max_evictions", "max_evictions_per_node", "max_evictions_per_namespace"])
def test_runs_that_end_at_a_limit_continue_until_the_replicas_are_spread(limit: str) -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 8)
    api = EvictingApi(cluster)
    results = [api.run("web", day=day, **{limit: 1})[0] for day in range(6)]
    assert [(result.action, result.outcome) for result in results] == [("evicted", "improved")] * 6
    assert set(Counter(pod.spec.node_name for pod in cluster.pods).values()) == {2}


def test_workload_without_an_eviction_keeps_its_outcome_if_the_limit_is_reached_meanwhile() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 3)
    cluster.deployment("api", ["worker-2"] * 3)
    api = EvictingApi(cluster, busy=1)
    results = {result.target.name: result for result in api.run("web", "api", day=0, max_evictions=1)}
    (limited,) = [result for result in results.values() if not result.evicted]
    assert (limited.action, limited.outcome) == ("skipped", "") and api.outcome_of(limited.target.name) is None


def test_check_mode_without_waiting_plans_one_eviction_of_each_workload() -> None:
    cluster = workers(3)
    names = ("one", "two", "three")
    for name in names:
        cluster.deployment(name, ["worker-1"] * 3)
    options = RestartOptions(strategy=EVICT_SURPLUS, wait=False, max_evictions=3, dry_run=True)
    results = run_restart(EvictingApi(cluster), [Target("Deployment", "app", name) for name in names], options)
    assert [(result.action, len(result.evicted)) for result in results] == [("would_evict", 1)] * 3


def test_reason_is_about_the_node_whose_pod_is_evicted_if_a_limit_forbids_the_first_choice() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 3 + ["worker-2"] * 2)
    cluster.deployment("api", ["worker-1"] * 2)
    api = EvictingApi(cluster)
    results = {result.target.name: result for result in api.run("api", "web", day=0, max_evictions_per_node=1)}
    assert [pod.node for pod in results["web"].evicted] == ["worker-2"]
    assert results["web"].reason is not None and "worker-2" in results["web"].reason.text, results["web"].reason


NO_BUDGET = BudgetError("HTTP 429: Cannot evict pod as it would violate the pod's disruption budget.", status=429)
DENIED = ForbiddenError('admission webhook "keeper.example" denied the request: keep it', status=403, reason="Forbidden")
SERVER_ERROR = ApiError("HTTP 500: etcdserver: request timed out", status=500, reason="InternalError")
FORBIDDEN = ForbiddenError('pods is forbidden: User "me" cannot create resource "pods/eviction"', status=403)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(NO_BUDGET, "improved", id="a budget allows no other eviction"),
        pytest.param(DENIED, "improved", id="a webhook denies the next eviction"),
        pytest.param(SERVER_ERROR, "failed", id="the server has an error"),
        pytest.param(UnreachableError("connection refused"), "failed", id="the server is not reachable for the next eviction"),
        pytest.param(OverloadedError("HTTP 429", status=429), "failed", id="the server is overloaded"),
        pytest.param(FORBIDDEN, "failed", id="the role is missing for the next eviction"),
        pytest.param(NotFoundError("HTTP 404", status=404), "failed", id="pods are gone before their eviction"),
    ],
)
def test_an_improving_run_is_no_attempt_whatever_prevents_its_next_eviction(error: Exception, outcome: str) -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 8)
    api = EvictingApi(cluster, then=error)
    for day in range(5):
        (result,) = api.run("web", day=day)
        assert (len(result.evicted), result.outcome) == (1, outcome)
        recorded = read_outcome({OUTCOME_ANNOTATION: api.outcome_of("web") or ""})
        assert recorded is not None and (recorded.outcome, recorded.attempts) == (outcome, 0)


def test_runs_that_do_not_improve_are_attempts_and_an_improvement_in_between_does_not_reset_them() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 8)
    api = EvictingApi(cluster, replaced=False)
    (failed,) = api.run("web", day=0)
    assert (failed.reason and failed.reason.code, failed.outcome) == ("replacement_not_ready", "failed")
    recorded = read_outcome({OUTCOME_ANNOTATION: api.outcome_of("web") or ""})
    assert recorded is not None and recorded.attempts == 1
    cluster.pods.append(replace(cluster.pods[0], metadata=replace(cluster.pods[0].metadata, name="back", uid="back")))
    api._replaced = True
    (improved,) = api.run("web", day=1, max_evictions=1)
    recorded = read_outcome({OUTCOME_ANNOTATION: api.outcome_of("web") or ""})
    assert recorded is not None and (improved.outcome, recorded.attempts) == ("improved", 1)


def test_workload_whose_improvements_are_undone_each_time_uses_up_its_attempts() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 8)
    api = EvictingApi(cluster)
    attempts = []
    for day in range(6):
        api.run("web", day=day, max_evictions=1)
        recorded = read_outcome({OUTCOME_ANNOTATION: api.outcome_of("web") or ""})
        assert recorded is not None
        attempts.append(recorded.attempts)
        cluster.pods[:] = [replace(pod, spec=replace(pod.spec, node_name="worker-1")) for pod in cluster.pods]
    assert attempts == [0, 1, 2, 3, 3, 3] and api.evicted == 4


def test_runs_that_do_not_wait_continue_until_the_replicas_are_spread() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 8)
    api = EvictingApi(cluster)
    assert [api.run("web", day=day, wait=False)[0].action for day in range(6)] == ["evicted"] * 6
    assert set(Counter(pod.spec.node_name for pod in cluster.pods).values()) == {2}


def test_outcome_of_a_run_that_did_not_wait_is_improved_if_the_next_run_is_limited_to_other_workloads() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 6)
    cluster.deployment("other", ["worker-2"] * 6)
    api = EvictingApi(cluster)
    api.run("web", day=0, wait=False)
    results = api.run("other", "web", day=1, wait=False, max_evictions=1)
    (limited,) = [result for result in results if result.target.name == "web"]
    recorded = read_outcome({OUTCOME_ANNOTATION: api.outcome_of("web") or ""})
    assert (limited.action, limited.outcome) == ("skipped", "improved") and recorded is not None and recorded.attempts == 0


@pytest.mark.parametrize("error", [NotFoundError("HTTP 404", status=404), ConflictError("HTTP 409", status=409)], ids=["gone", "conflict"])
def test_pod_that_is_gone_before_its_eviction_leaves_no_outcome_and_no_cooldown(error: Exception) -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 6)
    api = EvictingApi(cluster, then=error)
    api._evicted_today = True
    options = RestartOptions(strategy=EVICT_SURPLUS, wait=False)
    (result,) = run_restart(api, [Target("Deployment", "app", "web")], options)
    assert (result.action, result.outcome, result.changed) == ("skipped", "", False) and api.outcome_of("web") is None
