# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""If no eviction helps, the blockers and their numbers of nodes are reported."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions

from tests.unit.support.objects import CRITICAL, affinity_term, budget, node, pending, pod_affinity, running
from tests.unit.support.searches import blockers, search

ROOM = {"cpu": "1"}
WEB = {"app": "web"}


def said(pod: t.Any, here: t.Any, *, options: RescueOptions | None = None, nodes: t.Any = None, **snapshot: t.Any) -> dict[str, int]:
    judged = search(pod, nodes or [node("a-1", allocatable=ROOM), node("b-1", allocatable=ROOM)], here, options=options, **snapshot)
    assert judged.best() is None
    return {str(blocker.reason): blocker.nodes for blocker in blockers(judged)}


def test_the_schedulers_reasons_where_no_eviction_helps() -> None:
    nodes = [
        node("a-1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
        node("b-1", ready=False),
        node("c-1", allocatable={"cpu": "200m", "memory": "1Gi"}),
        node("d-1", allocatable={"cpu": "200m"}),
    ]
    assert said(pending(requests={"memory": "2Gi"}), [running("d-1")], nodes=nodes) == {
        "insufficient_cpu: Insufficient cpu, even without its other pods": 2,
        "insufficient_memory: Insufficient memory, even without its other pods": 1,
        "node_not_ready: node(s) were not ready: evicted pods would not end there": 1,
        "untolerated_taint: node(s) had untolerated taint(s)": 1,
    }


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        (
            {"terminationGracePeriodSeconds": 60},
            "grace_too_long: 2 pods there: its own grace period is longer than grace_period, 30 s: raise grace_period, or set "
            "allow_short_grace",
        ),
        ({"labels": WEB}, "budget: 2 pods there: PodDisruptionBudget app/web allows no disruption now"),
        ({"priority": CRITICAL + 1}, "higher_priority: 2 pods there: its priority is higher"),
    ],
)
def test_what_keeps_the_others_where_they_are(here: t.Any, expected: str) -> None:
    pods = [running(name, "900m", **here) for name in ("a-1", "b-1")]
    found = said(pending(), [*pods, running("a-1", "10m")], budgets=[budget("web", WEB, allowed=0)])
    assert found == {"insufficient_cpu: Insufficient cpu, even after all allowed evictions": 2, expected: 2}


def test_pods_and_nodes_are_counted_apart() -> None:
    pods = [running("a-1", "300m", kind="DaemonSet") for _number in range(3)]
    found = said(pending(), [*pods, running("b-1", "900m", owner="")])
    assert found == {
        "insufficient_cpu: Insufficient cpu, even after all allowed evictions": 2,
        "bare_pod: 1 pod there: no controller would start it elsewhere; allow_bare_pods would allow it": 1,
        "daemon_set: 3 pods there: its DaemonSet would start it on the same node again": 1,
    }


def test_several_budgets_are_one_blocker() -> None:
    pods = [running("a-1", "900m", labels=WEB), running("b-1", "900m", labels={"app": "db"})]
    budgets = [budget("web", WEB, allowed=0), budget("db", {"app": "db"}, allowed=0)]
    assert said(pending(), pods, budgets=budgets) == {
        "insufficient_cpu: Insufficient cpu, even after all allowed evictions": 2,
        "budget: 2 pods there: PodDisruptionBudgets allow no disruption now": 2,
    }


def test_pods_that_may_not_all_go() -> None:
    pods = [running("a-1", "300m", labels=WEB) for _number in range(3)] + [running("b-1", "300m") for _number in range(3)]
    found = said(pending("900m"), pods, budgets=[budget("web", WEB, allowed=2)], options=RescueOptions(max_victims=2))
    assert found == {
        "budget: PodDisruptionBudgets do not allow all evictions that are needed together": 1,
        "max_victims: more than 2 pods would have to be evicted": 1,
    }


def test_a_rule_that_no_eviction_changes() -> None:
    lonely = pending(affinity=pod_affinity(affinity_term(WEB, namespaces=["app"])))
    assert said(lonely, [running("a-1", "900m")]) == {
        "pod_affinity: node(s) didn't match pod affinity rules, even without its other pods": 2
    }
