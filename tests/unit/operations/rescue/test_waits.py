# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each wait of a rescue has a maximum that further reasons to wait do not prolong, and each exclusion ends."""

from __future__ import annotations

import math

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import EXPECTED_NODE, QUEUED, RescueTask
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.nomination_alone import OTHERS_TERMINATING
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import WAITING, RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan_reasons import (
    ANOTHER_POD_FIRST,
    CAPACITY_BECOMING_FREE,
    NO_NODE,
)

LOST = Reason("hold_lost", "the taint was removed")


def plan_of(task: RescueTask, code: str, *, next_node: str = "") -> RescuePlan:
    """Return a plan that waits for this reason."""
    return RescuePlan(task.pod, WAITING, Reason(code, ""), next_node=next_node)


@pytest.fixture
def task() -> RescueTask:
    return RescueTask(Pod(), 0.0, 0.0, max_wait_s=10.0)


@pytest.mark.parametrize("code", [CAPACITY_BECOMING_FREE, OTHERS_TERMINATING, ANOTHER_POD_FIRST, QUEUED])
def test_the_first_start_of_a_wait_counts(task: RescueTask, code: str) -> None:
    for now_at_s in (100.0, 105.0):
        task.set_plan(plan_of(task, code), now_at_s)
    assert task.waits == {code: 100.0}
    assert (task.has_waited(code, 110.0), task.has_waited(code, 110.1)) == (False, True)


def test_a_reason_that_is_no_wait_begins_none(task: RescueTask) -> None:
    task.set_plan(plan_of(task, NO_NODE), 100.0)
    assert task.waits == {} and not task.has_waited(NO_NODE, 1e9)


def test_the_place_in_the_queue_is_kept_until_the_wait_for_other_rescues_ends(task: RescueTask) -> None:
    task.set_plan(plan_of(task, QUEUED), 100.0)
    task.set_plan(plan_of(task, OTHERS_TERMINATING), 108.0)
    assert task.waits[QUEUED] == 100.0
    task.set_plan(plan_of(task, "fits"), 109.0)
    assert QUEUED not in task.waits


def test_a_pod_is_expected_since_the_first_plan_with_a_node(task: RescueTask) -> None:
    for now_at_s in (100.0, 101.0):
        task.set_plan(plan_of(task, "fits", next_node="n"), now_at_s)
    assert task.waits == {EXPECTED_NODE: 100.0} and task.is_expected(110.0) and not task.is_expected(110.1)


def test_a_restart_never_ends_the_settle_time_earlier() -> None:
    task = RescueTask(Pod(), 0.0, 50.0)
    task.restart_settling(10.0, 2.0)
    assert task.settles_at_s == 50.0


def test_an_exclusion_ends_at_its_time() -> None:
    task = RescueTask(Pod(), 0.0, 0.0)
    task.exclude_node("a", 10.0, LOST)
    task.excluded_victims["uid"] = 20.0
    assert [task.context(now_at_s).excluded_nodes for now_at_s in (9.9, 10.0)] == [{"a"}, frozenset()]
    assert [task.context(now_at_s).excluded_victims for now_at_s in (19.9, 20.0)] == [{"uid"}, frozenset()]


def test_a_node_that_was_cleared_without_effect_is_excluded_for_ever() -> None:
    task = RescueTask(Pod(), 0.0, 0.0)
    task.excluded_nodes["a"] = math.inf
    assert task.context(1e12).excluded_nodes == {"a"}


def test_the_text_names_the_last_node_only_while_it_is_excluded() -> None:
    task = RescueTask(Pod(), 0.0, 0.0)
    task.exclude_node("a", 10.0, LOST)
    task.exclude_node("b", 5.0, LOST)
    assert task.context(1.0).note == "; node b was given up: the taint was removed"
    assert task.context(7.0).note == ""
