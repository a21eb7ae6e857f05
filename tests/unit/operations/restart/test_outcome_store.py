# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of a run replaces only its own record."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import DEPLOYMENTS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.move_strategy import StaleDecisionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.outcome_store import finalize, record_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import (
    IMPROVED,
    OUTCOME_ANNOTATION,
    PENDING,
    RestartOutcome,
    SkewMeasure,
    make_outcome,
    read_outcome,
)

from tests.unit.support.cluster import ClusterBuilder, workers
from tests.unit.support.fakes import FakeApi, Json

EVEN = SkewMeasure("b", (0,))

NOW = 1_767_225_600.0


def mark(age_s: float) -> RestartOutcome:
    return make_outcome(now_s=NOW - age_s, attempts=1, outcome=PENDING, revision="hash1", eligible="x")


def marked(outcome: RestartOutcome) -> tuple[ClusterBuilder, ClusterSnapshot, Workload]:
    cluster = workers(2)
    workload = cluster.deployment("web", ["worker-1"] * 2, metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}})
    return cluster, cluster.snapshot(), workload


def now_remembered(api: FakeApi) -> RestartOutcome | None:
    live: t.Any = api.get(DEPLOYMENTS, "app", "web")
    return read_outcome(live.metadata.annotations)


def test_the_verdict_replaces_the_own_mark() -> None:
    ours = mark(20)
    cluster, snapshot, workload = marked(ours)
    api = FakeApi(cluster, now=NOW)
    result = RestartResult(Target("Deployment", "app", "web"), outcome=IMPROVED)
    finalize(api, result, workload, ours, snapshot, settled=True, skew=EVEN, improved=True, event="SpreadEvictionOutcome")
    found = now_remembered(api)
    assert found is not None and (found.outcome, found.attempts, result.warnings) == (IMPROVED, 0, [])


def test_the_mark_of_another_run_stays() -> None:
    theirs = mark(1)
    cluster, snapshot, workload = marked(theirs)
    api = FakeApi(cluster, now=NOW)
    result = RestartResult(Target("Deployment", "app", "web"), outcome=IMPROVED)
    finalize(api, result, workload, mark(20), snapshot, settled=True, skew=EVEN, improved=True, event="SpreadEvictionOutcome")
    assert now_remembered(api) == theirs
    assert len(result.warnings) == 1 and "Deployment app/web was changed by another client" in result.warnings[0]


def _edit(kept: Json) -> None:
    kept["metadata"]["generation"] += 1


def _mark(kept: Json) -> None:
    kept["metadata"]["annotations"][OUTCOME_ANNOTATION] = mark(0).to_annotation()


@pytest.mark.parametrize("meddler", [_edit, _mark])
def test_nothing_is_announced_for_a_workload_that_has_moved_on(meddler: t.Callable[[Json], None]) -> None:
    cluster, _snapshot, workload = marked(mark(20))
    api = FakeApi(cluster, now=NOW, meddlers=[meddler])
    with pytest.raises(StaleDecisionError):
        record_eviction(api, workload, mark(0), cluster.snapshot())
    assert api.patches == []
