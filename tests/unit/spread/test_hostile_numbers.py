# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Numbers that a tenant may write: the work follows what exists, and nothing ends the check."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.bounds import resolve, rollout_bounds
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import CheckOptions, WorkloadReport, check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.guard import immovable

from tests.unit.support.cluster_builder import ClusterBuilder, Json, workers

MOST = 2**31 - 1
LONG = "9" * 5000
"""Python refuses to make a number of so many digits."""

FREE: Json = {"spec": {"containers": [{"name": "main"}]}}


def judged(cluster: ClusterBuilder) -> WorkloadReport:
    return check_spread(cluster.snapshot(), CheckOptions()).workloads[0]


def complete(replicas: int) -> Json:
    """A status of which nothing says that a rollout is in progress."""
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return {"observedGeneration": 1, **dict.fromkeys(counts, replicas)}


def rolling(kind: str = "RollingUpdate", **bounds: t.Any) -> Json:
    return {"type": kind, **({"rollingUpdate": bounds} if bounds else {})}


@pytest.mark.parametrize("start", [0, MOST])
@pytest.mark.parametrize("partition", [0, 2, MOST - 1, MOST])
def test_a_stateful_set_that_wants_billions_of_replicas_is_judged_by_those_that_exist(partition: int, start: int) -> None:
    cluster = workers(3)
    options: Json = {"ordinals": {"start": start}, "updateStrategy": rolling(partition=partition)}
    cluster.stateful_set("db", ["worker-1"] * 3, replicas=MOST, template=FREE, status=complete(MOST), **options)
    line = judged(cluster)
    assert line.verdict.verdict == "collapsed" and line.prediction is not None
    assert line.prediction.restart_helps is (partition < 3)


@pytest.mark.parametrize(
    "strategy",
    [
        rolling(maxUnavailable=1, maxSurge=0),
        rolling(maxUnavailable=0, maxSurge=MOST),
        rolling(maxUnavailable=MOST, maxSurge=MOST),
        rolling(maxUnavailable="100%", maxSurge="100000000%"),
        rolling("Recreate"),
    ],
)
def test_a_deployment_that_wants_billions_of_replicas_is_judged_by_those_that_exist(strategy: Json) -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3, replicas=MOST, template=FREE, status=complete(MOST), strategy=strategy)
    line = judged(cluster)
    assert line.verdict.verdict == "collapsed" and line.prediction is not None and line.prediction.restart_helps is True


@pytest.mark.parametrize("revision", ["²", "٣", LONG, "-1", "1e9", ""])
def test_a_revision_that_is_no_number_is_older_than_any_other(revision: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    cluster.replica_set("web", 0, "odd", annotations={"deployment.kubernetes.io/revision": revision})
    snapshot = cluster.snapshot()
    assert snapshot.revision(cluster.deployments[0]) == "hash1"


def test_a_percentage_of_thousands_of_digits_is_refused_as_its_controller_does() -> None:
    cluster = workers(3)
    workload = cluster.deployment("web", ["worker-1"] * 3, strategy=rolling(maxUnavailable=1, maxSurge=f"{LONG}%"))
    refused = immovable(workload, cluster.snapshot())
    assert refused is not None and refused.code == "invalid_strategy" and "maxSurge" in refused.text
    assert len(refused.text) < 300
    assert judged(cluster).refusal == refused
    assert rollout_bounds(workload).max_unavailable == 1
    assert resolve(f"{2**63 - 1}%", 1, round_up=False) == (2**63 - 1) // 100


@pytest.mark.parametrize("constraint", [{"maxSkew": MOST}, {"maxSkew": 1, "minDomains": MOST}])
def test_the_largest_skew_and_number_of_domains_take_no_longer_than_others(constraint: Json) -> None:
    cluster = workers(3)
    spread = {
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    cluster.deployment("web", ["worker-1"] * 3, template={"spec": {"topologySpreadConstraints": [{**spread, **constraint}]}})
    assert judged(cluster).verdict.verdict == "collapsed"
