# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A rescue leaves a node to another critical pod that fits there without evictions; a plan and a run agree about that."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import EXPECTED_NODE, RescueTask

from tests.unit.support.fakes import CRITICAL, Scene, end_settling, end_waits, node, pod, scene


def two_pods(**options: t.Any) -> Scene:
    """The terminating pod frees capacity for the pod a. With the eviction of an equal pod, the capacity would be enough for the pod b."""
    leaving, sibling = pod("leaving", "300m", on="n"), pod("sibling", "300m", on="n", priority=2_000_000_000)
    leaving["metadata"]["deletionTimestamp"] = format_time(time.time() + 2)
    kept = pod("kept", "400m", on="n", priority=2_000_001_000)
    return scene([node("n")], [leaving, sibling, kept, pod("a", "300m"), pod("b", "400m")], allow_equal_priority=True, **options)


def task_of(on: Scene, name: str) -> RescueTask:
    return on.controller.tasks[f"u-{name}"]


def result_of(on: Scene, name: str) -> tuple[str, str]:
    """The status and the reason's code."""
    task = task_of(on, name)
    assert task.reason is not None
    return task.status, task.reason.code


def reconcile(on: Scene) -> None:
    """Plan each pod that waits again."""
    for task in on.controller.tasks.values():
        task.plan_at_s = 0.0
    on.controller.reconcile()


def bind(on: Scene, name: str) -> None:
    """The scheduler binds the pod to the node after the end of the terminating pod."""
    on.cluster.pods.pop("leaving", None)
    on.cluster.pods[name]["spec"]["nodeName"] = "n"
    on.cluster.touch(on.cluster.pods[name])


@pytest.mark.parametrize("dry_run", [False, True])
def test_plan_and_run_wait_until_the_other_pod_is_bound(dry_run: bool) -> None:
    on = two_pods(dry_run=dry_run)
    for _call in range(2):
        reconcile(on)
        assert result_of(on, "a") == ("waiting", "capacity_becoming_free")
        assert result_of(on, "b") == ("waiting", "another_pod_first")
    bind(on, "a")
    reconcile(on)
    assert result_of(on, "b") == ("impossible", "no_node")
    assert on.cluster.evicted == [] and on.cluster.held == []


def test_pod_that_is_planned_again_alone_still_waits() -> None:
    """The plan of the other pod is of an earlier step."""
    on = two_pods()
    reconcile(on)
    task_of(on, "b").plan_at_s = 0.0
    on.controller.reconcile()
    assert result_of(on, "b") == ("waiting", "another_pod_first")


def test_pod_that_the_scheduler_never_binds_delays_no_rescue_without_end() -> None:
    on = two_pods()
    reconcile(on)
    del on.cluster.pods["leaving"]
    end_waits(task_of(on, "a"))
    reconcile(on)
    assert result_of(on, "a") == ("waiting", "fits") and on.cluster.evicted == ["sibling"]


def test_one_expected_pod_after_another_delays_a_rescue_only_for_a_time() -> None:
    on = two_pods()
    reconcile(on)
    end_waits(task_of(on, "b"))
    del on.cluster.pods["leaving"], on.cluster.pods["a"]
    on.cluster.pods["later"] = pod("later", "300m")
    on.cluster.touch(on.cluster.pods["later"])
    on.controller.reconcile()
    reconcile(on)
    assert EXPECTED_NODE in task_of(on, "later").waits and on.cluster.evicted == ["sibling"]


@pytest.mark.parametrize("change", ["bound", "deleted"])
def test_pod_that_is_bound_or_deleted_is_not_expected_any_more(change: str) -> None:
    on = two_pods()
    reconcile(on)
    now_at_s, first = time.monotonic(), task_of(on, "a")
    assert first.is_expected(now_at_s)
    if change == "bound":
        bind(on, "a")
    else:
        del on.cluster.pods["a"]
    on.controller.observe()
    assert not first.is_expected(now_at_s)


def test_message_has_the_reason_why_a_node_was_given_up_before_any_eviction() -> None:
    """The scheduler binds the other pod at the moment at which the node is held."""
    on = two_pods()
    del on.cluster.pods["a"]
    on.cluster.refuse_patch = lambda _name, _release: bind_late(on)
    reconcile(on)
    assert on.cluster.evicted == [] and on.cluster.held == []
    reason = task_of(on, "b").reason
    assert reason is not None and "; node n was given up: " in reason.text


def test_pod_keeps_its_node_during_its_settle_time() -> None:
    """The pod with the lower priority has waited for longer. Both would get the capacity of the same pod."""
    low, high = pod("low", "600m", priority=CRITICAL), pod("high", "600m", priority=CRITICAL + 10)
    on = scene([node("n")], [pod("v", "900m", on="n"), low, high], settle_time_s=30)
    reconcile(on)
    waited = task_of(on, "low")
    end_settling(waited)
    reconcile(on)
    assert result_of(on, "high") == ("waiting", "settling")
    assert result_of(on, "low") == ("waiting", "another_pod_first")
    assert on.cluster.evicted == [] and on.cluster.held == []
    end_waits(task_of(on, "high"))
    reconcile(on)
    end_settling(waited)  # its plan became possible
    reconcile(on)
    assert on.cluster.evicted == ["v"] and result_of(on, "high") == ("waiting", "settling")


def bind_late(on: Scene) -> None:
    """Another pod is bound to the node, whose priority is higher."""
    on.cluster.pods.pop("leaving", None)
    on.cluster.pods["late"] = pod("late", "300m", on="n", priority=2_000_001_000)
