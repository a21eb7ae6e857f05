# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes that cannot have enough room are left out before anything is worked out about single pods or sets of them."""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.objects import Node, Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.occupants import Demand
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import IMPOSSIBLE, PLANNED
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import Facts, RescuePlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.residents import most_room
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.victims import EvictionRules
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduling.node_info import NodeInfo
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduling.placement import Placement
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduling.rules import taint_toleration

from tests.unit.rescue.builders import CRITICAL, pending, running
from tests.unit.scheduling.builders import node

NODES = 30
PODS = 20
ROOM = {"cpu": "1", "pods": "10"}
NOW_S = 1_767_225_600.0


def crowd() -> tuple[list[Node], list[Pod]]:
    names = [f"n-{number}" for number in range(NODES)]
    return [node(name, allocatable=ROOM) for name in names], [running(name, "450m") for name in names for _number in range(2)]


def planner(*pods: Pod) -> RescuePlanner:
    nodes, others = crowd()
    return RescuePlanner(ClusterSnapshot(nodes=nodes, pods=[*others, *pods]), RescueOptions(), now_s=NOW_S)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the costly questions were asked."""
    counted: Counter[str] = Counter()

    def count(owner: t.Any, name: str) -> None:
        real = getattr(owner, name)

        def counting(*args: t.Any, **how: t.Any) -> t.Any:
            counted[name] += 1
            return real(*args, **how)

        monkeypatch.setattr(owner, name, counting)

    count(Demand, "occupants")
    count(EvictionRules, "may_go")
    count(EvictionRules, "immunity_of")
    count(NodeInfo, "without_pods")
    return counted


def test_for_pods_that_are_too_large_for_every_node_no_single_pod_is_looked_at(calls: Counter[str]) -> None:
    hopeless = [pending(f"{2000 + number}m", name=f"hopeless-{number}") for number in range(PODS)]
    planned = planner(*hopeless)
    judged = [planned.judge(pod, Facts()) for pod in hopeless]
    assert {judgement.status for judgement in judged} == {IMPOSSIBLE}
    assert {blocker.nodes for judgement in judged for blocker in judgement.blockers} == {NODES}
    assert not calls


def test_where_the_pods_that_may_go_free_too_little_no_set_of_them_is_sought(calls: Counter[str]) -> None:
    nodes, others = crowd()
    agents = [running(name, "50m", kind="DaemonSet") for name in (one.name for one in nodes)]
    important = [running(name, "10m", priority=CRITICAL + 1) for name in (one.name for one in nodes)]
    hopeless = pending("950m")
    snapshot = ClusterSnapshot(nodes=nodes, pods=[*others, *agents, *important, hopeless])
    judgement = RescuePlanner(snapshot, RescueOptions(), now_s=NOW_S).judge(hopeless, Facts())
    assert judgement.status == IMPOSSIBLE
    assert {blocker.reason.code for blocker in judgement.blockers} == {"insufficient_cpu", "daemon_set", "higher_priority"}
    assert calls["may_go"] == NODES, "only the explanation asks who may go"


def test_pods_that_differ_in_their_requests_share_what_the_static_rules_say(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    prepare = taint_toleration.prepare

    def counting(pod: Pod) -> t.Any:
        check = prepare(pod)

        def checked(of: Node) -> t.Any:
            asked[of.name] += 1
            return check(of) if check is not None else ()

        return checked

    rules = "ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduling.eligibility.STATIC_RULES"
    monkeypatch.setattr(rules, (counting,))
    hopeless = [pending(f"{2000 + number}m", name=f"hopeless-{number}") for number in range(PODS)]
    planned = planner(*hopeless)
    for pod in hopeless:
        assert planned.judge(pod, Facts()).status == IMPOSSIBLE
    assert asked == {f"n-{number}": 1 for number in range(NODES)}


def test_a_possible_pod_among_hopeless_ones_gets_its_plan() -> None:
    hopeless = [pending(f"{2000 + number}m", name=f"hopeless-{number}") for number in range(PODS)]
    possible = pending("500m", name="possible")
    planned = planner(*hopeless, possible)
    assert [planned.judge(pod, Facts()).status for pod in hopeless] == [IMPOSSIBLE] * PODS
    judgement = planned.judge(possible, Facts())
    assert judgement.status == PLANNED
    assert judgement.choice is not None
    assert len(judgement.choice.victims) == 1


def test_the_most_room_counts_pods_up_to_the_priority_and_no_others() -> None:
    pods = [
        running("n", "100m", priority=0),
        running("n", "200m", priority=10, requests={"example.com/gpu": "1"}),
        running("n", "300m", priority=20),
        running("n", "50m", kind="DaemonSet"),
    ]
    placement = Placement.of(ClusterSnapshot(nodes=[node("n", allocatable=ROOM)], pods=pods))
    rooms = [most_room(placement.info("n"), RescueOptions(), priority) for priority in (-1, 0, 10, 15, 20)]
    assert [(room.amounts["cpu"], room.places) for room in rooms] == [(350, 6), (450, 7), (650, 8), (650, 8), (950, 9)]
    assert [room.amounts.get("example.com/gpu", 0) for room in rooms] == [0, 0, 0, 0, 0], "what the node does not offer is never free"
