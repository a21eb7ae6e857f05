# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of a run in check mode is current for all pods, although their plans become complete at different times."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import KubeError, OverloadedError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import RescueTask

from tests.unit.support.fakes import CRITICAL, Json, Notes, Scene, node, pod, run_on, scene


class PlanNotes(Notes):
    """An observer that records the planned pods."""

    def __init__(self) -> None:
        super().__init__()
        self.planned: list[str] = []

    def on_planned(self, task: RescueTask, seconds: float) -> None:
        self.planned.append(task.pod.metadata.name)


def only_on(name: str, item: Json) -> Json:
    """The pod, for this node only."""
    item["spec"]["nodeSelector"] = {"kubernetes.io/hostname": name}
    return item


def two_pods() -> Scene:
    """No eviction helps the pod ``hopeless``: the only pod of its node has a higher priority. The pod ``slow`` needs one eviction."""
    pods = [pod("v", "900m", on="n"), pod("high", "900m", on="m", priority=CRITICAL + 10)]
    waiting = [only_on("n", pod("slow", "500m")), only_on("m", pod("hopeless", "500m", priority=CRITICAL + 1))]
    return scene([node("n"), node("m")], [*pods, *waiting], dry_run=True, notes=PlanNotes())


def statuses(on: Scene) -> dict[str, str]:
    return {task.pod.metadata.name: task.status for task in on.controller.tasks.values()}


def planned(on: Scene) -> list[str]:
    assert isinstance(on.notes, PlanNotes)
    return on.notes.planned


def test_impossible_plan_is_made_again_when_the_last_plan_is_complete() -> None:
    """The dry run of an eviction has an answer only in a later pass. Meanwhile, the pod with the higher priority gets a low one."""
    on = two_pods()
    refusals: list[KubeError] = [OverloadedError("try again", status=429)]

    def answer(_name: str, _dry_run: bool) -> KubeError | None:
        if refusals:
            return refusals.pop()
        on.cluster.pods["high"]["spec"]["priority"] = 0
        return None

    on.cluster.refuse_eviction = answer
    run_on(on, dry_run=True, wait_timeout_s=30)
    assert statuses(on) == {"slow": "planned", "hopeless": "planned"}
    assert on.cluster.evicted == [] and on.cluster.held == []


def test_impossible_plan_that_is_still_impossible_is_made_once_more_with_its_reasons() -> None:
    on = two_pods()
    refusals: list[KubeError] = [OverloadedError("try again", status=429)]
    on.cluster.refuse_eviction = lambda _name, _dry_run: refusals.pop() if refusals else None
    run_on(on, dry_run=True, wait_timeout_s=30)
    assert statuses(on) == {"slow": "planned", "hopeless": "impossible"}
    assert planned(on).count("hopeless") == 4, "a plan and its reasons, two times"
    (hopeless,) = (task for task in on.controller.tasks.values() if task.status == "impossible")
    assert hopeless.explained_plan is not None and not hopeless.needs_explanation


def test_a_dry_run_that_continues_keeps_its_plans_for_some_time() -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")], once=False, dry_run=True, notes=PlanNotes())
    for _pass in range(3):
        on.controller.reconcile()
    assert planned(on) == ["dns"]


def test_plans_of_one_pass_are_not_made_again() -> None:
    on = two_pods()
    run_on(on, dry_run=True)
    assert planned(on).count("hopeless") == 2, "a plan and its reasons"
    assert statuses(on) == {"slow": "planned", "hopeless": "impossible"}
