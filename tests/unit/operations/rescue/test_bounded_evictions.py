# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The number of pods that one rescue evicts on a node: never more than its plan named, whatever happens on the node meanwhile."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ForbiddenError,
    KubeError,
    OverloadedError,
    RequestTarget,
    api_error,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.controller import RescueController
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import RescueTask
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state import rescue_attempts
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import start

from tests.unit.support.fakes import CRITICAL, Json, Scene, again, node, pod, scene

BUSY = OverloadedError("too many requests", status=429)
DENIED = ForbiddenError('admission webhook "x" denied the request', status=403)


def crowded(*, other_node: bool = False, cpu: str = "500m", **options: t.Any) -> Scene:
    """Node n with ten pods of 100m, of which two are cheapest, and a critical pod."""
    pods = [pod(f"r{number}", "100m", on="n", priority=number) for number in range(10)]
    nodes = [node("n")]
    if other_node:
        nodes.append(node("m"))
        pods.append(pod("v-m", "900m", on="m", priority=1000))
    return scene(nodes, [*pods, pod("dns", cpu)], **options)


def the_task(on: Scene | RescueController) -> RescueTask:
    (task,) = (on.controller if isinstance(on, Scene) else on).tasks.values()
    return task


def rounds(on: Scene, number: int = 12, *, then: t.Callable[[], None] = lambda: None) -> None:
    """So many checks. An evicted pod is gone at the next one."""
    for _round in range(number):
        on.controller.reconcile()
        for name in on.cluster.evicted:
            on.cluster.pods.pop(name, None)
        then()
        for task in on.controller.tasks.values():
            task.retry_at_s = task.plan_at_s = 0.0


def static(name: str, cpu: str) -> Json:
    """A pod that is never evicted and that no taint keeps off."""
    made = pod(name, cpu, on="n", priority=CRITICAL + 1000)
    made["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n-n", "controller": True}]
    return made


def come(on: Scene, made: Json) -> None:
    on.cluster.pods[made["metadata"]["name"]] = made
    on.cluster.touch(made)


@pytest.mark.parametrize("other_node", [False, True])
def test_immovable_pods_that_take_the_freed_capacity_spread_no_evictions_over_the_node(other_node: bool) -> None:
    on = crowded(other_node=other_node)
    count = iter(range(100))
    rounds(on, then=lambda: come(on, static(f"static-{next(count)}", "100m")) if len(on.cluster.evicted) > 1 else None)
    on_n = [name for name in on.cluster.evicted if name != "v-m"]
    assert set(on_n) <= {"r0", "r1", "r2", "r3", "r4"}, "the pods of the first plan"
    assert ("v-m" in on.cluster.evicted) == other_node


def test_one_immovable_pod_that_comes_before_the_first_eviction_makes_the_rescue_leave_the_node() -> None:
    """One pod more would have to be evicted than the plan named."""
    on = crowded(other_node=True)
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else BUSY
    on.controller.reconcile()
    assert on.cluster.held == ["n"] and len(the_task(on).plan_limit.victims) == 5
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    the_task(on).reset_backoff()
    come(on, static("static", "100m"))
    rounds(on, 3)
    assert on.cluster.evicted == ["v-m"] and on.cluster.held == ["m"]


@pytest.mark.parametrize(("times", "evicted"), [(1, ["r0", "r1", "r2", "r3", "r4", "r5"]), (9, [])])
def test_pod_that_was_bound_before_the_node_was_held_makes_one_more_plan(times: int, evicted: list[str]) -> None:
    """If other pods come again and again, the node is given up."""
    on = crowded()
    count = iter(range(times))

    def come_first(name: str, release: bool) -> None:
        number = None if release or name != "n" else next(count, None)
        if number is not None:
            come(on, static(f"static-{number}", "100m"))

    on.cluster.refuse_patch = come_first
    rounds(on)
    assert sorted(on.cluster.evicted) == evicted and bool(on.cluster.held) == bool(evicted)
    assert list(the_task(on).excluded_nodes) == ([] if evicted else ["n"])


def test_planned_pod_that_may_not_be_evicted_any_more_is_replaced_by_one_other() -> None:
    on = crowded()

    def refuse(name: str, dry_run: bool) -> KubeError | None:
        return DENIED if name == "r1" and not dry_run else None

    on.cluster.refuse_eviction = refuse
    rounds(on)
    assert sorted(on.cluster.evicted) == ["r0", "r2", "r3", "r4", "r5"]


def test_rest_of_a_plan_is_evicted_also_if_other_pods_cost_less_after_the_first_eviction() -> None:
    """The two large pods are the fewest with their highest priority. Beside the first one the two small pods have a lower one."""
    large = [pod(f"large-{number}", "300m", on="n", priority=1000) for number in range(2)]
    small = [pod(f"small-{number}", "200m", on="n", priority=1) for number in range(2)]
    on = scene([node("n")], [*large, *small, pod("dns", "600m")])
    rounds(on)
    assert sorted(on.cluster.evicted) == ["large-0", "large-1"] and the_task(on).excluded_nodes == {}


def test_planned_pod_is_not_replaced_by_several_others() -> None:
    pods = [pod("large", "500m", on="n"), *(pod(f"r{number}", "100m", on="n", priority=10 + number) for number in range(5))]
    on = scene([node("n")], [*pods, pod("dns", "500m")])
    on.cluster.refuse_eviction = lambda name, dry_run: DENIED if name == "large" and not dry_run else None
    rounds(on)
    assert on.cluster.evicted == []


def test_replacements_do_not_replace_each_other_without_end() -> None:
    """Each planned pod has at most one replacement, also where another resident becomes immovable after each eviction."""
    on = crowded(cpu="200m")
    protected = iter(range(9, -1, -1))

    def grow() -> None:
        """One of the residents asks for more, so that one more pod would have to be evicted."""
        name = f"r{next(protected, 0)}"
        if name in on.cluster.pods and on.cluster.evicted:
            on.cluster.pods[name]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200m"
            on.cluster.touch(on.cluster.pods[name])

    rounds(on, then=grow)
    assert len(on.cluster.evicted) <= 2


def test_victim_that_does_not_end_makes_the_rescue_take_another_node() -> None:
    on = crowded(other_node=True)
    for _round in range(12):
        on.controller.reconcile()
        for task in on.controller.tasks.values():
            task.retry_at_s = task.plan_at_s = 0.0
            task.grace_ends_at_s = {uid: at_s - (60 if uid == "u-r0" else 0) for uid, at_s in task.grace_ends_at_s.items()}
    assert set(on.cluster.evicted) <= {"r0", "r1", "r2", "r3", "r4", "v-m"} and "v-m" in on.cluster.evicted
    assert on.cluster.held == ["m"]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, 429, 500, 503])
@pytest.mark.parametrize("dry_run", [False, True])
def test_denied_victim_is_not_asked_for_again_whatever_status_the_webhook_gives_its_denial(status: int, dry_run: bool) -> None:
    """Another pod of the node is evicted instead."""
    said = 'admission webhook "keeper.example" denied the request: keep it'
    denied = api_error(verb="create", target=RequestTarget("pods/eviction app/r0"), status=status, message=said)
    on, asked = crowded(cpu="100m"), list[str]()

    def deny(name: str, dry: bool) -> KubeError | None:
        if name == "r0" and dry == dry_run:
            asked.append(name)
            return denied
        return None

    on.cluster.refuse_eviction = deny
    rounds(on, 3)
    assert on.cluster.evicted == ["r1"] and len(asked) == 1


# --- what a program that takes over knows -----------------------------------------------------------------------------


def test_program_that_takes_over_knows_on_which_nodes_pods_were_evicted_without_effect() -> None:
    names = ["a", "b", "c", "d"]
    victims = [pod(f"v-{name}", "900m", on=name, priority=number) for number, name in enumerate(names)]
    on = scene([node(name) for name in names], [*victims, pod("dns", "500m")], max_attempts=3)
    on.controller.reconcile()
    for _round in range(3):
        if len(on.cluster.evicted) == 3:
            break
        on.cluster.nodes[on.cluster.held[0]]["spec"]["unschedulable"] = True
        the_task(on).retry_at_s = the_task(on).plan_at_s = 0.0
        on.controller.reconcile()
    assert on.cluster.evicted == ["v-a", "v-b", "v-c"] and on.cluster.held == ["c"]
    del on.cluster.pods["v-c"]
    for name in ("a", "b"):
        del on.cluster.pods[f"v-{name}"]
        del on.cluster.nodes[name]["spec"]["unschedulable"]
        come(on, pod(f"w-{name}", "900m", on=name))
    other = again(on, max_attempts=3)
    other.reconcile()
    assert the_task(other).failed_nodes == 2 and {"a", "b"} <= set(the_task(other).excluded_nodes)
    on.cluster.nodes["c"]["spec"]["unschedulable"] = True
    come(on, pod("w-c", "900m", on="c"))
    for _round in range(3):
        the_task(other).retry_at_s = the_task(other).plan_at_s = 0.0
        other.reconcile()
    task = the_task(other)
    assert on.cluster.evicted == ["v-a", "v-b", "v-c"] and task.reason is not None
    assert (task.status, task.reason.code) == ("failed", "no_other_node")


def test_limit_of_a_plan_does_not_begin_again_when_the_lease_comes_back() -> None:
    on = crowded()
    on.cluster.refuse_eviction = lambda name, dry_run: None if dry_run or name == "r0" else BUSY
    on.controller.reconcile()
    before = the_task(on)
    assert on.cluster.evicted == ["r0"] and len(before.plan_limit.victims) == 5
    limit = before.plan_limit
    on.lease.held = False
    on.controller.abandon()
    del on.cluster.pods["r0"]
    come(on, static("static", "100m"))
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    on.lease.held = True
    on.controller.reconcile()
    assert the_task(on).plan_limit == limit
    rounds(on)
    assert set(on.cluster.evicted) <= {"r0", "r1", "r2", "r3", "r4"}


def test_rescue_that_comes_to_nothing_directly_after_a_takeover_is_written_as_failed() -> None:
    """The node that was cleared last was left, too: its victim has ended, and other pods have taken the capacity."""
    names = ["a", "b"]
    victims = [pod(f"v-{name}", "900m", on=name, priority=number) for number, name in enumerate(names)]
    on = scene([node(name) for name in (*names, "c")], [*victims, pod("v-c", "900m", on="c", priority=9), pod("dns", "500m")])
    on.controller.reconcile()
    on.cluster.nodes["a"]["spec"]["unschedulable"] = True
    the_task(on).retry_at_s = the_task(on).plan_at_s = 0.0
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-a", "v-b"] and on.cluster.held == ["b"]
    on.controller.release_own_holds()
    for name in names:
        del on.cluster.pods[f"v-{name}"]
        come(on, pod(f"w-{name}", "900m", on=name))
    other = again(on, max_attempts=2)
    for _round in range(4):
        for task in other.tasks.values():
            task.retry_at_s = task.plan_at_s = 0.0
        other.reconcile()
    task = the_task(other)
    assert on.cluster.evicted == ["v-a", "v-b"] and task.reason is not None
    assert (task.status, task.reason.code) == ("failed", "no_other_node")
    (entry,) = on.attempts.kept.values()
    assert (entry.under_way, entry.attempts) == ({}, 1)


# --- the ConfigMap ----------------------------------------------------------------------------------------------------


def test_rescue_that_loses_a_node_with_a_permanent_taint_has_failed_where_no_other_node_can_be_held() -> None:
    """The pod tolerates the permanent taint, but no hold. Another pod that tolerates it has taken the capacity."""
    key = "CriticalAddonsOnly"
    tainted, dns = node("n"), pod("dns", "800m", tolerates=False)
    tainted["spec"]["taints"] = [{"key": key, "value": "true", "effect": "NoSchedule"}]
    dns["spec"]["tolerations"] = [{"key": key, "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
    on = scene([tainted, node("m")], [pod(f"v-{number}-{name}", "450m", on=name) for name in "nm" for number in range(2)] + [dns])
    on.controller.reconcile()
    assert sorted(on.cluster.evicted) == ["v-0-n", "v-1-n"]
    rounds(on, then=lambda: come(on, static("taker", "900m")))
    task = the_task(on)
    assert len(on.cluster.evicted) == 2 and task.reason is not None
    assert (task.status, task.reason.code) == ("failed", "no_other_node") and "does not tolerate" in task.reason.text


def test_entries_that_do_not_fit_into_the_config_map_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    on = scene([node("n")], [pod("v-n", "900m", on="n"), pod("dns", "500m")])
    monkeypatch.setattr(rescue_attempts, "MAX_ENTRIES", 1)
    for number in range(7):
        on.attempts.kept[f"attempt.{number:064x}"] = start(None, now_s=time.time() - number, pod_uid=f"u-{number}", name=f"a/{number}")
        on.cluster.pods[f"p-{number}"] = pod(f"{number}", "9")
    on.controller.reconcile()
    on.controller.reconcile()
    (said,) = [text for text in on.notes.errors if "is full" in text]
    assert "a/0, a/1, a/2, a/3, a/4 and others" in said
