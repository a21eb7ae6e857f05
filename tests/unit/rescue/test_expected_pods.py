# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""No eviction is planned on a node that another critical pod gets first: without evictions, or because its priority is higher."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescueContext, RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import CRITICAL, NOW, TOLERATION, named_pod, small_node


def pending(name: str, cpu: str, priority: int = CRITICAL) -> Pod:
    return named_pod(name, cpu, priority=priority, tolerations=[TOLERATION])


def plans(first: Pod, second: Pod, pods: t.Sequence[Pod], nodes: t.Sequence[str] = ("n",)) -> tuple[RescuePlan, RescuePlan]:
    """The plans of two pods on one snapshot. The first one is expected to get its node."""
    snapshot = snapshot_of(nodes=[small_node(name) for name in nodes], pods=[*pods, first, second])
    planner = RescuePlanner(snapshot, RescueOptions(allow_equal_priority=True), now_s=NOW)
    one = planner.plan_rescue(first, RescueContext())
    planner.expect(one)
    return one, planner.plan_rescue(second, RescueContext())


@pytest.mark.parametrize(("ends_in_s", "code"), [(2.0, "capacity_becoming_free"), (None, "fits")])
def test_capacity_that_one_pod_gets_without_evictions_is_not_used_for_another_one(ends_in_s: float | None, code: str) -> None:
    """Without the first pod, the eviction of the victim would be enough for the second one."""
    leaving = [] if ends_in_s is None else [named_pod("leaving", "300m", on="n", ends_in_s=ends_in_s)]
    first, second = plans(pending("first", "300m"), pending("second", "600m"), [*leaving, named_pod("victim", "700m", on="n")])
    assert (first.reason.code, first.expected_node) == (code, "n")
    assert (second.status, second.reason.code) == ("waiting", "another_pod_first")
    assert "pod kube-system/first " in second.reason.text and " node n " in second.reason.text


def test_node_on_which_no_other_pod_is_expected_is_cleared_immediately() -> None:
    pods = [named_pod("cheap", "700m", on="n", priority=-5), named_pod("dear", "900m", on="other")]
    second = plans(pending("first", "300m"), pending("second", "600m"), pods, ("n", "other"))[1]
    assert second.choice is not None and second.choice.node == "other"


def test_pod_with_a_higher_priority_does_not_wait() -> None:
    second = plans(pending("first", "300m"), pending("second", "600m", CRITICAL + 1000), [named_pod("victim", "700m", on="n")])[1]
    assert second.status == "planned"


@pytest.mark.parametrize(("difference", "status"), [(1, "waiting"), (0, "planned")])
def test_pod_waits_for_one_with_a_higher_priority_whose_evictions_begin_later(difference: int, status: str) -> None:
    """Without a toleration, the first pod waits until the terminating pod has ended. With the same priority it does not evict the other."""
    first = named_pod("first", "600m", priority=CRITICAL + difference)
    pods = [named_pod("brief", "100m", on="far", ends_in_s=2.0), named_pod("full", "900m", on="far", priority=CRITICAL + 2)]
    first_plan, second = plans(first, pending("second", "600m"), [*pods, named_pod("victim", "700m", on="n")], ("n", "far"))
    assert (first_plan.reason.code, first_plan.expected_node, first_plan.next_node) == ("others_terminating", "", "n")
    assert second.status == status
    if difference:
        assert second.reason.code == "another_pod_first"
        assert second.reason.text == "pod kube-system/first is rescued first on node n: its priority is higher"


def test_pod_that_fits_too_is_left_to_the_scheduler() -> None:
    first, second = plans(pending("first", "300m"), pending("second", "200m"), [named_pod("web", "700m", on="n")])
    assert (first.reason.code, second.reason.code, second.expected_node) == ("fits", "fits", "n")


def test_pod_that_no_eviction_helps_has_the_reasons_of_all_nodes() -> None:
    second = plans(pending("first", "300m"), pending("second", "600m"), [named_pod("web", "700m", on="n", priority=CRITICAL + 1)])[1]
    assert second.status == "impossible" and {blocker.reason.code for blocker in second.blockers} >= {"higher_priority"}


def test_pod_does_not_wait_for_itself() -> None:
    """It was expected after the end of a terminating pod, which is not awaited any longer."""
    first = pending("first", "300m")
    pods = [named_pod("leaving", "300m", on="n", ends_in_s=2.0), named_pod("victim", "700m", on="n")]
    planner = RescuePlanner(snapshot_of(nodes=[small_node("n")], pods=[*pods, first]), RescueOptions(), now_s=NOW)
    planner.expect(planner.plan_rescue(first, RescueContext()))
    assert planner.plan_rescue(first, RescueContext(awaits_terminating=False)).status == "planned"


def test_plan_with_evictions_has_no_expected_node() -> None:
    first, second = plans(pending("first", "500m"), pending("second", "200m"), [named_pod("web", "700m", on="n")])
    assert (first.status, first.expected_node) == ("planned", "") and second.reason.code == "fits"
