# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Restarts in which the scheduler could preempt other pods, and new pods that other new pods attract."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.prediction import Prediction

from tests.unit.support.cluster import ClusterBuilder, Json, workers

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def predicted(cluster: ClusterBuilder) -> tuple[bool | None, list[str]]:
    read = cluster.snapshot()
    found = WorkloadChecker(read, CheckOptions(topology_keys=(HOST,))).check(read.workloads()[0]).prediction
    assert isinstance(found, Prediction)
    return found.restart_helps, [blocker.reason.code for blocker in found.blockers]


def sized(cpu: str, **spec: t.Any) -> Json:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec}}


def with_a_full_node(
    priority: int, *, filler_priority: int = 0, filler: Json | None = None, allocatable: Json | None = None, **spec: t.Any
) -> ClusterBuilder:
    """Two nodes with four cpus. Two replicas fill the first one, and another pod fills the second one."""
    cluster = workers(1)
    cluster.node("worker-2", labels={ZONE: "b"}, **({"allocatable": allocatable} if allocatable else {}))
    cluster.deployment("web", ["worker-1"] * 2, template=sized("2", priority=priority, **spec))
    cluster.pod("filler", "worker-2", labels={"app": "other"}, template=sized("4", priority=filler_priority), **(filler or {}))
    return cluster


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (with_a_full_node(1000), (False, ["preempts"])),
        (with_a_full_node(1000, filler_priority=1000), (False, ["insufficient_cpu"])),
        (with_a_full_node(1000, preemptionPolicy="Never"), (False, ["insufficient_cpu"])),
        (with_a_full_node(0, filler_priority=-1), (False, ["preempts"])),
        (with_a_full_node(1000, filler={"deletionTimestamp": "2026-01-01T00:00:30Z"}), (False, ["scoring_does_not_spread"])),
        (with_a_full_node(1000, allocatable={"cpu": "1", "memory": "16Gi", "pods": "110"}), (False, ["insufficient_cpu"])),
    ],
    ids=["lower priority", "same priority", "never", "negative priority", "terminating", "small node"],
)
def test_a_restart_for_which_other_pods_are_preempted_does_not_help(
    cluster: ClusterBuilder, expected: tuple[bool | None, list[str]]
) -> None:
    assert predicted(cluster) == expected


def test_the_first_new_pods_may_attract_the_others_to_nodes_that_are_better_than_the_least_loaded_ones() -> None:
    """Zone a has capacity for one pod, zone b for all. Pods that must be in one zone all go to zone b, because its nodes are empty."""
    cluster = ClusterBuilder()
    for name, zone in (("a-1", "a"), ("b-1", "b"), ("b-2", "b")):
        cluster.node(name, labels={HOST: name, ZONE: zone})
    cluster.pod("filler", "a-1", labels={"app": "other"}, template=sized("3"))
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.deployment("web", ["b-1"] * 3, template=sized("1", affinity=affinity), strategy={"type": "Recreate"})
    assert predicted(cluster) == (True, [])
