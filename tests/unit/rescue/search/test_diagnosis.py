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
    found = said(pending(requests={"memory": "2Gi"}), [running("d-1")], nodes=nodes)
    assert {": ".join(text.split(": ")[:2]): count for text, count in found.items()} == {
        "insufficient_cpu: Insufficient cpu, even without its other pods": 2,
        "insufficient_memory: Insufficient memory, even without its other pods": 1,
        "node_not_ready: node(s) were not ready": 1,
        "untolerated_taint: node(s) had untolerated taint(s)": 1,
    }


@pytest.mark.parametrize(
    ("here", "start", "fact"),
    [
        ({"terminationGracePeriodSeconds": 60}, "grace_too_long: 2 pods there: ", "grace_period, 30 s"),
        ({"labels": WEB}, "budget: 2 pods there: ", "PodDisruptionBudget app/web "),
        ({"priority": CRITICAL + 1}, "higher_priority: 2 pods there: ", "its priority is higher"),
    ],
)
def test_what_keeps_the_others_where_they_are(here: t.Any, start: str, fact: str) -> None:
    pods = [running(name, "900m", **here) for name in ("a-1", "b-1")]
    found = said(pending(), [*pods, running("a-1", "10m")], budgets=[budget("web", WEB, allowed=0)])
    assert found.pop("insufficient_cpu: Insufficient cpu, even after all allowed evictions") == 2
    assert [(text.startswith(start), fact in text, count) for text, count in found.items()] == [(True, True, 2)], found


def test_pods_and_nodes_are_counted_apart() -> None:
    pods = [running("a-1", "300m", kind="DaemonSet") for _number in range(3)]
    found = said(pending(), [*pods, running("b-1", "900m", owner="")])
    assert {": ".join(text.split(": ")[:2]): count for text, count in found.items()} == {
        "insufficient_cpu: Insufficient cpu, even after all allowed evictions": 2,
        "bare_pod: 1 pod there": 1,
        "daemon_set: 3 pods there": 1,
    } and "allow_bare_pods" in str(found)


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
    assert {text.partition(":")[0]: count for text, count in found.items()} == {"budget": 1, "max_victims": 1}
    assert "budget: PodDisruptionBudgets do not allow all evictions" in str(found) and "max_victims: more than 2 pods " in str(found)


def test_a_rule_that_no_eviction_changes() -> None:
    lonely = pending(affinity=pod_affinity(affinity_term(WEB, namespaces=["app"])))
    assert said(lonely, [running("a-1", "900m")]) == {
        "pod_affinity: node(s) didn't match pod affinity rules, even without its other pods": 2
    }
