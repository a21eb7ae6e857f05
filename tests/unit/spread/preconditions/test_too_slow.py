# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A move that cannot end before the timeout is refused. The times are those of the controllers and of the kubelet."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import decide_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.least_time import least_replacement_s, least_rollout_s
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.too_slow import too_slow_violation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import decide_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions

from tests.unit.support.cluster import NOW, Json, workers


def rolling(unavailable: int | str, surge: int | str | None = None) -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}


def template(*containers: Json, init: t.Sequence[Json] = ()) -> Json:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": list(containers), "initContainers": list(init)}}


def deployment(replicas: int = 4, **spec: t.Any) -> Workload:
    return workers(1).deployment("web", ["worker-1"] * replicas, **spec)


READY_AFTER_20 = template({"name": "main", "readinessProbe": {"initialDelaySeconds": 20}})


@pytest.mark.parametrize(
    ("workload", "seconds"),
    [
        (deployment(), 0),
        (deployment(minReadySeconds=10), 20),  # 25 %: one pod more and one less
        (deployment(minReadySeconds=10, strategy=rolling(0, 2)), 20),
        (deployment(minReadySeconds=10, strategy=rolling(1, 2)), 20),
        (deployment(minReadySeconds=10, strategy=rolling("100%", 0)), 10),
        (deployment(minReadySeconds=10, strategy={"type": "Recreate"}), 10),
        (deployment(5, minReadySeconds=10, strategy=rolling(2, 0)), 30),
        (deployment(template=READY_AFTER_20), 40),
        (deployment(minReadySeconds=10, template=READY_AFTER_20), 60),
        (deployment(template=template({"name": "main", "startupProbe": {"initialDelaySeconds": 7}}, {"name": "other"})), 14),
        (
            deployment(
                template=template(
                    {"name": "main", "startupProbe": {"initialDelaySeconds": 7}, "readinessProbe": {"initialDelaySeconds": 3}},
                    init=[{"name": "sidecar", "restartPolicy": "Always", "startupProbe": {"initialDelaySeconds": 9}}],
                )
            ),
            18,
        ),
        (deployment(template=template({"name": "main", "readinessProbe": {}, "livenessProbe": {"initialDelaySeconds": 99}})), 0),
    ],
)
def test_least_time_of_a_rollout_of_a_deployment(workload: Workload, seconds: int) -> None:
    assert least_rollout_s(workload) == seconds


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({"minReadySeconds": 10}, 30),  # the last pod only has to be ready
        ({"minReadySeconds": 10, "updateStrategy": rolling(2)}, 10),
        ({"minReadySeconds": 10, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}, 10),
        ({"minReadySeconds": 10, "template": READY_AFTER_20}, 110),
    ],
)
def test_least_time_of_a_rollout_of_a_stateful_set(spec: Json, seconds: int) -> None:
    assert least_rollout_s(workers(1).stateful_set("web", ["worker-1"] * 4, **spec)) == seconds


def test_a_replacement_is_awaited_until_it_is_available() -> None:
    assert least_replacement_s(deployment(minReadySeconds=10, template=READY_AFTER_20)) == 30


def test_the_reason_names_the_fields_and_the_remedy() -> None:
    workload = deployment(2, minReadySeconds=45, template=READY_AFTER_20)
    assert too_slow_violation(workload, "a rollout", 130, 130) is None and too_slow_violation(workload, "a rollout", 130, None) is None
    assert str(too_slow_violation(workload, "a rollout", 130, 129)) == (
        "too_slow: a rollout takes at least 130 s (minReadySeconds 45 and initialDelaySeconds of a probe 20), and wait_timeout is 129 s;"
        " raise wait_timeout, or set wait to false"
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"wait_timeout_s": 60}, "too_slow: a rollout of Deployment app/web in 2 steps takes at least 90 s"),
        ({"wait_timeout_s": 60, "dry_run": True}, "too_slow"),
        ({"wait_timeout_s": 60, "wait": False}, "collapsed"),
        ({"wait_timeout_s": 90}, "collapsed"),
        ({"wait_timeout_s": 44, "strategy": EVICT_SURPLUS}, "too_slow: the replacement of a pod of Deployment app/web takes at least 45 s"),
        ({"wait_timeout_s": 45, "strategy": EVICT_SURPLUS}, "collapsed"),
    ],
)
def test_a_move_that_cannot_end_in_time_is_refused(options: Json, reason: str) -> None:
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, minReadySeconds=45)
    snapshot = cluster.snapshot()
    (workload,) = snapshot.workloads()
    report = WorkloadChecker(snapshot, CheckOptions()).check(workload)
    settings = RestartOptions(**options)
    if settings.strategy == EVICT_SURPLUS:
        found = decide_eviction(report, snapshot, ClusterState.of(snapshot), settings, now_s=NOW).reason
    else:
        found = decide_restart(report, snapshot, settings, now_s=NOW).reason
    assert str(found).startswith(reason)
