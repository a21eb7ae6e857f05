# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes that cannot have enough free capacity are excluded before single pods or sets of them are examined."""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.eviction_rules.eviction_filter import (
    EvictionFilter,
    preemptor_of,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import IMPOSSIBLE, PLANNED, RescueContext
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.capacity import FreeableCapacity, PodDemand
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.filters import taint_toleration
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.node_info import NodeInfo

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import CRITICAL, affinity_term, anti_affinity, budget, node, pending, pod_affinity, running

NODES = 30
PODS = 20
ROOM = {"cpu": "1", "pods": "10"}
NOW_S = 1_767_225_600.0


def crowd() -> tuple[list[Node], list[Pod]]:
    names = [f"n-{number}" for number in range(NODES)]
    return [node(name, allocatable=ROOM) for name in names], [running(name, "450m") for name in names for _number in range(2)]


def planner(*pods: Pod) -> RescuePlanner:
    nodes, others = crowd()
    return RescuePlanner(snapshot_of(nodes=nodes, pods=[*others, *pods]), RescueOptions(), now_s=NOW_S)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of the slow functions."""
    counted: Counter[str] = Counter()

    def count(owner: t.Any, name: str) -> None:
        real = getattr(owner, name)

        def counting(*args: t.Any, **how: t.Any) -> t.Any:
            counted[name] += 1
            return real(*args, **how)

        monkeypatch.setattr(owner, name, counting)

    count(PodDemand, "shortage_on")
    count(EvictionFilter, "evictable_pods")
    count(EvictionFilter, "eviction_violation")
    count(NodeInfo, "without_pods")
    count(FreeableCapacity, "_capacity_of")
    return counted


def test_for_pods_that_are_too_large_for_every_node_no_single_pod_is_checked(calls: Counter[str]) -> None:
    hopeless = [pending(f"{2000 + number}m", name=f"hopeless-{number}") for number in range(PODS)]
    planned = planner(*hopeless)
    judged = [planned.plan_rescue(pod, RescueContext()) for pod in hopeless]
    assert {plan.status for plan in judged} == {IMPOSSIBLE}
    assert {blocker.nodes for plan in judged for blocker in plan.blockers} == {NODES}
    assert set(calls) == {"_capacity_of"}


def test_where_the_pods_that_may_go_free_too_little_no_set_of_them_is_sought(calls: Counter[str]) -> None:
    nodes, others = crowd()
    agents = [running(name, "50m", kind="DaemonSet") for name in (one.name for one in nodes)]
    important = [running(name, "10m", priority=CRITICAL + 1) for name in (one.name for one in nodes)]
    hopeless = pending("950m")
    snapshot = snapshot_of(nodes=nodes, pods=[*others, *agents, *important, hopeless])
    plan = RescuePlanner(snapshot, RescueOptions(), now_s=NOW_S).plan_rescue(hopeless, RescueContext())
    assert plan.status == IMPOSSIBLE
    assert {blocker.reason.code for blocker in plan.blockers} == {"insufficient_cpu", "daemon_set", "higher_priority"}
    assert calls["evictable_pods"] == NODES, "only the explanation asks who may go"


def test_pods_that_differ_in_their_requests_share_what_the_static_rules_say(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    prepare = taint_toleration.pre_filter

    def counting(pod: Pod) -> t.Any:
        check = prepare(pod)

        def checked(of: Node) -> t.Any:
            asked[of.name] += 1
            return check(of) if check is not None else ()

        return checked

    rules = "ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.static_filters.STATIC_FILTERS"
    monkeypatch.setattr(rules, {"Counting": counting})
    hopeless = [pending(f"{2000 + number}m", name=f"hopeless-{number}") for number in range(PODS)]
    planned = planner(*hopeless)
    for pod in hopeless:
        assert planned.plan_rescue(pod, RescueContext()).status == IMPOSSIBLE
    assert asked == {f"n-{number}": 1 for number in range(NODES)}


def test_a_possible_pod_among_hopeless_ones_gets_its_plan() -> None:
    hopeless = [pending(f"{2000 + number}m", name=f"hopeless-{number}") for number in range(PODS)]
    possible = pending("500m", name="possible")
    planned = planner(*hopeless, possible)
    assert [planned.plan_rescue(pod, RescueContext()).status for pod in hopeless] == [IMPOSSIBLE] * PODS
    plan = planned.plan_rescue(possible, RescueContext())
    assert plan.status == PLANNED
    assert plan.choice is not None
    assert len(plan.choice.victims) == 1


def test_freeable_capacity_counts_pods_up_to_the_priority_and_no_others() -> None:
    pods = [
        running("n", "100m", priority=0),
        running("n", "200m", priority=10, requests={"example.com/gpu": "1"}),
        running("n", "300m", priority=20),
        running("n", "50m", kind="DaemonSet"),
    ]
    for priority, most in {-1: 350, 0: 350, 1: 450, 10: 450, 15: 650, 21: 950}.items():
        assert most_cpu(pods, priority=priority) == most
    assert not reach_of(pods, priority=21).nodes_with_capacity([("example.com/gpu", 1)]), "what the node does not offer is never free"


def test_freeable_capacity_counts_no_more_pods_than_budgets_allow_together() -> None:
    labels = {"app": "web"}
    pods = [running("n", f"{number}00m", labels=labels) for number in (1, 2, 3)]
    for allowed, most in enumerate((400, 700, 900, 1000)):
        assert most_cpu(pods, budgets=[budget("web", labels, allowed=allowed)]) == most


def test_freeable_capacity_counts_no_more_pods_than_the_options_allow_together() -> None:
    pods = [running("n", f"{number}00m") for number in (1, 2, 3)]
    for bound, most in ((1, 700), (2, 900), (3, 1000), (None, 1000)):
        assert most_cpu(pods, options=RescueOptions(max_victims=bound)) == most


def test_freeable_capacity_follows_the_disruptions_that_a_budget_allows() -> None:
    labels = {"app": "web"}
    pods, reach = [running("n", "900m", labels=labels)], FreeableCapacity(preemptor_of(pending(), RescueOptions()), RescueOptions())
    for allowed, most in ((0, 100), (1, 1000), (0, 100)):
        assert most_cpu(pods, budgets=[budget("web", labels, allowed=allowed)], reach=reach) == most


def test_only_nodes_on_which_something_has_changed_are_worked_out_again(calls: Counter[str]) -> None:
    nodes, others = crowd()
    hopeless = pending("1500m")
    before = RescuePlanner(snapshot_of(nodes=nodes, pods=[*others, hopeless]), RescueOptions(), now_s=NOW_S)
    assert before.plan_rescue(hopeless, RescueContext(), explain=False).status == IMPOSSIBLE
    assert calls["_capacity_of"] == NODES
    after = RescuePlanner(snapshot_of(nodes=nodes, pods=[*others[1:], hopeless]), RescueOptions(), now_s=NOW_S, earlier=before)
    assert after.plan_rescue(hopeless, RescueContext(), explain=False).status == IMPOSSIBLE
    assert calls["_capacity_of"] == NODES + 1


SORTS = {
    "budgets": {"labels": {"app": "kept"}},
    "options": {"owner": ""},
    "priorities": {"priority": CRITICAL},
    "never": {"kind": "DaemonSet"},
}


@pytest.mark.parametrize("sort", SORTS)
def test_no_set_of_victims_is_searched_if_only_protected_pods_have_the_capacity(calls: Counter[str], sort: str) -> None:
    names = [f"n-{number}" for number in range(NODES)]
    pods = [running(name, "800m", **SORTS[sort]) for name in names] + [running(name, "100m") for name in names]
    hopeless = [pending(f"{300 + number}m", name=f"hopeless-{number}") for number in range(PODS)]
    nodes = [node(name, allocatable=ROOM) for name in names]
    snapshot = snapshot_of(nodes=nodes, pods=[*pods, *hopeless], budgets=[budget("kept", {"app": "kept"}, allowed=0)])
    planned = RescuePlanner(snapshot, RescueOptions(), now_s=NOW_S)
    assert {planned.plan_rescue(pod, RescueContext(), explain=False).status for pod in hopeless} == {IMPOSSIBLE}
    assert not calls["evictable_pods"] and calls["_capacity_of"] == NODES, "the pods share what is known of the nodes"


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "zone"])
@pytest.mark.parametrize("rule", ["near nobody", "apart from all", "a host port"])
def test_for_pods_that_rules_about_other_pods_keep_off_no_set_of_victims_is_sought(calls: Counter[str], key: str, rule: str) -> None:
    names = [f"n-{number}" for number in range(NODES)]
    nodes = [node(name, labels={"kubernetes.io/hostname": name, "zone": name[-1]}, allocatable=ROOM) for name in names]
    ports = [{"containerPort": 80, "hostPort": 80}]
    agents = [running(name, "100m", kind="DaemonSet", labels={"app": "agent"}, namespace="kube-system", ports=ports) for name in names]
    more: dict[str, t.Any] = {
        "near nobody": {"affinity": pod_affinity(affinity_term({"app": "nobody"}, key))},
        "apart from all": {"affinity": anti_affinity({"app": "agent"}, key)},
        "a host port": {"ports": ports},
    }[rule]
    hopeless = [pending(f"{500 + number}m", name=f"hopeless-{number}", **more) for number in range(PODS)]
    web = [running(name, "850m") for name in names]
    planned = RescuePlanner(snapshot_of(nodes=nodes, pods=[*agents, *web, *hopeless]), RescueOptions(), now_s=NOW_S)
    assert {planned.plan_rescue(pod, RescueContext(), explain=False).status for pod in hopeless} == {IMPOSSIBLE}
    assert not calls["evictable_pods"] and not calls["without_pods"]


def reach_of(pods: list[Pod], *, priority: int = CRITICAL, **how: t.Any) -> FreeableCapacity:
    options = how.get("options", RescueOptions())
    snapshot = snapshot_of(nodes=[node("n", allocatable=ROOM)], pods=pods, budgets=how.get("budgets", ()))
    reach: FreeableCapacity = how.get("reach") or FreeableCapacity(preemptor_of(pending(priority=priority), options), options)
    reach.update(ClusterState.of(snapshot), PdbLedger(snapshot))
    return reach


def most_cpu(pods: list[Pod], **how: t.Any) -> int:
    """The most cpu that may become free on the one node."""
    reach = reach_of(pods, **how)
    return max(amount for amount in range(0, 1001, 50) if reach.nodes_with_capacity([("cpu", amount)]))
