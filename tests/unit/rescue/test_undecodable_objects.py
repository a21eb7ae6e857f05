# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""No rescue is planned on what an undecodable object leaves unknown, and none of what it may protect is evicted."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import resources
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import Undecodable, undecodable_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import IMPOSSIBLE, PLANNED, RescueContext, RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import CRITICAL, NOW, TOLERATION, named_pod, named_pod_json, small_node

Json = dict[str, t.Any]


def odd_pod(name: str, on: str) -> Pod:
    value = named_pod_json(name, "100m", on=on, namespace="app")
    value["spec"]["containers"] = 5
    found: Pod = resources.PODS.read(json.dumps(value).encode())
    return found


def odd(resource: resources.Resource, name: str, *, namespace: str = "app", spec: t.Any = 5) -> Undecodable:
    found = undecodable_of(
        resource.read(json.dumps({"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": 5}).encode())
    )
    assert found is not None
    return found


DNS = named_pod("dns", "500m", priority=CRITICAL, tolerations=[TOLERATION])


def judge(pods: t.Sequence[Pod], *undecodable: Undecodable, nodes: t.Sequence[str] = ("a",), critical: Pod = DNS) -> RescuePlan:
    found = [one for one in map(undecodable_of, pods) if one is not None]
    snapshot = snapshot_of(nodes=map(small_node, nodes), pods=[*pods, critical], undecodable=[*undecodable, *found])
    return RescuePlanner(snapshot, RescueOptions(), now_s=NOW).plan_rescue(critical, RescueContext())


def victims(plan: RescuePlan) -> list[str]:
    return [victim.pod.metadata.name for victim in plan.choice.victims] if plan.choice is not None else []


def test_pod_is_planned_where_everything_can_be_decoded() -> None:
    """Otherwise the other tests of this file would prove nothing."""
    assert judge([named_pod("web", "900m", on="a")]).status == PLANNED


def test_no_rescue_is_planned_on_a_node_with_an_undecodable_pod() -> None:
    plan = judge([named_pod("web", "900m", on="a"), odd_pod("odd", on="a")])
    assert plan.status == IMPOSSIBLE and "Pod app/odd cannot be decoded" in plan.reason.text
    assert [blocker.reason.code for blocker in plan.blockers] == ["undecodable"]


def test_rescue_goes_to_the_node_without_an_undecodable_pod() -> None:
    pods = [named_pod("web", "900m", on="a"), odd_pod("odd", on="a"), named_pod("db", "900m", on="b", priority=100)]
    plan = judge(pods, nodes=("a", "b"))
    assert plan.choice is not None and (plan.choice.node, victims(plan)) == ("b", ["db"])


def test_capacity_beside_an_undecodable_pod_does_not_count_as_free() -> None:
    plan = judge([odd_pod("odd", on="a")])
    assert plan.status == IMPOSSIBLE


def test_undecodable_pod_without_a_node_hinders_no_rescue() -> None:
    assert victims(judge([named_pod("web", "900m", on="a"), odd_pod("odd", on="")])) == ["web"]


def test_critical_pod_that_cannot_be_decoded_is_impossible_to_judge() -> None:
    plan = judge([named_pod("web", "900m", on="a")], critical=odd_pod("dns", on=""))
    assert (plan.status, plan.reason.code) == (IMPOSSIBLE, "undecodable")


@pytest.mark.parametrize(
    ("budget", "protects"),
    [
        (odd(resources.BUDGETS, "b"), True),
        (odd(resources.BUDGETS, "b", spec={"selector": {"matchLabels": {"app": "web"}}}), True),
        (odd(resources.BUDGETS, "b", spec={"selector": {"matchLabels": {"app": "db"}}}), False),
        (odd(resources.BUDGETS, "b", namespace="other"), False),
    ],
    ids=["unreadable selector", "selects", "selects others", "other namespace"],
)
def test_undecodable_budget_protects_every_pod_that_it_may_select(budget: Undecodable, protects: bool) -> None:
    plan = judge([named_pod("web", "900m", on="a", labels={"app": "web"})], budget)
    assert (plan.status == IMPOSSIBLE) == protects
    if protects:
        assert "undecodable" in {blocker.reason.code for blocker in plan.blockers}


def test_undecodable_node_is_no_candidate() -> None:
    plan = judge([named_pod("web", "900m", on="a")], odd(resources.NODES, "a", namespace=""), nodes=())
    assert plan.status == IMPOSSIBLE


def test_nodes_that_cannot_be_decoded_are_counted_among_the_blockers() -> None:
    high = named_pod("high", "800m", on="n", priority=2_100_000_000)
    snapshot = snapshot_of(nodes=[small_node("n")], pods=[high, DNS], undecodable=[odd(resources.NODES, "m", namespace="")])
    plan = RescuePlanner(snapshot, RescueOptions(), now_s=NOW).plan_rescue(DNS, RescueContext())
    assert sum(blocker.nodes for blocker in plan.blockers if blocker.reason.text == "it cannot be decoded") == 1


def test_pods_under_several_undecodable_budgets_are_told_without_an_error() -> None:
    budgets = [odd(resources.BUDGETS, "a"), odd(resources.BUDGETS, "b", namespace="other")]
    pods = [named_pod("x", "400m", on="n"), named_pod("y", "400m", on="n", namespace="other")]
    snapshot = snapshot_of(nodes=[small_node("n")], pods=[*pods, DNS], undecodable=budgets)
    plan = RescuePlanner(snapshot, RescueOptions(), now_s=NOW).plan_rescue(DNS, RescueContext())
    (blocker,) = [one for one in plan.blockers if "pods there" in one.reason.text]
    assert "app/a" in blocker.reason.text and "other/b" in blocker.reason.text
