# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A workload outside of its maintenance window is neither restarted nor evicted from, and the check does not offer it for a restart."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, KubeError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NAMESPACES, Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.namespace import Namespace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import Skipped
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import decide_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.outside_window import outside_window_violation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import decide_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import (
    EVICT_SURPLUS,
    STRATEGIES,
    RestartOptions,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import WINDOW_ANNOTATION
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.support.cluster import NOW, ClusterBuilder, Json, struct, workers
from tests.unit.support.fakes import FakeApi

# NOW is Thursday 2026-01-01 00:00 UTC.
OPEN, CLOSED, WRONG = "Thu 00:00-01:00 UTC", "Wed 00:00-24:00 UTC", "Thu 0-24 UTC"


def uneven(workload: str | None = None, namespace: str | None = None, **annotations: str) -> ClusterBuilder:
    cluster = workers(3)
    own = {**({} if workload is None else {WINDOW_ANNOTATION: workload}), **annotations}
    cluster.namespaces.clear()
    cluster.namespace("app", None if namespace is None else {WINDOW_ANNOTATION: namespace})
    cluster.deployment("web", ["worker-1"] * 3, metadata={"annotations": own})
    return cluster


def restart(cluster: ClusterBuilder, **options: t.Any) -> tuple[str, str]:
    snapshot = cluster.snapshot()
    (workload,) = snapshot.workloads()
    made = decide_restart(WorkloadChecker(snapshot, CheckOptions()).check(workload), snapshot, RestartOptions(**options), now_s=NOW)
    return made.action, made.reason.code


def eviction(cluster: ClusterBuilder, **how: t.Any) -> tuple[str, str]:
    snapshot = cluster.snapshot()
    (workload,) = snapshot.workloads()
    report = WorkloadChecker(snapshot, CheckOptions(predict=False)).check(workload)
    options = RestartOptions(strategy=EVICT_SURPLUS)
    made = decide_eviction(report, snapshot, ClusterState.of(snapshot), options, **{"now_s": NOW, **how})
    return made.action, made.reason.code


CASES = pytest.mark.parametrize(
    ("workload", "namespace", "refused"),
    [
        pytest.param(None, None, "", id="no window"),
        pytest.param(OPEN, None, "", id="inside of the window of the workload"),
        pytest.param(CLOSED, None, "outside_window", id="outside of the window of the workload"),
        pytest.param(WRONG, None, "invalid_window", id="invalid window of the workload"),
        pytest.param(None, OPEN, "", id="inside of the window of the namespace"),
        pytest.param(None, CLOSED, "outside_window", id="outside of the window of the namespace"),
        pytest.param(None, WRONG, "invalid_window", id="invalid window of the namespace"),
        pytest.param(OPEN, CLOSED, "", id="the open window of the workload has precedence"),
        pytest.param(CLOSED, OPEN, "outside_window", id="the closed window of the workload has precedence"),
        pytest.param(WRONG, OPEN, "invalid_window", id="the invalid window of the workload has precedence"),
        pytest.param("", OPEN, "invalid_window", id="an empty annotation is not the absence of a window"),
    ],
)


@CASES
def test_window_decides_about_restart_eviction_and_check(workload: str | None, namespace: str | None, refused: str) -> None:
    cluster = uneven(workload, namespace)
    expected = ("refused", refused) if refused else None
    assert restart(cluster) == (expected or ("restart", "collapsed"))
    assert eviction(cluster) == (expected or ("evict", "collapsed"))
    snapshot = cluster.snapshot()
    report = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0])
    assert report.prediction is not None and report.prediction.restart_helps is True, "the window does not change what a restart would do"
    assert report.restartable == (not refused)
    assert (report.refusal.code if report.refusal else "") == refused


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_written_outside_of_the_window(strategy: str) -> None:
    api = FakeApi(uneven(namespace=CLOSED), now=NOW)
    options = RestartOptions(strategy=strategy, only_if_helps=False, cooldown_s=0, allow_downtime=True)
    (result,) = run_restart(api, [Target("Deployment", "app", "web")], options)
    assert (result.action, result.reason.code if result.reason else "", api.patches) == ("refused", "outside_window", [])


def test_message_names_the_annotation_its_place_and_the_next_opening() -> None:
    snapshot = uneven(namespace=CLOSED).snapshot()
    reason = outside_window_violation(snapshot.workloads()[0], snapshot, now_s=NOW)
    assert reason is not None and reason.text == (
        "Deployment app/web is outside of its maintenance window, 'Wed 00:00-24:00 UTC' "
        "(annotation kube-scheduling.onprem/window of namespace app); the next window opens at 2026-01-07T00:00:00Z"
    )


def test_message_about_an_invalid_window_names_the_wrong_part_and_an_example() -> None:
    snapshot = uneven(WRONG).snapshot()
    reason = outside_window_violation(snapshot.workloads()[0], snapshot, now_s=NOW)
    assert reason is not None
    for part in (
        "annotation kube-scheduling.onprem/window of the workload",
        "Deployment app/web",
        "'0-24' is not a range",
        "Mon-Fri 22:00-05:00",
    ):
        assert part in reason.text


def test_window_counts_by_the_clock_of_the_api_server() -> None:
    """The check uses the time at which the snapshot was read, and a decision the time of the decision."""
    cluster = uneven(OPEN)
    snapshot = cluster.snapshot(read_at_s=NOW + 3600)
    report = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0])
    assert report.refusal is not None and report.refusal.code == "outside_window"
    assert eviction(cluster, now_s=NOW + 3600) == ("refused", "outside_window")


def test_window_that_ends_between_two_evictions_ends_the_run() -> None:
    ours = make_outcome(now_s=NOW, attempts=1, outcome="pending", revision="hash1", eligible="x")
    cluster = uneven(OPEN, **{OUTCOME_ANNOTATION: ours.to_annotation()})
    assert eviction(cluster, ours=ours)[0] == "evict"
    assert eviction(cluster, ours=ours, now_s=NOW + 3600) == ("refused", "outside_window")


def _close(kept: Json) -> None:
    kept["metadata"].setdefault("annotations", {})[WINDOW_ANNOTATION] = CLOSED


class EvictingApi(FakeApi):
    """Accepts every eviction and counts those that are no dry runs."""

    evicted = 0

    def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False) -> None:
        self.evicted += not dry_run


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_window_that_is_closed_just_before_the_write_prevents_it(strategy: str) -> None:
    """An annotation of a StatefulSet does not raise its generation."""
    cluster = workers(3)
    cluster.stateful_set("db", ["worker-1"] * 3)
    api = EvictingApi(cluster, now=NOW, meddlers=[_close])
    (result,) = run_restart(api, [Target("StatefulSet", "app", "db")], RestartOptions(strategy=strategy, wait=False))
    expected = ("refused", "outside_window") if strategy == EVICT_SURPLUS else ("skipped", "changed_meanwhile")
    assert result.reason is not None and (result.action, result.reason.code) == expected
    assert (api.patches, api.evicted) == ([], 0)


class ClosingApi(EvictingApi):
    """The namespace gets another window, or the time passes, between the snapshot and the write. ``error``: it cannot be read then."""

    def __init__(self, cluster: ClusterBuilder, *, window: str = "", later_s: float = 0, error: KubeError | None = None) -> None:
        super().__init__(cluster, now=NOW)
        self._window, self._later_s, self._error = window, later_s, error
        self.read_namespaces = 0

    def get_bytes(self, resource: Resource, namespace: str, name: str) -> bytes:
        if self._window:
            self._cluster.namespaces[:] = [
                struct(Namespace, {"metadata": {"name": "app", "annotations": {WINDOW_ANNOTATION: self._window}}})
            ]
        self._now += self._later_s
        return super().get_bytes(resource, namespace, name)

    def get(self, resource: Resource, namespace: str, name: str) -> t.Any:
        self.read_namespaces += resource is NAMESPACES
        if resource is NAMESPACES and self._error is not None:
            raise self._error
        return super().get(resource, namespace, name)


def run_once(api: FakeApi, strategy: str) -> RestartResult:
    (result,) = run_restart(api, [Target("Deployment", "app", "web")], RestartOptions(strategy=strategy, wait=False))
    return result


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("change", [{"window": CLOSED}, {"window": WRONG}, {"later_s": 3600}])
def test_window_of_the_namespace_that_is_closed_just_before_the_write_prevents_it(strategy: str, change: dict[str, t.Any]) -> None:
    api = ClosingApi(uneven(namespace=OPEN), **change)
    result = run_once(api, strategy)
    assert result.reason is not None
    assert (result.action, result.reason.code) == ("refused", "invalid_window" if WRONG in change.values() else "outside_window")
    assert (api.patches, api.evicted) == ([], 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_namespace_is_read_again_only_for_a_workload_without_a_window(strategy: str) -> None:
    own, namespaces = ClosingApi(uneven(OPEN), window=CLOSED), ClosingApi(uneven(namespace=OPEN))
    assert {run_once(own, strategy).action, run_once(namespaces, strategy).action} <= {"restarted", "evicted"}
    assert (own.read_namespaces, namespaces.read_namespaces) == (0, 1)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_namespace_of_the_snapshot_counts_if_a_role_forbids_to_read_it_again(strategy: str) -> None:
    forbidden = ForbiddenError('namespaces "app" is forbidden: User "me" cannot get resource "namespaces"', status=403)
    assert run_once(ClosingApi(uneven(namespace=OPEN), window=CLOSED, error=forbidden), strategy).action in ("restarted", "evicted")
    api = ClosingApi(uneven(namespace=OPEN), later_s=3600, error=forbidden)
    assert (run_once(api, strategy).action, api.patches, api.evicted) == ("refused", [], 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_written_if_the_namespace_cannot_be_read_again(strategy: str) -> None:
    api = ClosingApi(uneven(namespace=OPEN), error=UnreachableError("connection reset"))
    assert (run_once(api, strategy).action, api.patches, api.evicted) == ("failed", [], 0)


def test_workload_of_a_namespace_that_cannot_be_read_is_protected() -> None:
    cluster = uneven()
    cluster.namespaces.clear()
    unread = [Skipped("namespaces", "app", "namespaces is forbidden")]
    snapshot = cluster.snapshot(skipped=unread)
    (workload,) = snapshot.workloads()
    report = WorkloadChecker(snapshot, CheckOptions()).check(workload)
    assert decide_restart(report, snapshot, RestartOptions(), now_s=NOW).reason.code == "unreadable"
    options = RestartOptions(strategy=EVICT_SURPLUS)
    assert decide_eviction(report, snapshot, ClusterState.of(snapshot), options, now_s=NOW).reason.code == "unreadable"
