# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes of the eviction way without an answer: whether they were made is seen in the cluster."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ApiError, OverloadedError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.move_strategy import StaleDecisionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.outcome_store import record_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.support.cluster import ClusterBuilder, Json, workers
from tests.unit.support.fakes import FakeApi

NOW = 1_767_225_600.0
LOST = UnreachableError("connection reset")
GIVEN_UP = ApiError("HTTP 504", status=504, reason="Timeout")
NOT_TAKEN = OverloadedError("HTTP 429", status=429)


class Unanswering(FakeApi):
    """Every eviction ends with an error; ``made`` says whether the pod is gone all the same."""

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


@pytest.mark.parametrize("answers_lost", [True, False])
def test_what_is_remembered_is_ours_only_if_an_answer_was_lost(answers_lost: bool) -> None:
    def got_through(workload: Json) -> None:
        workload["metadata"].setdefault("annotations", {})[OUTCOME_ANNOTATION] = outcome.to_annotation()

    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    (judged,) = cluster.snapshot().workloads()
    outcome = make_outcome(now_s=NOW, attempts=1, outcome="pending", revision="hash1", eligible="x")
    api = FakeApi(cluster, now=NOW, meddlers=[got_through], answers_lost=answers_lost)
    with contextlib.nullcontext() if answers_lost else pytest.raises(StaleDecisionError):
        assert record_eviction(api, judged, outcome, cluster.snapshot()).outcome == outcome
    assert (api.tried, api.patches) == (1, [])
