# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The node and the victims that a rescue chooses."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodStatus
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import (
    CRITICAL,
    affinity_term,
    anti_affinity,
    budget,
    claim,
    mounts,
    node,
    pending,
    pod_affinity,
    running,
    stored,
    volume,
)
from tests.unit.support.searches import blockers, exceeded, names, search, victim_search

HOST = "kubernetes.io/hostname"
HOLD_KEY = RescueOptions().hold_taint_key
DNS, WEB, DB = {"app": "dns"}, {"app": "web"}, {"app": "db"}


def small(name: str, **more: t.Any) -> Node:
    return node(
        name, labels={HOST: name, "zone": name[0], **more.pop("labels", {})}, allocatable={"cpu": "1", **more.pop("room", {})}, **more
    )


A, B = small("a-1"), small("b-1")


def test_the_vector_of_the_original() -> None:
    # Pods of 150m, 150m, 250m, 150m and 150m fill 850m of 1000m, the first and the last are critical; the pod needs 500m.
    here = [
        running("a-1", "150m", name="p1", priority=CRITICAL),
        running("a-1", "150m", name="p2"),
        running("a-1", "250m", name="p3"),
        running("a-1", "150m", name="p4"),
        running("a-1", "150m", name="p5", priority=CRITICAL),
    ]
    choice = search(pending("500m"), [A], here).best()
    assert choice is not None
    requests = sorted((victim.pod.spec.containers[0].resources.requests or {})["cpu"] for victim in choice.victims)
    assert (choice.node, requests) == ("a-1", ["150m", "250m"])


def test_a_victim_comes_with_its_priority_its_grace_and_the_reason() -> None:
    here = [running("a-1", "900m", name="web-1", priority=7), running("b-1", "900m", name="db-1", priority=8, owner="db")]
    choice = search(pending(), [A, B, small("c-1")], [*here, running("c-1", "900m", priority=9, owner="db", ready=True)]).best()
    assert choice is not None
    victim = choice.victims[0]
    assert (choice.node, victim.pod.metadata.name, victim.priority, victim.grace_period_s) == ("a-1", "web-1", 7, 5)
    assert victim.reason.code == "lower_priority" and victim.reason.text.startswith(f"its priority 7 is below {CRITICAL}; ")
    assert "no other node now; " in victim.reason.text and "0 other ready pods" in victim.reason.text


def test_the_victim_with_the_lowest_priority_comes_first() -> None:
    here = [running("a-1", "300m", name=name, priority=priority) for name, priority in (("b", 5), ("a", 9), ("c", 1))]
    assert names(search(pending("1"), [A], here).best()) == ["c", "b", "a"]


def test_a_pod_that_fits_needs_no_victims() -> None:
    choice = search(pending(), [A, B], [running("a-1", "900m")]).best()
    assert choice is not None
    assert (choice.node, choice.victims) == ("b-1", ())


def test_the_lowest_highest_priority_decides_before_the_number() -> None:
    here = [running("a-1", "900m", priority=2), *(running("b-1", "300m", name=f"b-{n}", priority=1) for n in range(3))]
    assert names(search(pending("700m"), [A, B], here).best()) == ["b-0", "b-1"]


def test_no_budget_is_overdrawn_by_several_victims() -> None:
    here = [
        *(running("a-1", "300m", name=f"web-{number}", labels=WEB) for number in range(3)),
        *(running("b-1", "300m", name=f"db-{number}", labels=DB, owner="db", priority=5) for number in range(3)),
    ]
    one = [budget("web", WEB, allowed=1)]
    assert names(search(pending("600m"), [A, B], here).best()) == ["web-0", "web-1"]
    assert names(search(pending("600m"), [A, B], here, budgets=one).best()) == ["db-0", "db-1"]
    both = [*one, budget("db", DB, allowed=1)]
    assert search(pending("600m"), [A, B], here, budgets=both).best() is None


@pytest.mark.parametrize(
    ("tolerates", "room_elsewhere", "priority", "found"),
    [
        (HOLD_KEY, False, CRITICAL, None),
        (HOLD_KEY, True, CRITICAL, ["other"]),
        (HOLD_KEY, False, CRITICAL - 1, ["other"]),
        ("another", False, CRITICAL, ["other"]),
    ],
)
def test_a_pod_whose_replacement_would_take_the_capacity_is_not_evicted(
    tolerates: str, room_elsewhere: bool, priority: int, found: list[str] | None
) -> None:
    """The taint of a hold keeps off only who does not tolerate it."""
    toleration = [{"key": tolerates, "operator": "Exists"}]
    here = [running("a-1", "900m", name="other", priority=priority, tolerations=toleration)]
    nodes = [A, small("b-1", labels={"side": "b"})] if room_elsewhere else [A]
    options = RescueOptions(allow_equal_priority=True)
    asked = search(pending("500m", nodeSelector={"zone": "a"}, tolerations=toleration), nodes, here, options=options)
    assert names(asked.best()) == found
    assert found or [blocker.reason.code for blocker in blockers(asked)] == ["insufficient_cpu", "would_return"]


def test_the_pod_that_has_the_claim_for_one_pod_leaves_it_to_the_other() -> None:
    single = claim(accessModes=["ReadWriteOncePod"], to="v")
    user = running("a-1", "300m", name="user", namespace="default", volumes=mounts("data"))
    room = {"claims": [single], "storage": stored(volume("v"))}
    asked = pending("100m", namespace="default", volumes=mounts("data"))
    assert names(search(asked, [A], [user, running("a-1", "300m")], **room).best()) == ["user"]


def test_what_another_plan_takes_from_a_budget_is_gone() -> None:
    here = [running(name, "900m", labels=WEB) for name in ("a-1", "b-1")]
    snapshot = snapshot_of(nodes=[A, B], pods=here, budgets=[budget("web", WEB, allowed=1)])
    budgets, cluster_state = PdbLedger(snapshot), ClusterState.of(snapshot)
    first = victim_search(pending(), cluster_state, RescueOptions(), budgets=budgets).best()
    assert first is not None
    budgets.reserve(victim.pod for victim in first.victims)
    assert victim_search(pending(), cluster_state, RescueOptions(), budgets=budgets).best() is None


def test_max_victims_may_cost_one_with_a_higher_priority() -> None:
    here = [*(running("a-1", "300m", name=f"a-{number}") for number in range(3)), running("b-1", "900m", name="b", priority=9)]
    assert names(search(pending("900m"), [A, B], here).best()) == ["a-0", "a-1", "a-2"]
    assert names(search(pending("900m"), [A, B], here, options=RescueOptions(max_victims=2)).best()) == ["b"]
    assert search(pending("900m"), [A], here, options=RescueOptions(max_victims=2)).best() is None


def test_excluded_pods_and_nodes_that_are_not_asked_for_are_left_out() -> None:
    here = [running("a-1", "900m", name="one"), running("b-1", "900m", name="two", priority=3)]
    assert names(search(pending(), [A, B], here).best()) == ["one"]
    assert names(search(pending(), [A, B], here, excluded_victims=["uid-one"]).best()) == ["two"]
    assert names(search(pending(), [A, B], here).best(["b-1", "gone"])) == ["two"]
    assert search(pending(), [A, B], here, excluded_victims=["uid-one", "uid-two"]).best() is None


def test_the_deadlock_of_equal_priorities_needs_the_option() -> None:
    here = [running("a-1", "900m", name="same", priority=CRITICAL, owner="dns"), running("b-1", "900m", name="other", priority=CRITICAL)]
    assert search(pending(), [A, B], here).best() is None
    choice = search(pending(), [A, B], here, options=RescueOptions(allow_equal_priority=True)).best()
    assert choice is not None
    assert (names(choice), choice.victims[0].reason.code) == (["other"], "equal_priority")


@pytest.mark.parametrize("more", [{"taints": [{"key": "k", "effect": "NoSchedule"}]}, {"cordoned": True}, {"ready": False}])
def test_nothing_is_evicted_from_nodes_that_are_closed_anyway(more: t.Any) -> None:
    assert search(pending(), [small("a-1", **more)], [running("a-1", "900m")]).best() is None


def test_a_daemon_set_pod_has_one_node() -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b-1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}
    here = [running("a-1", "900m", name="one"), running("b-1", "900m", name="two", priority=9)]
    choice = search(pending(kind="DaemonSet", affinity=affinity), [A, B], here).best()
    assert choice is not None
    assert (choice.node, names(choice)) == ("b-1", ["two"])


def test_nothing_is_chosen_for_a_pod_that_cannot_be_judged() -> None:
    pod = pending(resourceClaims=[{"name": "device"}])
    judged = search(pod, [A], [running("a-1", "900m")])
    assert judged.best() is None
    assert [(blocker.reason.code, blocker.nodes) for blocker in blockers(judged)] == [("resource_claims", 1)]


# --- rules other than capacity --------------------------------------------------------------------------------------------------

PORT = [{"containerPort": 53, "hostPort": 53}]


@pytest.mark.parametrize(
    ("pod", "here", "expected"),
    [
        pytest.param({"ports": PORT}, {"p": {"ports": PORT, "priority": 3}, "q": {}}, ["p"], id="host port"),
        pytest.param(
            {"affinity": anti_affinity(WEB, namespaces=["app"])}, {"p": {"labels": WEB, "priority": 3}, "q": {}}, ["p"], id="anti-affinity"
        ),
        pytest.param(
            {"labels": DNS},
            {"p": {"affinity": anti_affinity(DNS, namespaces=["kube-system"]), "priority": 3}, "q": {}},
            ["p"],
            id="of the other",
        ),
        pytest.param({"requests": {"memory": "8Gi"}}, {"p": {"requests": {"memory": "1Gi"}, "priority": 3}, "q": {}}, ["p"], id="memory"),
        pytest.param(
            {"affinity": pod_affinity(affinity_term(WEB, namespaces=["app"])), "cpu": "900m"},
            {"p": {"labels": WEB}, "q": {"labels": WEB, "priority": 1}, "r": {"cpu": "600m", "priority": 2}},
            ["p", "r"],
            id="affinity to one of those that might go",
        ),
        pytest.param(
            {"affinity": pod_affinity(affinity_term(WEB, namespaces=["app"])), "cpu": "300m"},
            {"p": {"labels": WEB, "cpu": "300m"}, "q": {"cpu": "300m", "priority": 1}, "r": {"cpu": "300m", "priority": 2}},
            ["q"],
            id="affinity to the one with the lowest priority",
        ),
    ],
)
def test_every_rule_counts(pod: t.Any, here: t.Any, expected: list[str]) -> None:
    pods = [running("a-1", **({"name": name, "cpu": "100m"} | more)) for name, more in here.items()]
    assert sorted(names(search(pending(**({"cpu": "100m"} | pod)), [A], pods).best()) or []) == expected


def test_a_node_nominated_for_another_critical_pod_is_full() -> None:
    here = [running("a-1", "900m", name="one"), running("b-1", "900m", name="two", priority=3)]
    waiting = replace(pending("700m", owner="other"), status=PodStatus(phase="Pending", nominated_node_name="a-1"))
    assert names(search(pending(), [A, B], [*here, waiting]).best()) == ["two"]


def test_the_cluster_state_is_as_it_was() -> None:
    pods = [running("a-1", "450m", name="one", labels=WEB), running("a-1", "450m", name="two")]
    snapshot = snapshot_of(nodes=[A], pods=pods)
    cluster_state = ClusterState.of(snapshot)
    options = RescueOptions()
    asked = pending("600m", affinity=anti_affinity(WEB, namespaces=["app"]))
    first = victim_search(asked, cluster_state, options, budgets=PdbLedger(snapshot))
    assert first.best() == first.best() == victim_search(asked, cluster_state, options, budgets=PdbLedger(snapshot)).best()
    assert cluster_state.pods_on("a-1") == pods
    assert not cluster_state.changes


def test_what_is_kept_with_a_node_is_by_the_options_and_the_pods_of_the_time() -> None:
    here = [running("a-1", "900m", name="bare", owner="")]
    snapshot = snapshot_of(nodes=[A], pods=here)
    cluster_state = ClusterState.of(snapshot)

    def found(cluster_state: ClusterState, **options: t.Any) -> list[str] | None:
        read = cluster_state.snapshot
        return names(victim_search(pending(), cluster_state, RescueOptions(**options), budgets=PdbLedger(read)).best())

    assert found(cluster_state) is None
    assert found(cluster_state, allow_bare_pods=True) == ["bare"]
    assert found(cluster_state) is None
    same = ClusterState.of(snapshot_of(nodes=[A], pods=here), cluster_state)
    assert found(same, allow_bare_pods=True) == ["bare"]
    ending = replace(here[0], metadata=replace(here[0].metadata, deletion_timestamp="2026-02-01T00:00:00Z"))
    changed = ClusterState.of(snapshot_of(nodes=[A], pods=[ending]), same)
    assert found(changed, allow_bare_pods=True) is None
    now = same.fork()
    now.remove(here[0])
    assert found(now, allow_bare_pods=True) == []


def test_a_pod_of_another_plan_uses_its_capacity() -> None:
    here = [running("a-1", "900m", name="one"), running("b-1", "900m", name="two", priority=3)]
    snapshot = snapshot_of(nodes=[A, B], pods=here)
    cluster_state = ClusterState.of(snapshot).fork()
    cluster_state.remove(here[0])
    cluster_state.assign(pending("900m", name="before", owner="other"), "a-1")
    found = victim_search(pending(), cluster_state, RescueOptions(allow_equal_priority=True), budgets=PdbLedger(snapshot)).best()
    assert names(found) == ["two"]


# --- more pods than are searched exactly --------------------------------------------------------------------------------

CROWD = {"cpu": "10", "pods": "200"}


def crowd(number: int, **more: t.Any) -> list[Pod]:
    """Pods of 40m to 240m that fill most of 10 cpu; every fourth one is under a budget."""
    sizes = (40, 240, 90, 150, 200)
    return [
        running(
            "a-1",
            f"{sizes[index % 5]}m",
            name=f"p-{index:02}",
            owner=f"o-{index % 7}",
            priority=index % 3,
            labels=WEB if index % 4 == 0 else DB,
            **more,
        )
        for index in range(number)
    ]


@pytest.mark.parametrize(
    "extra", [{}, {"affinity": anti_affinity({"app": "none"}, namespaces=["app"])}, {"affinity": anti_affinity(WEB, namespaces=["app"])}]
)
@pytest.mark.parametrize(("number", "cpu"), [(17, "8"), (60, "4"), (69, "2"), (69, "7")])
def test_a_crowd_gives_way_no_more_than_it_must(number: int, cpu: str, extra: t.Any) -> None:
    pods = crowd(number)
    webs = sum(pod.metadata.labels == WEB for pod in pods)
    budgets = [budget("web", WEB, allowed=webs if extra.get("affinity") == anti_affinity(WEB, namespaces=["app"]) else 2)]
    judged = search(pending(cpu, **extra), [small("a-1", room=CROWD)], pods, budgets=budgets)
    choice = judged.best()
    assert choice is not None
    victims = [victim.pod for victim in choice.victims]
    ledger = PdbLedger(snapshot_of(budgets=budgets))
    assert exceeded(ledger, victims) == {}
    for kept in (None, *victims):
        others = [pod for pod in pods if pod is kept or pod not in victims]
        again = search(pending(cpu, **extra), [small("a-1", room=CROWD)], others, options=RescueOptions(max_victims=0)).best()
        assert (again is None) == (kept is not None), kept


def test_a_crowd_of_equals_gives_as_few_as_can_be() -> None:
    pods = [running("a-1", "100m", name=f"p-{index:02}", owner=f"o-{index}") for index in range(90)]
    choice = search(pending("1500m"), [small("a-1", room={"cpu": "9", "pods": "110"})], pods).best()
    assert names(choice) == [f"p-{index:02}" for index in range(15)]
