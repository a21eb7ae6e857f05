# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Volumes that keep pods where they are: data on a node is not left behind, and no rule is advised that could not spread the pods."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.advice.volume_pinning import pinned_by_volumes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker, check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import decide_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import decide_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import WorkloadReport

from tests.unit.support.cluster import NOW, ClusterBuilder, Json, struct, workers

HOST = "kubernetes.io/hostname"


def advised(line: WorkloadReport) -> bool:
    """A rule that spreads is advised."""
    return "no_spreading_rule" in {advice.reason.code for advice in line.advice}


def decisions(line: WorkloadReport, snapshot: ClusterSnapshot) -> list[t.Any]:
    """The decisions on a restart and on an eviction, if only harm prevents them."""
    options = RestartOptions(only_if_helps=False, allow_downtime=True)
    return [
        decide_restart(line, snapshot, options, now_s=NOW),
        decide_eviction(line, snapshot, ClusterState.of(snapshot), options, now_s=NOW),
    ]


def _required(key: str) -> Json:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["nvme", "amd64"]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


HOST_PATH = {"spec": {"volumes": [{"name": "data", "hostPath": {"path": "/srv/data"}}]}}


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        pytest.param({}, True, id="no rule"),
        pytest.param({"nodeSelector": {"kubernetes.io/os": "linux"}}, True, id="a rule that every node meets"),
        pytest.param({"nodeSelector": {"disk": "nvme"}}, False, id="node selector"),
        pytest.param({"affinity": {"nodeAffinity": _required("disk")}}, False, id="node affinity"),
        pytest.param({"affinity": {"nodeAffinity": _required("kubernetes.io/arch")}}, True, id="node affinity that every node meets"),
        pytest.param({"volumes": [{"name": "log", "hostPath": {"path": "/dev/log", "type": "Socket"}}]}, False, id="a socket"),
        pytest.param({"volumes": [{"name": "tmp", "emptyDir": {}}]}, False, id="no hostPath"),
    ],
)
def test_a_stateful_set_with_data_on_its_node_is_neither_restarted_nor_evicted_from(spec: Json, refused: bool) -> None:
    cluster = ClusterBuilder()
    for name in ("worker-1", "worker-2"):
        cluster.node(name, labels={"disk": "nvme", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"})
    cluster.stateful_set("db", ["worker-1"] * 2, template={"spec": {**HOST_PATH["spec"], **spec}})
    snapshot = cluster.snapshot()
    (line,) = check_spread(snapshot, CheckOptions()).workloads
    found = decisions(line, snapshot)
    assert [(made.action, made.reason.code) == ("refused", "host_path") for made in found] == [refused] * 2
    assert advised(line) is not refused


def test_a_deployment_with_a_host_path_is_restarted() -> None:
    cluster = workers(2)
    cluster.deployment("agent", ["worker-1"] * 2, template=HOST_PATH)
    (line,) = check_spread(cluster.snapshot(), CheckOptions()).workloads
    assert line.restartable


def _with_local_volumes(*nodes: str, source: Json | None = None) -> ClusterSnapshot:
    """A StatefulSet with one replica and one volume on each of these nodes; a volume without a node can be used everywhere."""
    cluster = workers(2)
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    cluster.stateful_set("db", ["worker-1"] * len(nodes), volumeClaimTemplates=[template])
    volumes = []
    for number, node in enumerate(nodes):
        cluster.claims.append(
            struct(
                PersistentVolumeClaim,
                {
                    "metadata": {
                        "name": f"data-db-{number}",
                        "namespace": "app",
                        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                    },
                    "spec": {"volumeName": f"pv-{number}", "accessModes": ["ReadWriteOnce"]},
                },
            )
        )
        term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if node else {}
        volumes.append(struct(PersistentVolume, {"metadata": {"name": f"pv-{number}"}, "spec": {**(source or {}), **affinity}}))
        pod = cluster.pods[number]
        own = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-db-{number}"}}]
        mounting = struct(Pod, {"spec": {"nodeName": pod.spec.node_name, "volumes": own}})
        cluster.pods[number] = replace(pod, spec=mounting.spec)
    return cluster.snapshot(storage=Storage(volumes=tuple(volumes)))


@pytest.mark.parametrize(("nodes", "pinned"), [(("worker-1", "worker-1"), True), (("worker-1", ""), False), (("", ""), False)])
def test_a_spreading_rule_is_not_advised_where_volumes_keep_the_pods_on_their_node(nodes: tuple[str, ...], pinned: bool) -> None:
    (line,) = check_spread(_with_local_volumes(*nodes), CheckOptions()).workloads
    assert line.verdict.verdict == "collapsed"
    assert advised(line) is not pinned


PATH = {"hostPath": {"path": "/srv/pv"}}


@pytest.mark.parametrize(
    ("nodes", "source", "refused"),
    [
        pytest.param(("", ""), PATH, True, id="without a node affinity"),
        pytest.param(("worker-1", ""), PATH, True, id="one of two without a node affinity"),
        pytest.param(("worker-1", "worker-1"), PATH, False, id="with a node affinity"),
        pytest.param(("", ""), {"nfs": {"server": "nas", "path": "/srv"}}, False, id="not on a node"),
    ],
)
def test_a_stateful_set_with_a_persistent_volume_on_its_node_is_neither_restarted_nor_evicted_from(
    nodes: tuple[str, ...], source: Json, refused: bool
) -> None:
    snapshot = _with_local_volumes(*nodes, source=source)
    (line,) = check_spread(snapshot, CheckOptions()).workloads
    found = decisions(line, snapshot)
    assert [(made.action, made.reason.code) == ("refused", "host_path") for made in found] == [refused] * 2
    assert not refused or all("pv-" in made.reason.text and "/srv/pv" in made.reason.text for made in found)
    assert not (refused and advised(line))


def test_a_spreading_rule_is_not_advised_where_all_replicas_share_a_claim_of_one_node() -> None:
    cluster = workers(2)
    cluster.deployment(
        "wiki", ["worker-1"] * 2, template={"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "wiki"}}]}}
    )
    cluster.claim("wiki", "ReadWriteOnce")
    (line,) = check_spread(cluster.snapshot(), CheckOptions()).workloads
    assert not advised(line)


class _Unread(tuple[str, ...]):
    """Names that nobody may go through: a cluster has thousands, and a check asks for each of its uneven workloads."""

    __slots__ = ()

    def __iter__(self) -> t.Iterator[str]:
        raise AssertionError("all eligible nodes are checked")


def test_pods_without_volumes_are_found_movable_without_a_check_of_the_eligible_nodes() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 3)
    snapshot = cluster.snapshot()
    (workload,) = snapshot.deployments
    assert not pinned_by_volumes(workload, snapshot, _unbuilt, _Unread(snapshot.nodes), HOST)


def _unbuilt() -> ClusterState:
    raise AssertionError("the cluster state is built, which takes long on a large cluster")


def test_check_without_prediction_builds_no_cluster_state_for_pods_without_volumes() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 3)
    snapshot = cluster.snapshot()
    checker = WorkloadChecker(snapshot, CheckOptions(predict=False))
    assert checker.check(snapshot.deployments[0]).verdict.verdict == "collapsed"
    assert checker._read_state is None
