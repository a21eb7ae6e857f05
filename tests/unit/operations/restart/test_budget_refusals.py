# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Evictions that a budget, a webhook or a role forbids: nothing is written, and a run waits once for budgets that open soon."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    Cause,
    KubeError,
    RequestTarget,
    UnreachableError,
    api_error,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart import eviction_wait
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.operations.restart.test_limited_evictions import EvictingApi
from tests.unit.support.cluster import NOW, ClusterBuilder, workers
from tests.unit.support.fakes import FakeApi

WAIT_S = 120
CAUSE = Cause("DisruptionBudget", "The disruption budget keep needs 3 healthy pods and has 3 currently")


class EvictionRequests(FakeApi):
    """An API that raises ``answer`` for evictions (``dry`` for dry runs), and counts evictions without dry run."""

    def __init__(self, cluster: ClusterBuilder, *, answer: KubeError | None = None, dry: KubeError | None = None) -> None:
        super().__init__(cluster, now=NOW)
        self._answer, self._dry = answer, dry
        self.asked = 0

    def evict(self, namespace: str, name: str, *, uid: str, grace_period_s: int | None = None, dry_run: bool = False) -> None:
        self.asked += not dry_run
        answer = self._dry if dry_run else self._answer
        if answer is not None:
            raise answer


def answer(status: int, message: str, *, reason: str | None = None, causes: tuple[Cause, ...] = ()) -> KubeError:
    """Return the error with which an API server answers an eviction."""
    target = RequestTarget("pods/eviction app/web-0")
    return api_error(verb="create", target=target, status=status, message=message, reason=reason, causes=causes)


NOT_NOW = answer(429, "Cannot evict pod as it would violate the pod's disruption budget.", causes=(CAUSE,))


def run(api: FakeApi, *names: str, **options: t.Any) -> list[RestartResult]:
    targets = [Target("Deployment", "app", name) for name in names or ("web",)]
    return run_restart(api, targets, RestartOptions(**{"strategy": EVICT_SURPLUS, "wait_timeout_s": WAIT_S, **options}))


def piled_up(*names: str) -> ClusterBuilder:
    cluster = workers(3)
    for name in names or ("web",):
        cluster.deployment(name, ["worker-1"] * 3)
    return cluster


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        pytest.param({"desired": 3, "current": 3}, "3 of 3 pods are healthy, and it requires 3 healthy pods", id="requires all"),
        pytest.param(
            {"desired": 4, "current": 3}, "3 of 3 pods are healthy, and it requires 4 healthy pods", id="requires more than exist"
        ),
        pytest.param(
            {"desired": 0, "current": 0, "expected": 3, "conditions": [{"type": "DisruptionAllowed", "reason": "SyncFailed"}]},
            "allows no disruption",
            id="cannot be worked out",
        ),
    ],
)
def test_a_budget_that_never_allows_an_eviction_is_refused_without_a_request_or_a_pause(
    budget: dict[str, t.Any], said: str, slept: list[float]
) -> None:
    cluster = piled_up()
    cluster.budget("keep", "web", **budget)
    api = EvictionRequests(cluster)
    (result,) = run(api)
    assert (result.action, result.reason and result.reason.code, result.outcome, result.changed) == ("refused", "budget", "", False)
    assert said in str(result.reason) and "app/keep" in str(result.reason)
    assert (api.asked, api.tried, slept) == (0, 0, [])


def test_two_budgets_are_refused_without_a_request(slept: list[float]) -> None:
    cluster = piled_up()
    cluster.budget("first", "web", desired=1, current=3)
    cluster.budget("second", "web", desired=1, current=3)
    api = EvictionRequests(cluster)
    (result,) = run(api)
    assert (result.reason and result.reason.code, api.asked, api.tried, slept) == ("several_budgets", 0, 0, [])
    assert "first and second" in str(result.reason)


@pytest.mark.parametrize(
    "budget", [{"desired": 2, "current": 2, "expected": 3}, {"desired": 1, "current": 3, "generation": 2, "observed": 1}]
)
def test_budgets_that_open_soon_are_waited_for_once_in_a_run(budget: dict[str, t.Any], slept: list[float]) -> None:
    names = ["web", "api", "shop"]
    cluster = piled_up(*names)
    for name in names:
        cluster.budget(f"keep-{name}", name, **budget)
    api = EvictionRequests(cluster)
    results = run(api, *names)
    assert [(result.action, result.reason and result.reason.code) for result in results] == [("refused", "budget")] * 3
    assert sum(slept) == WAIT_S, "once for all three"
    assert (api.asked, api.tried) == (0, 0)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_run_that_does_not_wait_does_not_wait_for_a_budget(dry_run: bool, slept: list[float]) -> None:
    cluster = piled_up()
    cluster.budget("keep", "web", desired=2, current=2, expected=3)
    (result,) = run(EvictionRequests(cluster), wait=False, dry_run=dry_run)
    assert (result.action, result.reason and result.reason.code, slept) == ("refused", "budget", [])


@pytest.mark.parametrize("asks_server", [False, True])
def test_a_plan_evicts_on_the_condition_that_a_budget_for_which_the_run_waits_allows_it(asks_server: bool, slept: list[float]) -> None:
    """The run moves ``api`` first, so only that is within the limit."""
    cluster = piled_up("web", "api")
    cluster.budget("keep", "web", desired=2, current=2, expected=3)
    api = EvictionRequests(cluster, dry=NOT_NOW)
    (web,) = run(api, dry_run=True, asks_server=asks_server)
    assert (web.action, web.reason and web.reason.code, len(web.evicted)) == ("would_evict_if", "collapsed", 2)
    assert web.condition == "only if PodDisruptionBudget app/keep allows a disruption within wait_timeout"
    assert web.message.endswith(f"; {web.condition}") and (api.asked, slept) == (0, [])
    planned = run(EvictionRequests(cluster), "web", "api", dry_run=True, asks_server=asks_server, max_workloads=1)
    made = run(EvictingApi(cluster), "web", "api", max_workloads=1, wait_sleep_s=1)
    ends = [[(one.action, one.message) for one in sorted(some, key=lambda one: one.target)] for some in (planned, made)]
    assert ends[0][0][0] == "would_evict" and ends[1][0][0] == "evicted" and ends[0][1] == ends[1][1]
    assert "max_workloads" in ends[0][1][1]


def test_a_budget_that_opens_during_the_wait_lets_the_eviction_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = piled_up("web", "api")
    cluster.budget("keep", "web", desired=2, current=2, expected=3)

    def open_it(_pause_s: float) -> None:
        cluster.budgets.clear()
        cluster.budget("keep", "web", desired=2, current=3)

    monkeypatch.setattr(eviction_wait.time, "sleep", open_it)
    api = EvictionRequests(cluster, answer=UnreachableError("only that it was asked for matters"))
    run(api, "web", max_parallel=1, wait_timeout_s=1)
    assert api.asked > 0


def test_a_run_waits_for_budgets_no_longer_than_the_timeout_also_if_evictions_are_made_between(slept: list[float]) -> None:
    """Each eviction closes the budget for 100 s."""
    cluster = workers(20)
    cluster.deployment("web", ["worker-1"] * 20)

    class SlowBudget(EvictingApi):
        def list_all(self, resource: Resource, **scope: t.Any) -> list[t.Any]:
            is_open = sum(slept) >= 100 * self.evicted
            self._cluster.budgets.clear()
            self._cluster.budget("keep", "web", desired=19, current=20 if is_open else 19, expected=20)
            return super().list_all(resource, **scope)

    api = SlowBudget(cluster)
    (result,) = run(api, wait_timeout_s=250)
    assert (api.evicted, sum(slept)) == (3, 250)
    assert (result.action, result.outcome) == ("evicted", "improved") and "run again when more pods are healthy" in result.message


DENIALS = [
    *(
        pytest.param(answer(status, f'admission webhook "keeper.example" denied the request: {words}'), id=f"webhook {status}")
        for status, words in ((400, "keep it"), (403, "keep it"), (404, "keep it"), (409, "keep it"), (422, "keep it"), (429, "keep it"))
    ),
    pytest.param(answer(500, 'admission webhook "keeper.example" denied the request: keep it', reason=""), id="webhook 500"),
    pytest.param(
        answer(422, "pods \"web-0\" is forbidden: ValidatingAdmissionPolicy 'keeper' with binding 'keeper' denied request: keep it"),
        id="policy",
    ),
    pytest.param(answer(403, 'pods "web-0" is forbidden: keep it'), id="admission plugin"),
]


@pytest.mark.parametrize("denied", DENIALS)
def test_an_eviction_that_admission_denies_is_refused_in_its_words_and_nothing_is_written(denied: KubeError, slept: list[float]) -> None:
    api = EvictionRequests(piled_up(), dry=denied)
    (result,) = run(api)
    assert (result.action, result.reason and result.reason.code, result.outcome, result.changed) == ("refused", "denied", "", False)
    assert "keep it" in str(result.reason)
    assert (api.asked, api.tried, slept) == (0, 0, [])


@pytest.mark.parametrize("denied", DENIALS)
def test_an_eviction_that_is_denied_only_without_dry_run_leaves_the_outcome_as_it_was(denied: KubeError, slept: list[float]) -> None:
    cluster = workers(3)
    earlier = make_outcome(now_s=NOW - 7200, attempts=1, outcome="improved", revision="hash1", eligible="x", number=1).to_annotation()
    cluster.deployment("web", ["worker-1"] * 3, metadata={"annotations": {OUTCOME_ANNOTATION: earlier}})
    api = EvictionRequests(cluster, answer=denied)
    (result,) = run(api)
    assert (result.action, result.reason and result.reason.code, result.changed) == ("refused", "denied", False)
    assert [patch["metadata"]["annotations"][OUTCOME_ANNOTATION] for patch in api.patches][-1] == earlier


def test_a_missing_role_fails_and_nothing_is_written() -> None:
    message = 'pods "web-0" is forbidden: User "reader" cannot create resource "pods/eviction" in API group "" in the namespace "app"'
    api = EvictionRequests(piled_up(), dry=answer(403, message))
    (result,) = run(api)
    assert (result.action, result.reason and result.reason.code, api.tried) == ("failed", "error", 0)
    assert "Grant the verb 'create' on pods/eviction" in str(result.reason)


def test_a_budget_that_the_server_counts_otherwise_than_the_snapshot_ends_the_run_in_time(slept: list[float]) -> None:
    """The eviction is refused repeatedly although the budget allows a disruption. The write before it is reverted."""
    api = EvictionRequests(piled_up(), answer=NOT_NOW)
    (result,) = run(api)
    assert (result.action, result.reason and result.reason.code, result.outcome, result.changed) == ("refused", "budget", "", False)
    assert sum(slept) == WAIT_S
    assert api.asked < 20
    last: dict[str, t.Any] = api.patches[-1]
    assert last["metadata"]["annotations"] == {OUTCOME_ANNOTATION: None}
