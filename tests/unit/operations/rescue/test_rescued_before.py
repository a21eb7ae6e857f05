# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A critical pod does not take the place of another one of the same priority that was rescued a short time ago."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.controller import RescueController
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import LASTS_S

from tests.unit.support.fakes import CRITICAL, Scene, again, key_of, node, pod, scene

EQUAL: dict[str, t.Any] = {"allow_equal_priority": True, "hold": "none"}
"""With ``hold: none``, no taint is the reason to keep the rescued pod."""
DNS = key_of(pod("dns", "500m"))


def one_place(*, once: bool = True, priority: int = CRITICAL) -> Scene:
    """One node with capacity for one of the critical pods dns and late. The pod dns was rescued."""
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")], once=once, **EQUAL)
    on.controller.reconcile()
    assert on.cluster.evicted == ["v"]
    del on.cluster.pods["v"]
    bind(on, "dns")
    add(on, "late", priority)
    on.cluster.evicted.clear()
    return on


def bind(on: Scene, name: str) -> None:
    """The scheduler binds the pod to the node."""
    on.cluster.pods[name]["spec"]["nodeName"] = "n"
    on.cluster.pods[name]["status"] = {"phase": "Running", "containerStatuses": [{"name": "main"}]}
    on.cluster.touch(on.cluster.pods[name])


def add(on: Scene, name: str, priority: int = CRITICAL) -> None:
    """Another critical pod is unschedulable."""
    on.cluster.pods[name] = pod(name, "600m", priority=priority)
    on.cluster.touch(on.cluster.pods[name])


def rescued_ago(on: Scene, seconds: float) -> None:
    """The pod dns was bound so many seconds ago, by the ConfigMap."""
    entry = on.attempts.kept[DNS]
    on.attempts.kept[DNS] = replace(entry, rescued={"u-dns": format_time(time.time() - seconds)})


def blockers(controller: RescueController) -> set[str]:
    """The codes of the blockers of the pod late."""
    plan = controller.tasks["u-late"].last_plan
    return {blocker.reason.code for blocker in plan.blockers} if plan is not None else set()


@pytest.mark.parametrize("once", [True, False])
def test_the_program_that_has_rescued_a_pod_does_not_evict_it_for_another_one(once: bool) -> None:
    """``once``: as a run of the module, otherwise as the daemon, which forgets finished tasks."""
    on = one_place(once=once)
    for _call in range(3):
        on.controller.reconcile()
        on.controller.tasks["u-late"].plan_at_s = 0.0
    assert on.cluster.evicted == [] and on.controller.tasks["u-late"].status == "impossible"
    assert "rescued_before" in blockers(on.controller)
    assert ("u-dns" in on.controller.tasks) == once


def test_pod_that_was_bound_in_this_step_is_kept_before_its_task_has_ended() -> None:
    """A plan of the same step may come before the end of the task."""
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")], dry_run=True, **EQUAL)
    on.controller.observe()
    del on.cluster.pods["v"]
    bind(on, "dns")
    add(on, "late")
    assert on.controller.observe().planner.rescued == {"u-dns"}


def test_daemon_knows_its_last_rescue_without_another_read_of_the_records() -> None:
    on = one_place(once=False)
    on.controller.reconcile()
    on.controller.reconcile()
    assert "u-dns" not in on.controller.tasks
    assert on.controller.observe().planner.rescued == {"u-dns"}


def test_pod_of_a_higher_priority_still_evicts_a_rescued_one() -> None:
    on = one_place(priority=CRITICAL + 1000)
    on.controller.reconcile()
    assert on.cluster.evicted == ["dns"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_another_program_knows_the_rescued_pod_from_the_records(dry_run: bool) -> None:
    on = one_place()
    on.controller.reconcile()
    other = again(on, dry_run=dry_run, **EQUAL)
    other.reconcile()
    assert on.cluster.evicted == [] and other.tasks["u-late"].status == "impossible"
    assert "rescued_before" in blockers(other)


def test_rescued_pod_may_be_evicted_after_ten_minutes() -> None:
    on = one_place()
    on.controller.reconcile()
    rescued_ago(on, LASTS_S - 30)
    other = again(on, **EQUAL)
    other.reconcile()
    assert on.cluster.evicted == [] and on.attempts.kept[DNS].rescued
    rescued_ago(on, LASTS_S + 30)
    again(on, **EQUAL).reconcile()
    assert on.cluster.evicted == ["dns"]
