# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nothing is written if a webhook or the API server fails to decide on an eviction. The whole run has one wait for this."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ForbiddenError,
    KubeError,
    RequestTarget,
    UnreachableError,
    api_error,
    is_transient,
    was_not_applied,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart import eviction, eviction_wait
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION

from tests.unit.support.cluster import NOW, ClusterBuilder, workers
from tests.unit.support.fakes import FakeApi

WAIT_S = 120
DOWN = (
    'Internal error occurred: failed calling webhook "keeper.example": failed to call webhook: '
    'Post "https://keeper.shop.svc:443/?timeout=10s": no endpoints available for service "keeper"'
)
NO_DRY_RUN = 'admission webhook "keeper.example" does not support dry run'


def answer(status: int, message: str, *, reason: str | None = "InternalError", retry_after_s: float | None = None) -> KubeError:
    """Return the error with which an API server answers an eviction."""
    target = RequestTarget("pods/eviction app/web-0", "pods/eviction in namespace app")
    return api_error(verb="create", target=target, status=status, message=message, reason=reason, retry_after_s=retry_after_s)


class EvictionRequests(FakeApi):
    """An API that raises ``dry`` for dry runs of evictions, and ``earnest`` for evictions. Each response takes ``took_s`` of ``clock``."""

    def __init__(
        self, cluster: ClusterBuilder, *, dry: KubeError | None = None, earnest: KubeError | None = None, took_s: float = 0.0
    ) -> None:
        super().__init__(cluster, now=NOW)
        self.dry, self.earnest, self._took_s = dry, earnest, took_s
        self.clock_s = 0.0
        self.asked: list[tuple[str, bool]] = []

    def evict(self, namespace: str, name: str, *, uid: str, grace_period_s: int | None = None, dry_run: bool = False) -> None:
        self.asked.append((name, dry_run))
        self.clock_s += self._took_s
        error = self.dry if dry_run else self.earnest
        if error is not None:
            raise error

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: dict[str, t.Any], *, dry_run: bool = False) -> t.Any:
        if dry_run and self.dry is not None:
            raise self.dry
        return super().merge_patch(resource, namespace, name, patch, dry_run=dry_run)


def run(api: FakeApi, *names: str, **options: t.Any) -> list[RestartResult]:
    targets = [Target("Deployment", "app", name) for name in names]
    return run_restart(api, targets, RestartOptions(**{"strategy": EVICT_SURPLUS, "wait_timeout_s": WAIT_S, **options}))


def piled_up(*names: str) -> ClusterBuilder:
    cluster = workers(3)
    for name in names:
        cluster.deployment(name, ["worker-1"] * 3)
    return cluster


TROUBLE = [
    pytest.param(answer(500, DOWN), id="webhook without endpoint"),
    pytest.param(answer(500, "etcdserver: request timed out"), id="storage"),
    pytest.param(answer(503, "apiserver is shutting down", reason="ServiceUnavailable"), id="shutting down"),
    pytest.param(answer(429, "too many requests", reason="TooManyRequests"), id="overloaded"),
    pytest.param(UnreachableError("connection refused"), id="unreachable"),
]


@pytest.mark.parametrize("error", TROUBLE)
def test_trouble_that_the_dry_run_shows_is_waited_for_once_and_nothing_is_written(error: KubeError, slept: list[float]) -> None:
    names = ["web", "api", "shop"]
    api = EvictionRequests(piled_up(*names), dry=error)
    results = run(api, *names)
    assert [(one.action, one.reason and one.reason.code, one.outcome, one.changed) for one in results] == [
        ("failed", "error", "", False)
    ] * 3
    assert all(str(error) in str(one.reason) for one in results)
    assert sum(slept) == WAIT_S, "once for all three"
    assert api.tried == 0 and all(dry for _name, dry in api.asked)


@pytest.mark.parametrize("options", [{"wait": False}, {"dry_run": True}])
def test_a_run_that_does_not_wait_names_the_webhook_without_a_pause(options: dict[str, t.Any], slept: list[float]) -> None:
    api = EvictionRequests(piled_up("web"), dry=answer(500, DOWN))
    (result,) = run(api, "web", **options)
    assert (result.action, result.changed, api.tried, slept) == ("failed", False, 0, [])
    assert 'failed calling webhook "keeper.example"' in str(result.reason)


def test_a_webhook_that_fails_only_without_dry_run_leaves_nothing_written(slept: list[float]) -> None:
    names = ["web", "api"]
    api = EvictionRequests(piled_up(*names), earnest=answer(500, DOWN))
    results = run(api, *names)
    assert [(one.action, one.outcome, one.changed) for one in results] == [("failed", "", False)] * 2
    assert sum(slept) == WAIT_S, "once for both"
    last = api.patches[-2:]
    assert [patch["metadata"]["annotations"] for patch in last] == [{OUTCOME_ANNOTATION: None}] * 2


def test_a_rejected_eviction_is_requested_as_a_dry_run_again(slept: list[float]) -> None:
    api = EvictionRequests(piled_up("web"), earnest=answer(500, DOWN))

    def webhook_is_gone(pause_s: float) -> None:
        slept.append(pause_s)
        api.dry = answer(500, DOWN)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eviction_wait.time, "sleep", webhook_is_gone)
        run(api, "web")
    assert [dry for _name, dry in api.asked[:2]] == [True, False] and all(dry for _name, dry in api.asked[2:])
    assert api.tried == 2, "one announcement, and its end"


def test_a_slow_error_is_asked_for_once_in_a_namespace_and_its_time_counts(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"web-{number}" for number in range(20)]
    api = EvictionRequests(piled_up(*names), dry=answer(500, DOWN), took_s=30.0)
    monkeypatch.setattr(eviction.time, "monotonic", lambda: api.clock_s)
    results = run(api, *names)
    assert {one.action for one in results} == {"failed"} and api.tried == 0
    assert len(api.asked) <= WAIT_S / 30 + 1, "not for each workload"
    assert sum(slept) + 30 * (len(api.asked) - 1) <= WAIT_S
    assert all('failed calling webhook "keeper.example"' in str(one.reason) for one in results)


def test_a_slow_denial_is_about_its_own_workload_only(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["web", "api"]
    denied = answer(403, 'admission webhook "keeper.example" denied the request: keep it', reason="Forbidden")
    api = EvictionRequests(piled_up(*names), dry=denied, took_s=9.0)
    monkeypatch.setattr(eviction.time, "monotonic", lambda: api.clock_s)
    results = run(api, *names)
    assert [(one.action, one.reason and one.reason.code) for one in results] == [("refused", "denied")] * 2
    assert len(api.asked) == 2 and slept == []


def test_every_workload_has_its_turn_while_a_webhook_is_slow(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"web-{number}" for number in range(3)]
    api = EvictionRequests(piled_up(*names), dry=answer(500, DOWN), took_s=5.0)
    monkeypatch.setattr(eviction.time, "monotonic", lambda: api.clock_s)
    run(api, *names)
    assert len({name.rpartition("-")[0] for name, _dry in api.asked}) == 3


def test_the_pause_that_the_server_asks_for_is_kept(slept: list[float]) -> None:
    api = EvictionRequests(piled_up("web"), dry=answer(429, "too many requests", retry_after_s=40.0))
    run(api, "web")
    assert slept == [40.0, 40.0, 40.0]


# --- webhooks without dry runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["evict_surplus", "rollout"])
def test_check_mode_says_that_a_webhook_without_dry_runs_cannot_be_asked(strategy: str, slept: list[float]) -> None:
    error = answer(400, NO_DRY_RUN, reason="BadRequest")
    api = EvictionRequests(piled_up("web"), dry=error)
    (result,) = run(api, "web", strategy=strategy, dry_run=True)
    assert (result.action, result.reason and result.reason.code, result.changed) == ("skipped", "dry_run_unsupported", False)
    said = str(result.reason)
    assert "Deployment app/web cannot be tried in check mode" in said and NO_DRY_RUN in said and "denied" not in said


def test_a_webhook_without_dry_runs_is_called_by_the_eviction(slept: list[float]) -> None:
    denied = answer(403, 'admission webhook "keeper.example" denied the request: keep it', reason="Forbidden")
    api = EvictionRequests(piled_up("web"), dry=answer(400, NO_DRY_RUN, reason="BadRequest"), earnest=denied)
    (result,) = run(api, "web")
    assert [dry for _name, dry in api.asked] == [True, False]
    assert (result.action, result.reason and result.reason.code, result.changed) == ("refused", "denied", False)


# --- one rule for all -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_denial_does_not_pass_whatever_status_the_webhook_gives_it(status: int) -> None:
    error = answer(status, 'admission webhook "keeper.example" denied the request: keep it')
    assert not is_transient(error) and was_not_applied(error)


def test_an_early_denial_may_pass_and_a_missing_role_does_not() -> None:
    error = answer(403, 'pods "web-0" is forbidden: User "me" cannot create resource "pods/eviction"')
    assert isinstance(error, ForbiddenError) and not is_transient(error)
    error.early = True
    assert is_transient(error) and was_not_applied(error)


def test_an_early_denial_of_an_eviction_is_waited_for_and_not_final(slept: list[float]) -> None:
    error = answer(403, 'pods "web-0" is forbidden: User "me" cannot create resource "pods/eviction"')
    assert isinstance(error, ForbiddenError)
    error.early = True
    api = EvictionRequests(piled_up("web"), earnest=error)
    run(api, "web")
    assert len(slept) > 1 and api.asked.count((api.asked[0][0], False)) > 1
