# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A restart is written only if the workload still permits it after a change between the check and the write."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.move_strategy import StaleDecisionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.rollout import write_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.actions import RESTART
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import RestartDecision
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import RestartOptions

from tests.unit.support.cluster import ClusterBuilder, workers
from tests.unit.support.fakes import FakeApi, Json, Meddler

NOW = 1_767_225_600.0
ONE_AWAY = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
DECISION = RestartDecision(RESTART, Reason("collapsed"), attempts=1, revision="hash1", eligible="x")


def web(replicas: int, **spec: t.Any) -> ClusterBuilder:
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * replicas, **spec)
    return cluster


def write(cluster: ClusterBuilder, *meddlers: Meddler, **options: t.Any) -> tuple[Workload | None, FakeApi]:
    api = FakeApi(cluster, now=NOW, meddlers=meddlers)
    snapshot = cluster.snapshot()
    restarted = write_restart(api, snapshot.workloads()[0], DECISION, snapshot, RestartOptions(**options))
    return restarted, api


def scaled(replicas: int) -> Meddler:
    """Return a change like the write of an autoscaler. The API server increments the generation."""

    def meddle(workload: Json) -> None:
        workload["spec"]["replicas"] = replicas
        workload["metadata"]["generation"] += 1

    return meddle


def status(workload: Json) -> None:
    workload["status"]["readyReplicas"] = 1


def image(workload: Json) -> None:
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = "new"


def paused(workload: Json) -> None:
    workload["spec"]["paused"] = True


def strategy(workload: Json) -> None:
    workload["spec"]["strategy"] = {"type": "Recreate"}


def recreated(workload: Json) -> None:
    workload["metadata"]["uid"] = "another"


def deleted(workload: Json) -> None:
    workload["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("meddlers", "restarted"),
    [
        pytest.param([], True, id="nothing"),
        pytest.param([status], True, id="status"),
        pytest.param([scaled(5)], True, id="scaled up"),
        pytest.param([scaled(2)], True, id="scaled down"),
        pytest.param([scaled(5), status, scaled(3)], True, id="scaled and back"),
        pytest.param([status] * 4, True, id="four conflicts"),
        pytest.param([status] * 5, False, id="five conflicts"),
        pytest.param([scaled(1)], False, id="scaled to what cannot spread"),
        pytest.param([scaled(0)], False, id="scaled to nothing"),
        pytest.param([image], False, id="image"),
        pytest.param([status, image], False, id="image after status"),
        pytest.param([paused], False, id="paused"),
        pytest.param([strategy], False, id="strategy"),
        pytest.param([recreated], False, id="deleted and created again"),
        pytest.param([deleted], False, id="being deleted"),
    ],
)
def test_after_a_conflict_the_restart_continues_where_its_judgement_still_holds(meddlers: list[Meddler], restarted: bool) -> None:
    written, api = write(web(3), *meddlers)
    assert ((written is not None), len(api.patches)) == (restarted, int(restarted))
    assert api.tried <= 5


@pytest.mark.parametrize(
    ("replicas", "spec", "desired", "scaled_to", "options", "restarted"),
    [
        pytest.param(4, {"strategy": ONE_AWAY}, 2, 3, {}, True, id="the budget allows fewer replicas"),
        pytest.param(4, {"strategy": ONE_AWAY}, 3, 3, {}, False, id="fewer replicas would go below the budget"),
        pytest.param(4, {"strategy": ONE_AWAY}, 3, 3, {"allow_downtime": True}, True, id="it may go below the budget"),
        pytest.param(3, {}, 2, 2, {}, False, id="fewer replicas would take from a budget that nothing was to be taken from"),
        pytest.param(2, {"strategy": ONE_AWAY}, 1, 1, {"only_if_helps": False}, False, id="one replica would go down"),
        pytest.param(2, {}, 0, 1, {"only_if_helps": False, "allow_downtime": True}, True, id="one replica, by name"),
    ],
)
def test_another_number_of_replicas_must_not_do_harm(
    replicas: int, spec: Json, desired: int, scaled_to: int, options: Json, restarted: bool
) -> None:
    cluster = web(replicas, **spec)
    cluster.budget("keep", "web", desired=desired, current=replicas)
    written, _api = write(cluster, scaled(scaled_to), **options)
    assert (written is not None) == restarted


def test_a_partition_must_leave_something_to_restart() -> None:
    cluster = workers(2)
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    cluster.stateful_set("db", ["worker-1"] * 3, updateStrategy=update)
    assert write(cluster, scaled(4))[0] is not None
    assert write(cluster, scaled(2))[0] is None


def test_a_workload_that_changed_before_the_first_write_is_checked_again() -> None:
    cluster = web(3)
    judged = cluster.snapshot()
    cluster.deployments.clear()
    cluster.deployment("web", ["worker-1"] * 3, metadata={"generation": 2})
    api = FakeApi(cluster, now=NOW)
    with pytest.raises(StaleDecisionError):
        write_restart(api, judged.workloads()[0], DECISION, judged, RestartOptions())
    assert not api.tried
