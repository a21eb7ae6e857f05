# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Many pods that no eviction helps do not delay new pods, releases or signals. Each of them is planned for again in its turn."""

from __future__ import annotations

import math
import typing as t
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import KubeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Blocker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import controller as module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import decisions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import RescueTask
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescueContext, RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan_reasons import UNEXPLAINED
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.diagnosis import Diagnosis

from tests.unit.support.fakes import CRITICAL, Json, Scene, node, pod, scene

MANY = 40
JUDGE = RescuePlanner.plan_rescue


class Judged:
    """The pods that the planner has planned for, in order; ``explained``: those for which it computed why no eviction helps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.explained: list[str] = []

        def judge(planner: RescuePlanner, of: Pod, context: RescueContext, *, explain: bool = True) -> RescuePlan:
            (self.explained if explain else self.names).append(of.metadata.name)
            return JUDGE(planner, of, context, explain=explain)

        monkeypatch.setattr(RescuePlanner, "plan_rescue", judge)

    def take(self) -> list[str]:
        """Return the names since the last call, and clear them."""
        names, self.names = self.names, []
        return names


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    return Judged(monkeypatch)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no judgement took any time, however slow this machine is."""
    monkeypatch.setattr(decisions, "PLAN_SLICE_S", math.inf)
    monkeypatch.setattr(module, "EXPLAINED_EVERY_S", math.inf)


@pytest.fixture
def slow(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every plan longer than the time after which the cluster is read again."""
    monkeypatch.setattr(decisions, "PLAN_SLICE_S", 0.0)


def hopeless(number: int, **how: t.Any) -> Json:
    """Return a pod that requests more than any node has. The requests of all these pods differ, so that no two have the same template."""
    return pod(f"hopeless-{number:03}", f"{5000 + number}m", **how)


def crowded(*more: Json, **options: t.Any) -> Scene:
    return scene([node("n")], [pod("v", "900m", on="n"), *(hopeless(number) for number in range(MANY)), *more], **options)


def due_again(on: Scene) -> None:
    """Make a new plan due for every pod that waits."""
    for task in on.controller.tasks.values():
        task.plan_at_s = 0.0


def case_of(on: Scene, name: str) -> RescueTask:
    (task,) = [task for task in on.controller.tasks.values() if task.pod.metadata.name == name]
    return task


def test_equal_templates_are_judged_once(judged: Judged) -> None:
    """This includes pods of several owners, and pods with other names of the volume of the token."""
    pods = [pod(f"h{number}", "5000m", owner=f"rs{number % 3}") for number in range(MANY)]
    for number, item in enumerate(pods):
        item["spec"]["volumes"] = [{"name": f"kube-api-access-{number}"}]
    on = scene([node("n")], [pod("v", "900m", on="n"), *pods])
    on.controller.reconcile()
    assert len(judged.take()) == 1 and len(judged.explained) == 1
    assert {task.status for task in on.controller.tasks.values()} == {"impossible"}
    for task in on.controller.tasks.values():
        assert task.last_plan is not None and task.last_plan.pod is task.pod


@pytest.mark.parametrize(
    "different",
    [
        {"spec": {"nodeSelector": {"a": "b"}}},
        {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}},
        {"spec": {"priority": CRITICAL + 1}},
        {"spec": {"schedulerName": "another"}},
        {"status": {"nominatedNodeName": "n"}},
        {"metadata": {"labels": {"app": "x"}}},
        {"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "o", "uid": "o-v", "controller": True}]}},
    ],
)
def test_a_pod_that_differs_is_judged_by_itself(judged: Judged, different: dict[str, Json]) -> None:
    """The last one has the controller of the pod that is on the node, which is no victim for it."""
    other = pod("other", "5000m", owner="rs")
    for part, values in different.items():
        other[part].update(values)
    running = pod("v", "900m", on="n")
    running["metadata"]["namespace"] = other["metadata"]["namespace"]
    on = scene([node("n")], [running, pod("one", "5000m", owner="rs"), other])
    on.controller.reconcile()
    assert {"one", "other"} <= set(judged.take())


def test_what_was_refused_for_one_pod_is_not_taken_for_another(judged: Judged) -> None:
    on = scene([node("n")], [pod("one", "5000m", owner="rs"), pod("two", "5000m", owner="rs")])
    on.controller.reconcile()
    judged.take()
    case_of(on, "two").excluded_nodes = {"n": math.inf}
    due_again(on)
    on.controller.reconcile()
    assert sorted(judged.take()) == ["one", "two"]


@pytest.mark.usefixtures("slow")
def test_between_two_judgements_the_one_who_drives_is_asked(judged: Judged) -> None:
    on = crowded()
    for _number in range(MANY):
        assert on.controller.reconcile() == 0.0
        assert (len(judged.take()), len(judged.explained)) == (1, 0)
    for number in range(MANY):
        assert on.controller.reconcile() == (0.0 if number < MANY - 1 else pytest.approx(5.0, abs=2.0))
        assert (len(judged.take()), len(judged.explained)) == (0, number + 1)


@pytest.mark.usefixtures("slow")
def test_a_new_pod_comes_before_those_that_were_judged_already(judged: Judged) -> None:
    on = crowded()
    for _number in range(MANY):
        on.controller.reconcile()
    due_again(on)
    on.controller.reconcile()
    on.cluster.pods["z-dns"] = pod("z-dns", "500m")
    on.cluster.touch(on.cluster.pods["z-dns"])
    judged.take()
    on.controller.reconcile()
    assert judged.take()[0] == "z-dns" and on.cluster.evicted == ["v"]


@pytest.mark.usefixtures("slow")
def test_a_node_is_released_between_two_judgements(judged: Judged) -> None:
    on = crowded(pod("a-dns", "500m"))
    while not on.cluster.evicted:
        on.controller.reconcile()
    del on.cluster.pods["v"]
    on.cluster.pods["a-dns"]["spec"]["nodeName"] = "n"
    due_again(on)
    judged.take()
    on.controller.reconcile()
    assert on.cluster.held == [] and len(judged.take()) <= 1


@pytest.mark.usefixtures("slow")
def test_every_pod_is_judged_again_before_another_one_is_twice(judged: Judged) -> None:
    """Although all are due again at the same time, as where one round takes longer than the time after which they are."""
    on = crowded()
    for _tick in range(3 * MANY):
        due_again(on)
        on.controller.reconcile()
    counts = Counter(judged.take())
    assert len(counts) == MANY and set(counts.values()) == {3}


@pytest.mark.usefixtures("slow")
def test_no_reasons_are_worked_out_before_every_pod_was_judged(judged: Judged) -> None:
    on = crowded()
    for _number in range(MANY // 2):
        on.controller.reconcile()
    on.cluster.pods["z-dns"] = pod("z-dns", "500m")
    on.cluster.touch(on.cluster.pods["z-dns"])
    explained: list[int] = []
    on.cluster.refuse_eviction = lambda _name, _dry_run: explained.append(len(judged.explained))
    while not on.cluster.evicted:
        on.controller.reconcile()
    assert set(explained) == {0}


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("once", [False, True])
def test_each_pod_is_explained_although_others_are_due_all_the_time(judged: Judged, monkeypatch: pytest.MonkeyPatch, once: bool) -> None:
    monkeypatch.setattr(module, "EXPLAINED_EVERY_S", 0.0)
    on = crowded(once=once)
    for _tick in range(3 * MANY):
        due_again(on)
        on.controller.reconcile()
    assert sorted(judged.explained[:MANY]) == sorted(set(judged.take()))
    assert once or len(judged.explained) == MANY
    assert all("Insufficient cpu" in str(task.reason) for task in on.controller.tasks.values())


def test_a_write_that_fails_where_reasons_were_to_be_worked_out_ends_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod may have become one that can be rescued between its judgement and the work on the reasons."""
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m")])
    judge = RescuePlanner.plan_rescue

    def refuse(*_of: t.Any) -> bool:
        raise KubeError("the node cannot be written")

    monkeypatch.setattr(on.controller.attempts, "load", refuse)

    def late(planner: RescuePlanner, of: Pod, context: RescueContext, *, explain: bool = True) -> RescuePlan:
        return judge(planner, of, context, explain=explain) if explain else RescuePlan(of, "impossible", UNEXPLAINED)

    monkeypatch.setattr(RescuePlanner, "plan_rescue", late)
    on.controller.reconcile()
    assert any("the node cannot be written" in text for text in on.notes.errors)


@pytest.mark.usefixtures("slow")
def test_a_run_that_ends_has_explained_every_pod() -> None:
    """The module's result has all reasons, although the tick ends before each of them is computed."""
    on = crowded(once=True)
    on.controller.reconcile()
    while any(task.reason is UNEXPLAINED or not task.status for task in on.controller.tasks.values()):
        on.controller.reconcile()
    assert all(task.last_plan is not None and task.last_plan.blockers for task in on.controller.tasks.values())


@pytest.mark.usefixtures("slow")
def test_a_pod_is_said_to_be_hopeless_once_and_with_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    on = crowded(once=False)
    told: Counter[str] = Counter()
    monkeypatch.setattr(on.notes, "on_plan_changed", lambda task: told.update([f"{task.name}: {task.reason}"]))
    for _tick in range(3 * MANY):
        on.controller.reconcile()
    due_again(on)
    for _tick in range(2 * MANY):
        on.controller.reconcile()
    assert set(told.values()) == {1} and len(told) == MANY, told
    assert all("Insufficient cpu" in text for text in told)


@pytest.mark.parametrize("once", [False, True])
def test_the_rescuer_works_out_why_no_eviction_helps_only_to_say_it(monkeypatch: pytest.MonkeyPatch, once: bool) -> None:
    """The module does so each time, because its result has the newest reasons."""
    explained: list[str] = []
    explain = Diagnosis.explain

    def counting(blockade: Diagnosis, *of: t.Any) -> tuple[Blocker, ...]:
        explained.append("")
        return explain(blockade, *of)

    monkeypatch.setattr(Diagnosis, "explain", counting)
    on = crowded(once=once)
    on.controller.reconcile()
    said = {name: (task.status, task.reason, task.last_plan and task.last_plan.blockers) for name, task in on.controller.tasks.items()}
    assert len(explained) == MANY
    due_again(on)
    on.controller.reconcile()
    assert {
        name: (task.status, task.reason, task.last_plan and task.last_plan.blockers) for name, task in on.controller.tasks.items()
    } == said
    assert all(reason is not None and "Insufficient cpu" in str(reason) and told for _status, reason, told in said.values())
    assert len(explained) == (2 * MANY if once else MANY)
