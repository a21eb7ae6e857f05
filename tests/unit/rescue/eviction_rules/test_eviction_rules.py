# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that may be evicted, and the rules that protect the others."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.eviction_rules.eviction_filter import EvictionFilter
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.eviction_rules.grace_period import victim_grace_period_s
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import CRITICAL, budget, pending, running
from tests.unit.support.searches import immunity

UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
ANNOTATED = {"scheduler.alpha.kubernetes.io/critical-pod": ""}
SCRATCH = [{"name": "scratch", "emptyDir": {}}]
HOST_PATH = [{"name": "logs", "hostPath": {"path": "/var/log"}}]


def code(
    pod: t.Any, *, critical: t.Any = None, excluded_victims: t.Iterable[str] = (), rescued: t.Iterable[str] = (), **options: t.Any
) -> str:
    budgets = PdbLedger(snapshot_of(budgets=[budget("db", {"app": "db"}, allowed=0)]))
    chosen = RescueOptions(**options)
    rules = EvictionFilter(critical or pending(), chosen, budgets, frozenset(excluded_victims), rescued=frozenset(rescued))
    reason = immunity(rules, pod, chosen)
    return reason.code if reason is not None else ""


@pytest.mark.parametrize(
    ("pod", "expected", "option"),
    [
        ({}, "", None),
        ({"annotations": {"kubernetes.io/config.mirror": "hash"}}, "static", None),
        ({"owner": "node-1", "kind": "Node"}, "static", None),
        pytest.param({"owner": "node-1", "kind": "Node", "api_version": "example.org/v1"}, "", None, id="Node of another API group"),
        ({"kind": "DaemonSet"}, "daemon_set", None),
        pytest.param(
            {"kind": "DaemonSet", "api_version": "apps.kruise.io/v1alpha1"}, "daemon_set", None, id="DaemonSet of another API group"
        ),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "terminating", None),
        ({"owner": "dns", "namespace": "kube-system"}, "same_controller", None),
        ({"owner": "dns", "namespace": "kube-system", "priority": CRITICAL}, "same_controller", None),
        pytest.param({"owner": "dns"}, "", None, id="the uid of that controller in a pod of another namespace"),
        ({"priority": CRITICAL + 1000}, "higher_priority", None),
        ({"priority": CRITICAL}, "critical", "allow_equal_priority"),
        ({"priority": 10, "priorityClassName": "system-cluster-critical"}, "critical", "allow_equal_priority"),
        ({"namespace": "kube-system", "annotations": ANNOTATED}, "critical", "allow_equal_priority"),
        ({"annotations": ANNOTATED}, "", None),
        ({"annotations": UNSAFE}, "not_safe_to_evict", None),
        ({"annotations": dict.fromkeys(UNSAFE, "true")}, "", None),
        ({"owner": ""}, "bare_pod", "allow_bare_pods"),
        ({"volumes": SCRATCH}, "local_storage", "allow_local_storage"),
        ({"volumes": HOST_PATH}, "local_storage", "allow_local_storage"),
        ({"terminationGracePeriodSeconds": 10}, "", None),
        ({"terminationGracePeriodSeconds": 31}, "grace_too_long", "allow_short_grace"),
        ({"terminationGracePeriodSeconds": 45}, "grace_too_long", "allow_short_grace"),
        ({"labels": {"app": "db"}}, "budget", None),
        # What no option changes is said first, except what changes by itself, such as a budget.
        ({"owner": "", "annotations": UNSAFE}, "not_safe_to_evict", None),
        ({"labels": {"app": "db"}, "volumes": SCRATCH}, "local_storage", None),
    ],
)
def test_who_is_never_a_victim(pod: t.Any, expected: str, option: str | None) -> None:
    victim = running("node-1", **pod)
    assert code(victim) == expected
    every = ("allow_equal_priority", "allow_bare_pods", "allow_local_storage", "allow_short_grace")
    if option is not None:
        assert code(victim, **{option: True}) == ""
        assert code(victim, **{name: True for name in every if name != option}) == expected
    elif expected and expected not in ("budget", "local_storage"):
        assert code(victim, **dict.fromkeys(every, True)) == expected


@pytest.mark.parametrize(("allowed", "expected"), [(False, "equal_priority"), (True, "")])
def test_pods_of_the_same_priority(allowed: bool, expected: str) -> None:
    ordinary = pending(priority=500)
    assert code(running("node-1", priority=500), critical=ordinary, allow_equal_priority=allowed) == expected
    assert code(running("node-1", priority=501), critical=ordinary, allow_equal_priority=allowed) == "higher_priority"


@pytest.mark.parametrize(
    ("priority", "annotated", "allowed", "expected"),
    [
        (CRITICAL, False, True, "rescued_before"),
        (CRITICAL, True, True, "rescued_before"),
        (CRITICAL, False, False, "critical"),
        (CRITICAL + 1000, False, True, ""),
        (CRITICAL - 1, False, True, "higher_priority"),
    ],
)
def test_rescued_pod_is_evicted_only_for_a_higher_priority(priority: int, annotated: bool, allowed: bool, expected: str) -> None:
    """``annotated``: the pod that was rescued is critical by its annotation."""
    how: dict[str, t.Any] = {"priority": 0, "namespace": "kube-system", "annotations": ANNOTATED} if annotated else {"priority": CRITICAL}
    victim = running("node-1", **how)
    assert code(victim, critical=pending(priority=priority), rescued=[victim.metadata.uid], allow_equal_priority=allowed) == expected
    assert code(victim, critical=pending(), rescued=["uid-another"], allow_equal_priority=True) == ""


def test_rescued_pod_of_a_lower_priority_is_evicted() -> None:
    victim = running("node-1", priority=500)
    assert code(victim, rescued=[victim.metadata.uid], allow_equal_priority=True) == ""


def test_the_annotation_counts_as_the_priority_that_it_stands_for() -> None:
    annotated = pending(priority=0, annotations=ANNOTATED)
    never = running("node-1", priority=1_000_000_000, preemptionPolicy="Never")
    assert code(never, critical=annotated) == ""
    assert code(never, critical=annotated, honor_critical_annotation="none") == "higher_priority"


@pytest.mark.parametrize(("honored", "expected"), [("kube-system", "critical"), ("all", "critical"), ("none", "")])
def test_annotated_pods_of_kube_system_stay_also_where_pods_of_other_namespaces_are_rescued(honored: str, expected: str) -> None:
    victim = running("node-1", namespace="kube-system", annotations=ANNOTATED)
    options: dict[str, t.Any] = {"namespaces": ("monitoring",), "honor_critical_annotation": honored}
    assert code(victim, **options) == expected


@pytest.mark.parametrize(
    ("priority", "policy", "own", "expected"),
    [
        (1, None, 0, "would_preempt"),
        (1, "PreemptLowerPriority", 0, "would_preempt"),
        (1, "Never", 0, ""),
        (0, None, 0, ""),
        (-1, None, 0, ""),
        (0, None, -1, "would_preempt"),
        (CRITICAL, None, 0, "would_preempt"),
    ],
)
def test_pod_whose_replacement_could_preempt_an_annotated_pod_is_not_evicted(
    priority: int, policy: str | None, own: int, expected: str
) -> None:
    """Only the real priorities count for the scheduler. No option changes that."""
    annotated = pending(priority=own, annotations=ANNOTATED)
    victim = running("node-1", priority=priority, preemptionPolicy=policy)
    assert code(victim, critical=annotated, allow_equal_priority=True) == expected
    assert code(victim, critical=pending(), allow_equal_priority=True) == ""


def test_pods_that_are_excluded_or_are_not_bound_stay() -> None:
    victim = running("node-1")
    assert code(victim, excluded_victims=[victim.metadata.uid]) == "excluded"
    assert code(running("")) == "not_on_node"


@pytest.mark.parametrize(
    ("own", "cap", "kind", "expected"),
    [
        (5, {"grace_period_s": 10}, "ReplicaSet", 5),
        (30, {"grace_period_s": 10}, "ReplicaSet", 10),
        (None, {"grace_period_s": 60}, "ReplicaSet", 30),
        (5, {"grace_period_s": 0}, "ReplicaSet", 1),
        (5, {"grace_period_s": 0, "allow_zero_grace": True}, "ReplicaSet", 0),
        (5, {"grace_period_s": 0, "allow_zero_grace": True}, "StatefulSet", 1),
        (0, {"grace_period_s": 10}, "ReplicaSet", 0),
        (0, {"grace_period_s": 10}, "StatefulSet", 1),
    ],
)
def test_the_grace_that_a_victim_gets(own: int | None, cap: t.Any, kind: str, expected: int) -> None:
    victim = running("node-1", kind=kind, terminationGracePeriodSeconds=own)
    assert victim_grace_period_s(victim, RescueOptions(**cap)) == expected
