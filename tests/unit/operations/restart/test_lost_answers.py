# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes of the eviction way without an answer: whether they were made is seen in the cluster."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    ConflictError,
    MultipleBudgetsError,
    OverloadedError,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NAMESPACES, Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.move_strategy import StaleDecisionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.outcome_store import record_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.rollout import write_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import RestartDecision
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import make_outcome

from tests.unit.support.cluster import ClusterBuilder, Json, workers
from tests.unit.support.fakes import FakeApi

NOW = 1_767_225_600.0
LOST = UnreachableError("connection reset")
GIVEN_UP = ApiError("HTTP 504", status=504, reason="Timeout")
NOT_TAKEN = OverloadedError("HTTP 429", status=429)
DECISION = RestartDecision("restart", Reason("collapsed"), attempts=1, revision="hash1", eligible="x")
OUTCOME = make_outcome(now_s=NOW, attempts=1, outcome="pending", revision="hash1", eligible="x")


class Unanswering(FakeApi):
    """Every eviction ends with an error; ``made`` says whether the pod is gone nevertheless."""

    def __init__(self, cluster: ClusterBuilder, error: Exception, *, made: bool) -> None:
        super().__init__(cluster, now=NOW)
        self._error = error
        self._made = made
        self.asked = 0

    def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False) -> None:
        if dry_run:
            return
        self.asked += 1
        if self._made:
            self._cluster.pods[:] = [pod for pod in self._cluster.pods if pod.metadata.uid != uid]
        raise self._error


@pytest.mark.parametrize(
    ("error", "made", "action"),
    [
        pytest.param(LOST, True, "evicted", id="made, the connection broke"),
        pytest.param(LOST, False, "failed", id="not made, the connection broke"),
        pytest.param(GIVEN_UP, True, "evicted", id="made, the server gave up"),
        pytest.param(GIVEN_UP, False, "failed", id="not made, the server gave up"),
        pytest.param(NOT_TAKEN, True, "failed", id="not taken, and the pod went by itself"),
    ],
)
def test_an_eviction_without_an_answer_is_seen_in_the_pods(error: Exception, made: bool, action: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    api = Unanswering(cluster, error, made=made)
    options = RestartOptions(strategy=EVICT_SURPLUS, wait=False)
    (result,) = run_restart(api, [Target("Deployment", "app", "web")], options)
    assert (result.action, api.asked, len(result.evicted)) == (action, 1, int(action == "evicted"))


class LateEviction(FakeApi):
    """The answer to the first eviction is lost, and its pod is evicted only with the eviction number ``late_after``.

    Evicted pods are not replaced. ``then`` is the answer to later requests for the first pod.
    """

    def __init__(self, cluster: ClusterBuilder, *, late_after: int = 99, then: Exception = LOST) -> None:
        super().__init__(cluster, now=NOW)
        self.asked: list[str] = []
        self.made: list[str] = []
        self._late_after = late_after
        self._then = then
        self._first = ""

    def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False, **_how: t.Any) -> None:
        if dry_run:
            return
        self.asked.append(name)
        if len(self.asked) == self._late_after:
            self._remove(self._first)
        if uid == self._first:
            raise self._then
        if not self._first:
            self._first = uid
            raise LOST
        self._remove(uid)

    def _remove(self, uid: str) -> None:
        self.made += [pod.metadata.name for pod in self._cluster.pods if pod.metadata.uid == uid]
        self._cluster.pods[:] = [pod for pod in self._cluster.pods if pod.metadata.uid != uid]

    def watch(self, *_what: t.Any, **_how: t.Any) -> t.Iterator[t.Any]:
        return iter(())

    def watch_selected(self, *_what: t.Any, **_how: t.Any) -> t.Iterator[t.Any]:
        return iter(())


def three_workloads() -> ClusterBuilder:
    cluster = workers(3)
    for name, home in (("web", "worker-1"), ("mid", "worker-1"), ("api", "worker-2")):
        cluster.deployment(name, [home] * 3)
    return cluster


def evict(api: FakeApi, *names: str, **options: t.Any) -> dict[str, RestartResult]:
    targets = [Target("Deployment", "app", name) for name in names]
    given = RestartOptions(**{"strategy": EVICT_SURPLUS, "wait_timeout_s": 0.3, "wait_sleep_s": 0.1, **options})
    return {result.target.name: result for result in run_restart(api, targets, given)}


@pytest.mark.parametrize(("wait", "late_after"), [(True, 2), (True, 3), (False, 2)])
@pytest.mark.parametrize("limit", ["max_evictions", "max_workloads", "max_evictions_per_namespace"])
def test_an_eviction_without_an_answer_counts_for_the_limits_until_the_end_of_the_run(limit: str, wait: bool, late_after: int) -> None:
    api = LateEviction(three_workloads(), late_after=late_after)
    results = evict(api, "web", "mid", "api", wait=wait, **{limit: 2})
    assert len(api.made) == 2
    assert sorted(pod.pod for result in results.values() for pod in result.evicted) == sorted(api.made)
    assert results["api"].action == "skipped" and results["api"].message.startswith(f"the limit {limit} ")


def test_an_eviction_without_an_answer_counts_for_its_node() -> None:
    api = LateEviction(three_workloads(), late_after=2)
    results = evict(api, "web", "mid", "api", max_evictions_per_node=1)
    assert [len(results[name].evicted) for name in ("web", "mid", "api")] == [1, 0, 1] and len(api.made) == 2
    assert results["mid"].message.startswith("the limit max_evictions_per_node ")


@pytest.mark.parametrize("error", [LOST, NOT_TAKEN, GIVEN_UP])
def test_a_repetition_for_the_same_pod_does_not_count_again(error: Exception) -> None:
    api = LateEviction(three_workloads(), then=error)
    results = evict(api, "web", "mid", "api", max_evictions=2)
    asked = [name for name in api.asked if name.startswith("web")]
    assert len(asked) > 1 and set(asked) == {asked[0]}, "the pod was requested again"
    assert [len(results[name].evicted) for name in ("web", "mid", "api")] == [0, 1, 0] and len(api.made) == 1
    assert (results["web"].action, results["web"].changed, results["api"].action) == ("failed", True, "skipped")


def test_a_pod_that_is_evicted_late_is_in_the_result_although_a_later_request_was_rejected() -> None:
    api = LateEviction(three_workloads(), late_after=3, then=NOT_TAKEN)
    results = evict(api, "web", "mid", "api")
    assert [pod.pod for pod in results["web"].evicted] == [name for name in api.made if name.startswith("web")] != []
    assert api.outcome_of("web") is not None, "an outcome that may belong to an eviction stays"


def test_an_eviction_that_several_budgets_reject_does_not_count() -> None:
    error = MultipleBudgetsError("HTTP 500", status=500, reason="")
    cluster = three_workloads()
    api = Unanswering(cluster, error, made=False)
    results = evict(api, "web", "api", max_evictions=1, wait=False)
    assert {result.message for result in results.values()} == {"HTTP 500"} and api.asked == 2


class LostPatch(FakeApi):
    """Another run writes its outcome just before the first patch, whose answer is lost. ``arrives``: the patch itself was made."""

    def __init__(self, cluster: ClusterBuilder, *, arrives: bool) -> None:
        super().__init__(cluster, now=NOW)
        self._arrives = arrives
        self._lost = False

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Json, *, dry_run: bool = False) -> t.Any:
        if self._lost:
            return super().merge_patch(resource, namespace, name, patch, dry_run=dry_run)
        self._lost = True
        if self._arrives:
            super().merge_patch(resource, namespace, name, patch)
        else:  # the other run has decided the same, in the same second
            (decided_on,) = self._cluster.snapshot().workloads()
            record_eviction(self, decided_on, OUTCOME, self._cluster.snapshot())
        error = ConflictError(f"cannot patch {name}", status=409)
        error.repeated = True
        raise error


@pytest.mark.parametrize("arrives", [True, False])
def test_an_outcome_is_ours_only_if_this_run_wrote_it_even_if_another_run_writes_the_same_in_the_same_second(arrives: bool) -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    (decided_on,) = cluster.snapshot().workloads()
    api = LostPatch(cluster, arrives=arrives)
    with contextlib.nullcontext() if arrives else pytest.raises(StaleDecisionError):
        record_eviction(api, decided_on, OUTCOME, cluster.snapshot())
    assert len(api.patches) == 1


@pytest.mark.parametrize("arrives", [True, False])
def test_a_restart_is_ours_only_if_this_run_wrote_it(arrives: bool) -> None:
    class SameRestart(LostPatch):
        def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Json, *, dry_run: bool = False) -> t.Any:
            if self._arrives or self._lost:
                return super().merge_patch(resource, namespace, name, patch, dry_run=dry_run)
            self._lost = True
            snapshot = self._cluster.snapshot()
            write_restart(self, snapshot.workloads()[0], DECISION, snapshot, RestartOptions())
            error = ConflictError(f"cannot patch {name}", status=409)
            error.repeated = True
            raise error

    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    snapshot = cluster.snapshot()
    api = SameRestart(cluster, arrives=arrives)
    restarted = write_restart(api, snapshot.workloads()[0], DECISION, snapshot, RestartOptions())
    assert (restarted is not None) is arrives and len(api.patches) == 1


class CameBack(FakeApi):
    """Each eviction is made, its answer is lost, and the replacement is available on the node of the evicted pod."""

    def __init__(self, cluster: ClusterBuilder, *, made: bool = True) -> None:
        super().__init__(cluster, now=NOW)
        self.evictions = 0
        self._made = made
        self._due = ""

    def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False, **_how: t.Any) -> None:
        if dry_run:
            return
        self.evictions += 1
        self._due = uid
        if self._made:
            self.carry_out()
        raise LOST

    def carry_out(self) -> None:
        """Evict the pod of the last request."""
        pods = self._cluster.pods
        (old,) = [pod for pod in pods if pod.metadata.uid == self._due]
        name = f"new-{self.evictions}"
        pods[pods.index(old)] = replace(old, metadata=replace(old.metadata, name=name, uid=name))

    def watch(self, *_what: t.Any, **_how: t.Any) -> t.Iterator[t.Any]:
        return iter(())

    def watch_selected(self, *_what: t.Any, **_how: t.Any) -> t.Iterator[t.Any]:
        return iter(())


def test_run_ends_if_the_replacement_of_an_eviction_without_an_answer_is_on_the_same_node() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 4)
    api = CameBack(cluster)
    result = evict(api, "web")["web"]
    assert api.evictions == 1 and "the replacement of web-0 was scheduled to worker-1" in result.message


def test_evictions_that_are_carried_out_after_their_run_count_as_attempts() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 4)
    api = CameBack(cluster, made=False)
    codes = []
    for day in range(5):
        api._now = NOW + day * 86400
        result = evict(api, "web", wait=False)["web"]
        codes.append(result.reason.code if result.reason is not None else "")
        if codes[-1] == "error":
            api.carry_out()
    assert codes == ["error"] * 3 + ["attempts_used_up"] * 2


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("pinned", [True, False])
def test_no_other_pod_of_the_workload_is_evicted_while_a_request_may_still_be_carried_out(pinned: bool, answered: bool) -> None:
    """The answer of the first eviction is lost, then another pod is the first to go.

    The first pod is requested again, with its uid as the precondition. If it is ``pinned``, its eviction is not useful any more.
    """

    class Reordering(CameBack):
        asked: t.ClassVar[list[str]] = []

        def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False, **_how: t.Any) -> None:
            if dry_run:
                return
            self.asked.append(name)
            pods = self._cluster.pods
            if answered and len(self.asked) > 1:
                target = next(f"worker-{number}" for number in (2, 3, 4) if all(pod.spec.node_name != f"worker-{number}" for pod in pods))
                old = next(pod for pod in pods if pod.metadata.uid == uid)
                fresh = replace(old.metadata, name=f"new-{len(self.asked)}", uid=f"new-{len(self.asked)}")
                pods[pods.index(old)] = replace(old, metadata=fresh, spec=replace(old.spec, node_name=target))
                return
            preferred = {"controller.kubernetes.io/pod-deletion-cost": "-100"}
            pods[3] = replace(pods[3], metadata=replace(pods[3].metadata, annotations=preferred))
            if pinned:
                pods[0] = replace(pods[0], spec=replace(pods[0].spec, node_name="worker-4"))
            super().evict(namespace, name, uid=uid, dry_run=dry_run)

    Reordering.asked.clear()
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 5)
    result = evict(Reordering(cluster, made=False), "web")["web"]
    if answered and not pinned:
        assert Reordering.asked[:2] == ["web-0", "web-0"] and len(set(Reordering.asked[2:])) == 2
        assert (result.action, result.outcome, len(result.evicted)) == ("evicted", "improved", 3)
        return
    assert set(Reordering.asked) == {"web-0"} and (len(Reordering.asked) == 1) is pinned
    assert (result.action, result.changed) == ("failed", True)
    if pinned:
        assert "no other pod is evicted" in result.message


def test_pod_that_has_failed_by_itself_is_not_in_the_result() -> None:
    class Failing(CameBack):
        def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False, **_how: t.Any) -> None:
            if not dry_run:
                pods = self._cluster.pods
                pods[:] = [replace(pod, status=replace(pod.status, phase="Failed")) if pod.metadata.uid == uid else pod for pod in pods]
            super().evict(namespace, name, uid=uid, dry_run=dry_run)

    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 5)
    result = evict(Failing(cluster, made=False), "web", wait=False)["web"]
    assert result.evicted == [] and result.action == "failed"


def test_failed_read_before_a_restart_does_not_count_for_max_workloads() -> None:
    class UnreadableOnce(FakeApi):
        reads = 0

        def get(self, resource: Resource, namespace: str, name: str) -> t.Any:
            if resource is NAMESPACES:
                self.reads += 1
                if self.reads == 1:
                    raise ApiError("HTTP 503", status=503)
            return super().get(resource, namespace, name)

    api = UnreadableOnce(three_workloads(), now=NOW)
    targets = [Target("Deployment", "app", name) for name in ("web", "api")]
    results = run_restart(api, targets, RestartOptions(wait=False, max_workloads=1, only_if_helps=False))
    assert [result.action for result in results] == ["failed", "restarted"]
