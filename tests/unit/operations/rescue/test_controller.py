# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The steps of rescues where requests are refused, pods and nodes vanish, or several pods are rescued at a time."""

from __future__ import annotations

import copy
import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    OverloadedError,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import CONFIG_MAPS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import holds, requests, run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import RescueResult, rescue_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.run import End
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import RescueTask
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import HOLD_ANNOTATION

from tests.unit.support.fakes import Scene, again, end_of, end_settling, full_nodes, key_of, node, pod, retry_now, run_on, scene, under_way

DENIED = ForbiddenError('admission webhook "x" denied the request', status=403)
DNS = key_of(pod("dns", "500m"))
REFUSED = BudgetError("not now", status=429)
NO_ROLE = ForbiddenError('pods "v" is forbidden: User "me" cannot create resource "pods/eviction"', status=403)


def the_task(on: Scene) -> RescueTask:
    (task,) = on.controller.tasks.values()
    return task


def reason_of(on: Scene) -> str:
    reason = the_task(on).reason
    assert reason is not None
    return reason.code


def planned_node(on: Scene) -> str:
    plan = the_task(on).last_plan
    assert plan is not None and plan.choice is not None
    return plan.choice.node


def later(task: RescueTask) -> None:
    """Whatever it waits for is over."""
    task.retry_at_s = task.plan_at_s = 0.0


def test_from_plan_to_bound() -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and on.cluster.held == ["n"] and list(on.attempts.kept) == [DNS]
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.controller.reconcile()
    assert the_task(on).status == "rescued" and on.cluster.held == []
    entry = on.attempts.kept[DNS]
    assert (entry.attempts, entry.under_way, list(entry.rescued)) == (0, {}, ["u-dns"])
    assert {"RescueStarted", "RescueHold", "RescueEviction", "RescueHoldReleased", "Rescued"} == set(on.cluster.events)


def test_a_node_that_cannot_be_released_is_retried_with_pauses() -> None:
    on = full_nodes("n", "m")
    on.controller.reconcile()
    on.cluster.nodes["n"]["spec"]["unschedulable"] = True
    on.cluster.refuse_patch = lambda _name, release: DENIED if release else None
    before = on.cluster.patches
    on.controller.reconcile()
    assert on.cluster.patches - before == 2 and the_task(on).clearing.node == "n"
    on.cluster.refuse_patch = lambda _name, _release: None
    later(the_task(on))
    on.controller.reconcile()
    assert on.cluster.held == ["m"] and on.cluster.evicted == ["v-n", "v-m"]


def test_a_release_that_fails_at_the_end_is_made_up_for() -> None:
    on = full_nodes("n", wait_timeout_s=1)
    on.controller.reconcile()
    del on.cluster.pods["v-n"]
    the_task(on).clearing.give_up_at_s = time.monotonic() - 1
    refused = iter([DENIED])
    on.cluster.refuse_patch = lambda name, release: next(refused, None) if release and name == "n" else None
    on.controller.reconcile()
    assert reason_of(on) == "not_bound" and on.cluster.held == ["n"]
    assert on.controller.holds.expired == ["n"]
    retry_now(on)
    on.controller.reconcile()
    assert on.cluster.held == [] and on.controller.holds.expired == []


def test_failed_rescue_does_not_take_over_the_node_that_it_could_not_release() -> None:
    on = full_nodes("n", once=False)
    on.controller.reconcile()
    del on.cluster.pods["v-n"]
    the_task(on).clearing.give_up_at_s = time.monotonic() - 1
    on.cluster.refuse_patch = lambda _name, release: DENIED if release else None
    on.controller.reconcile()
    requeue_after_s = on.controller.reconcile()
    assert on.cluster.held == ["n"] and not the_task(on).is_clearing and requeue_after_s <= 1
    on.cluster.refuse_patch = lambda _name, _release: None
    retry_now(on)
    on.controller.reconcile()
    assert on.cluster.held == []


def test_pod_with_two_held_nodes_keeps_one() -> None:
    on = full_nodes("a", "b")
    on.controller.reconcile()
    for part, key in (("metadata", "annotations"), ("spec", "taints")):
        on.cluster.nodes["b"][part][key] = copy.copy(on.cluster.nodes["a"][part][key])
    next_program = again(on)
    next_program.reconcile()
    next_program.reconcile()
    assert on.cluster.held == ["a"]


def test_leader_for_the_second_time_knows_the_evictions_of_the_one_between() -> None:
    on = full_nodes("n")
    on.cluster.refuse_eviction = lambda _name, _dry_run: REFUSED
    on.controller.reconcile()
    on.controller.abandon()
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    again(on).reconcile()
    assert on.cluster.evicted == ["v-n"]
    del on.cluster.pods["v-n"]
    later(the_task(on))
    on.controller.reconcile()
    assert [victim.pod.metadata.name for victim in the_task(on).evicted] == ["v-n"]


def test_leader_for_the_second_time_records_its_victim_again_if_the_one_between_has_removed_the_record() -> None:
    on = full_nodes("n")
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else REFUSED
    on.controller.reconcile()
    assert under_way(on) == ["u-dns"]
    on.controller.abandon()
    on.attempts.kept.clear()
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    later(the_task(on))
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and [record.name for record in on.attempts.kept[DNS].victims["u-dns"]] == ["v-n"]


def test_one_stubborn_node_keeps_no_other_held() -> None:
    on = full_nodes("a", "b")
    on.controller.reconcile()
    for part, key in (("metadata", "annotations"), ("spec", "taints")):
        on.cluster.nodes["b"][part][key] = copy.copy(on.cluster.nodes["a"][part][key])
    del on.cluster.pods["dns"]
    on.cluster.refuse_patch = lambda name, release: DENIED if release and name == "a" else None
    on.controller.reconcile()
    assert on.cluster.held == ["a"]


def test_pods_of_one_owner_are_rescued_side_by_side() -> None:
    """Five of one DaemonSet: none of them has failed, so that none has to wait for another's attempt."""
    names = [f"n{number}" for number in range(5)]
    victims = [pod(f"v-{name}", "900m", on=name) for name in names]
    on = scene([node(name) for name in names], [*victims, *(pod(f"d-{name}", "500m", owner="ds") for name in names)])
    on.controller.reconcile()
    assert sorted(on.cluster.evicted) == sorted(f"v-{name}" for name in names) and sorted(on.cluster.held) == names


def test_evictions_without_effect_end_after_as_many_nodes_as_attempts_are_allowed() -> None:
    names = [f"n{number}" for number in range(6)]
    on = full_nodes(*names, max_attempts=3)
    for _round in names:
        on.controller.reconcile()
        for task in on.controller.tasks.values():
            later(task)
            task.grace_ends_at_s = dict.fromkeys(task.grace_ends_at_s, time.monotonic() - 60)  # what was evicted does not end
    assert len(on.cluster.evicted) == 3 and on.cluster.held == []
    assert the_task(on).status == "failed" and reason_of(on) == "no_other_node"
    assert on.attempts.kept[DNS].attempts == 1


@pytest.mark.parametrize("error", [DENIED, InvalidError("no", status=400), BudgetError("not now", status=429)])
def test_a_victim_that_is_refused_is_replaced_by_another(error: KubeError) -> None:
    on = full_nodes("n", "m")
    on.cluster.refuse_eviction = lambda name, _dry_run: error if name == "v-n" else None
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-m"] and on.cluster.held == ["m"]


def test_a_missing_role_ends_it() -> None:
    on = full_nodes("n", "m")
    on.cluster.refuse_eviction = lambda _name, _dry_run: NO_ROLE
    on.controller.reconcile()
    assert the_task(on).status == "failed" and on.cluster.held == [] and on.attempts.kept == {}


@pytest.mark.parametrize(
    "error", [OverloadedError("busy", status=429), ApiError("etcd", status=500, reason="InternalError"), UnreachableError("gone")]
)
def test_a_server_in_trouble_is_asked_again_and_then_about_another(error: KubeError) -> None:
    on = full_nodes("n", "m", evict_timeout_s=60)
    on.cluster.refuse_eviction = lambda name, dry_run: error if name == "v-n" and not dry_run else None
    on.controller.reconcile()
    assert on.cluster.held == ["n"] and on.cluster.evicted == []
    task = the_task(on)
    later(task)
    task.first_refused_at_s = time.monotonic() - 61
    on.controller.reconcile()
    assert on.cluster.held == ["m"] and on.cluster.evicted == ["v-m"]


def test_a_plan_says_only_what_the_server_has_said() -> None:
    on = full_nodes("n", dry_run=True)
    on.cluster.refuse_eviction = lambda _name, _dry_run: OverloadedError("busy", status=429)
    on.controller.reconcile()
    assert end_of(on, run._Clock(60), dry_run=True) is None
    result = RescueResult([*on.controller.tasks.values()])
    result.add_plans()
    assert rescue_result(result, named=False)["changed"] is False
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    later(the_task(on))
    on.controller.reconcile()
    assert end_of(on, run._Clock(60), dry_run=True) is End.DONE and the_task(on).status == "planned"
    assert on.cluster.evicted == [] and on.cluster.held == []


def test_a_pod_is_planned_again_if_its_planned_node_is_deleted() -> None:
    on = full_nodes("n", "m", dry_run=True, once=False)
    on.controller.reconcile()
    assert planned_node(on) == "n"
    del on.cluster.nodes["n"], on.cluster.pods["v-n"]
    on.controller.reconcile()
    assert planned_node(on) == "m"


def test_the_result_of_a_pod_that_was_bound_without_the_lease_is_written_with_it() -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    on.lease.held = False
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.controller.reconcile()
    assert the_task(on).status == "rescued" and on.cluster.held == ["n"] and "u-dns" in on.attempts.kept[DNS].under_way
    clock = run._Clock(60)
    assert run._needs_lease(on.controller) and end_of(on, clock) is None
    assert [held.node.name for held in on.controller.still_held] == ["n"] and on.controller.unrecorded == [the_task(on)]
    on.lease.held = True
    on.controller.reconcile()
    assert on.cluster.held == [] and under_way(on) == [] and end_of(on, clock) is End.DONE


@pytest.mark.parametrize("once", [True, False])
def test_a_result_that_could_not_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch, once: bool) -> None:
    on = full_nodes("n", once=once)
    on.controller.reconcile()
    write = on.attempts.update

    def unreachable(*_of: t.Any) -> None:
        raise UnreachableError("gone")

    monkeypatch.setattr(on.attempts, "update", unreachable)
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    for _round in range(2):
        on.controller.reconcile()
        assert under_way(on) == ["u-dns"] and on.controller.unrecorded == [the_task(on)] and on.cluster.held == []
    monkeypatch.setattr(on.attempts, "update", write)
    later(the_task(on))
    on.controller.reconcile()
    assert under_way(on) == [] and on.controller.unrecorded == []


def test_an_attempt_whose_record_has_lost_its_answer_does_not_stay_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    on = full_nodes("n", once=False)
    write = on.attempts.update

    def lose_answer(change: t.Any) -> None:
        write(change)
        raise UnreachableError("gone")

    monkeypatch.setattr(on.attempts, "update", lose_answer)
    on.controller.reconcile()
    assert under_way(on) == ["u-dns"] and on.cluster.evicted == []
    monkeypatch.setattr(on.attempts, "update", write)
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    for _round in range(2):
        on.controller.reconcile()
        on.controller.attempts._due_at_s = 0.0
    assert under_way(on) == [] and on.cluster.held == []


def test_a_hold_that_is_there_again_counts_a_minute_after_its_release(monkeypatch: pytest.MonkeyPatch) -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    (held,) = on.controller.holds_seen()
    before = copy.deepcopy(on.cluster.nodes)
    assert on.controller.holds.release(held) and on.controller.holds.active(on.cluster.snapshot(), {}) == []
    on.cluster.nodes = before
    assert on.controller.holds.active(on.cluster.snapshot(), {}) == []
    after_s = time.monotonic() + holds.SHOWN_FOR_S
    monkeypatch.setattr(time, "monotonic", lambda: after_s)
    assert [again.uid for again in on.controller.holds.active(on.cluster.snapshot(), {})] == ["u-dns"]


@pytest.mark.parametrize(("bound", "victims", "expected"), [(True, True, [0]), (False, True, [1]), (False, False, [])])
def test_what_a_killed_program_left_as_under_way_is_corrected(bound: bool, victims: bool, expected: list[int]) -> None:
    """A pod that is gone counts as at the end of a rescue: as a failure if a pod was evicted for it."""
    on = full_nodes("n")
    on.controller.reconcile()
    assert on.attempts.kept[DNS].under_way
    if not victims:
        on.attempts.kept[DNS] = replace(on.attempts.kept[DNS], victims={})
    on.cluster.nodes["n"] = node("n")
    if bound:
        on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    else:
        del on.cluster.pods["dns"]
    again(on).reconcile()
    assert under_way(on) == [] and [entry.attempts for entry in on.attempts.kept.values()] == expected


def test_a_run_that_cannot_release_its_node_names_it_and_the_command() -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    on.lease.held = False
    on.cluster.errors = {"pods": "no answer"}
    on.controller.reconcile()
    error = run._with_held_nodes(None, on.controller)
    assert error is not None
    for words in ("node n has the taint CriticalAddonsOnly=", "for pod kube-system/dns", "no answer", "state=released"):
        assert words in str(error)


def test_a_run_waits_for_the_lease_as_long_as_its_time_lasts() -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    on.lease.held = False
    on.controller.reconcile()
    for timeout_s, end in ((600, None), (-1, End.TIMED_OUT)):
        clock = run._Clock(timeout_s)
        clock.note(blocked=True)
        clock._blocked_at_s = time.monotonic() - run.LEASE_TIMEOUT_S - 1
        assert end_of(on, clock) is end
    clock = run._Clock(-1)
    clock.note(blocked=True)
    assert end_of(on, clock) is None, "the Lease of a killed program needs its time"


@pytest.mark.parametrize("leading", [True, False])
def test_only_the_leader_says_that_the_scheduler_has_placed_a_pod_by_itself(leading: bool) -> None:
    """A follower sees the same when the leader has rescued the pod."""
    on = full_nodes("n", once=False)
    on.lease.held = False
    on.controller.reconcile()
    on.lease.held = leading
    ended: list[str] = []
    on.notes.on_finished = lambda task: ended.append(str(task.reason))  # type: ignore[method-assign]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.controller.reconcile()
    assert len(ended) == 1 and "node n" in ended[0] and ("by itself" in ended[0]) is leading


def test_nothing_is_written_without_the_lease() -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    on.lease.held = False
    before = on.cluster.patches
    del on.cluster.pods["dns"]
    on.controller.reconcile()
    assert on.cluster.patches == before and on.cluster.held == ["n"]


def test_a_broken_watch_decides_nothing() -> None:
    on = full_nodes("n")
    on.cluster.errors = {"pods": "no answer"}
    on.controller.reconcile()
    assert on.controller.tasks == {} and on.cluster.evicted == [] and on.notes.errors == ["pods: no answer"]


def test_the_next_leader_holds_the_node_again_of_a_rescuer_that_was_stopped() -> None:
    """The victim still ends: without a hold its replacement could take the capacity."""
    on = full_nodes("n")
    on.controller.reconcile()
    on.cluster.pods["v-n"]["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    on.controller.release_own_holds()
    assert on.cluster.held == []
    following = again(on)
    following.reconcile()
    (task,) = following.tasks.values()
    assert on.cluster.held == ["n"] and task.clearing.node == "n"
    assert on.cluster.evicted == ["v-n"] and [victim.pod.metadata.name for victim in task.evicted] == ["v-n"]
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    following.reconcile()
    assert on.cluster.held == [] and task.status == "rescued"


def test_a_node_of_an_attempt_that_has_ended_is_not_held_again() -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    on.controller.release_own_holds()
    on.attempts.kept.clear()
    following = again(on)
    following.reconcile()
    assert on.cluster.held == [] and on.cluster.evicted == ["v-n"]


def test_a_run_that_ends_by_an_error_still_releases_its_nodes() -> None:
    on = full_nodes("n")
    with pytest.raises(ForbiddenError), run._released_at_the_end(on.controller, t.cast(t.Any, on.lease)):
        on.controller.reconcile()
        assert on.cluster.held == ["n"]
        on.cluster.broken = NO_ROLE
        on.controller.reconcile()
    assert on.cluster.held == [] and not on.lease.held


def fail_reads_of_the_config_map(on: Scene, monkeypatch: pytest.MonkeyPatch, *, times: int) -> None:
    """Watches continue, and reads get no answer: etcd is away."""
    get, failures = on.cluster.get, iter(range(times))

    def read(resource: t.Any, namespace: str, name: str) -> t.Any:
        if resource is CONFIG_MAPS and next(failures, None) is not None:
            raise UnreachableError("no answer about the ConfigMap")
        return get(resource, namespace, name)

    monkeypatch.setattr(on.cluster, "get", read)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_run_continues_after_a_first_read_that_failed(monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    on = full_nodes("n", dry_run=dry_run)
    fail_reads_of_the_config_map(on, monkeypatch, times=1)
    on.cluster.refuse_eviction = lambda _name, dry: None if dry else on.cluster.pods["dns"]["spec"].update(nodeName="n")
    run_on(on, dry_run=dry_run)
    assert (the_task(on).status, on.cluster.evicted) == (("planned", []) if dry_run else ("rescued", ["v-n"]))


def test_a_run_whose_api_server_goes_away_before_anything_is_held_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LEASE_TIMEOUT_S", 0.5)
    on = full_nodes("n")
    on.lease.held = False
    on.controller.reconcile()
    assert the_task(on).status == "waiting"
    on.cluster.errors = {"pods": "connection refused"}
    with pytest.raises(run.RescueError, match="pods: connection refused"):
        run_on(on)


def test_a_run_whose_api_server_goes_away_when_all_is_done_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LEASE_TIMEOUT_S", 0.5)
    on = full_nodes("n")
    on.controller.reconcile()
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.controller.reconcile()
    on.cluster.errors = {"pods": "connection refused"}
    run_on(on)
    assert the_task(on).status == "rescued"


def test_evictions_stop_when_the_pod_has_another_way() -> None:
    victims = [pod("v1", "450m", on="n"), pod("v2", "450m", on="n")]
    on = scene([node("n")], [*victims, pod("dns", "900m")])
    asked: list[str] = []

    def refuse(name: str, dry_run: bool) -> KubeError | None:
        if dry_run:
            return None
        asked.append(name)
        return BudgetError("not now", status=429) if len(asked) > 1 else None

    on.cluster.refuse_eviction = refuse
    on.controller.reconcile()
    assert len(on.cluster.evicted) == 1
    on.cluster.nodes["free"] = node("free")
    later(the_task(on))
    on.controller.reconcile()
    assert len(asked) == 2 and the_task(on).status == "waiting"


def test_a_pod_that_is_deleted_after_an_eviction_counts_as_a_failure() -> None:
    """Otherwise a controller that deletes its pods again and again has a pod evicted each time."""
    on = full_nodes("n")
    on.controller.reconcile()
    assert on.cluster.evicted
    del on.cluster.pods["dns"]
    on.controller.reconcile()
    assert the_task(on).status == "pod_gone" and on.cluster.held == []
    assert [(entry.attempts, entry.under_way) for entry in on.attempts.kept.values()] == [(1, {})]


@pytest.mark.parametrize("name", ["v-n", "n"])
def test_an_object_that_cannot_be_decoded_directly_before_an_eviction_makes_the_rescue_take_another_node(name: str) -> None:
    on = full_nodes("n", "m")
    on.cluster.hidden[name] = {"spec": 5}
    for _round in range(4):
        on.controller.reconcile()
    assert on.cluster.evicted == ["v-m"] and on.cluster.held == ["m"] and the_task(on).status != "failed"


def test_an_attempt_that_cannot_be_counted_keeps_no_node_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    on = full_nodes("n")

    def immutable(*_of: t.Any) -> None:
        raise InvalidError("data: Forbidden: field is immutable when `immutable` is set", status=422)

    monkeypatch.setattr(on.attempts, "update", immutable)
    on.controller.reconcile()
    the_task(on).clearing.give_up_at_s = time.monotonic() - 1
    later(the_task(on))
    on.controller.reconcile()
    assert not on.controller.clearing and on.cluster.held == [] and on.cluster.evicted == []


@pytest.mark.parametrize("error", [DENIED, InvalidError("spec.taints: taints must be unique by key and effect", status=422)])
def test_a_node_that_may_not_be_held_makes_it_try_another(error: KubeError) -> None:
    on = full_nodes("a", "b")
    on.cluster.refuse_patch = lambda name, _release: error if name == "a" else None
    on.controller.reconcile()
    later(the_task(on))
    on.controller.reconcile()
    assert on.cluster.held == ["b"] and on.cluster.evicted == ["v-b"]


@pytest.mark.parametrize("annotation", ["{nonsense", None])
def test_an_annotation_that_a_user_edits_meanwhile_leaves_no_taint(annotation: str | None) -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    annotations = on.cluster.nodes["n"]["metadata"]["annotations"]
    annotations.pop(HOLD_ANNOTATION)
    if annotation is not None:
        annotations[HOLD_ANNOTATION] = annotation
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.controller.reconcile()
    assert the_task(on).status == "rescued" and not on.cluster.nodes["n"]["spec"].get("taints")


# --- evictions without a clear answer ---------------------------------------------------------------------------------


NOT_FOUND = NotFoundError("pods app/v-n not found", status=404)
CONFLICT = ConflictError("the UID in the precondition does not match", status=409)
LOST = UnreachableError("the connection was closed before the answer came")
EVICTED = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]


def terminating(name: str, on: Scene, *, evicted: bool) -> None:
    """The API server has it terminating; the watch does not show that yet."""
    metadata = {**on.cluster.pods[name]["metadata"], "deletionTimestamp": format_time(time.time() + 1)}
    on.cluster.hidden[name] = {"metadata": metadata, "status": {"phase": "Running", "conditions": EVICTED if evicted else []}}


@pytest.mark.parametrize("error", [NOT_FOUND, CONFLICT])
@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
def test_pod_that_goes_before_its_eviction_counts_as_leaving(error: KubeError, gone: bool, dry_run: bool) -> None:
    """No other pod is evicted for the capacity that becomes free."""
    on = full_nodes("n", "m")

    def refuse(name: str, dry: bool) -> KubeError | None:
        if name != "v-n" or dry != dry_run:
            return None
        if gone:
            on.cluster.refuse_get = lambda _plural, name: NOT_FOUND if name == "v-n" else None
        else:
            terminating("v-n", on, evicted=False)
        return error

    on.cluster.refuse_eviction = refuse
    on.controller.reconcile()
    assert on.cluster.evicted == [] and reason_of(on) == "capacity_becoming_free"
    assert the_task(on).evicted == []


@pytest.mark.parametrize("error", [NOT_FOUND, CONFLICT])
def test_conflict_of_a_budget_is_no_sign_that_the_pod_is_gone(error: KubeError) -> None:
    """The API server also answers 409 while the budget is written, and 404 where the budget has just been deleted."""
    on = full_nodes("n", "m")
    asked: list[str] = []

    def refuse(name: str, dry_run: bool) -> KubeError | None:
        asked.append(name)
        return error if not dry_run and asked.count(name) == 2 else None

    on.cluster.refuse_eviction = refuse
    on.controller.reconcile()
    assert on.cluster.evicted == [] and on.cluster.held == ["n"]
    later(the_task(on))
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and [victim.pod.metadata.name for victim in the_task(on).evicted] == ["v-n"]


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("error", [LOST, ApiError("etcdserver: request timed out", status=500, reason="InternalError")])
def test_eviction_whose_answer_is_lost_is_reported_and_counted(error: KubeError, gone: bool) -> None:
    victims = [pod("v1", "450m", on="n"), pod("v2", "450m", on="n"), pod("other", "900m", on="m", priority=5)]
    on = scene([node("n"), node("m")], [*victims, pod("dns", "900m")], max_victims=2)

    def refuse(name: str, dry_run: bool) -> KubeError | None:
        if dry_run or on.cluster.hidden or name not in on.cluster.pods:
            return None
        if gone:
            del on.cluster.pods[name]
        else:
            terminating(name, on, evicted=True)
        on.cluster.hidden.setdefault("lost", {})
        return error

    on.cluster.refuse_eviction = refuse
    on.controller.reconcile()
    later(the_task(on))
    on.controller.reconcile()
    assert len(the_task(on).evicted) == 2 and len(on.cluster.evicted) == 1
    assert {victim.pod.metadata.name for victim in the_task(on).evicted} == {"v1", "v2"}


def test_eviction_whose_answer_is_lost_and_that_was_not_carried_out_is_not_reported() -> None:
    on = full_nodes("n")
    answers = iter([LOST])
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else next(answers, None)
    on.controller.reconcile()
    later(the_task(on))
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and len(the_task(on).evicted) == 1


def test_eviction_whose_answer_is_lost_is_reported_if_the_pod_is_bound_at_the_next_check() -> None:
    on = full_nodes("n")
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else LOST
    on.controller.reconcile()
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    later(the_task(on))
    on.controller.reconcile()
    assert the_task(on).status == "rescued" and [victim.pod.metadata.name for victim in the_task(on).evicted] == ["v-n"]


@pytest.mark.parametrize("evicted", [True, False])
def test_program_that_takes_over_knows_what_was_evicted_before(evicted: bool) -> None:
    """``max_victims`` counts over both programs. A pod that was about to be evicted counts only if it was."""
    victims = [pod("v1", "450m", on="n"), pod("v2", "450m", on="n")]
    on = scene([node("n")], [*victims, pod("dns", "900m")], max_victims=2)
    answers = iter([None] if evicted else [])
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else next(answers, OverloadedError("busy", status=429))
    on.controller.reconcile()
    assert len(on.cluster.evicted) == evicted
    if evicted:
        name = on.cluster.evicted[0]
        on.cluster.pods[name]["status"]["conditions"] = EVICTED
    other = scene([], [], max_victims=2)
    other.attempts.kept.update(on.attempts.kept)
    other.cluster.nodes, other.cluster.pods = on.cluster.nodes, on.cluster.pods
    other.controller.reconcile()
    assert sorted(victim.pod.metadata.name for victim in the_task(other).evicted) == ["v1", "v2"]
    assert len(other.cluster.evicted) == 2 - evicted
    assert {victim.reason.code for victim in the_task(other).evicted} == {"lower_priority"}


# --- what the API server says right before an eviction ----------------------------------------------------------------


def hide(on: Scene, name: str, part: str, **values: t.Any) -> None:
    """The API server knows more of the object than the watch."""
    item = on.cluster.pods.get(name) or on.cluster.nodes[name]
    on.cluster.hidden[name] = {part: {**item.get(part, {}), **values}}


@pytest.mark.parametrize(
    ("name", "part", "values"),
    [
        ("dns", "spec", {"nodeName": "m"}),
        ("dns", "metadata", {"uid": "another"}),
        ("dns", "metadata", {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ("dns", "status", {"conditions": [{"type": "PodScheduled", "status": "True"}]}),
        ("dns", "status", {"nominatedNodeName": "m"}),
        ("v-n", "metadata", {"uid": "another"}),
        ("v-n", "metadata", {"deletionTimestamp": "2099-01-01T00:00:00Z"}),
        ("v-n", "metadata", {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}),
        ("v-n", "metadata", {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]}),
        ("v-n", "spec", {"nodeName": "m"}),
        ("n", "status", {"conditions": [{"type": "Ready", "status": "False"}]}),
        ("n", "spec", {"unschedulable": True}),
        ("n", "spec", {"taints": []}),
    ],
)
def test_nothing_is_evicted_if_the_api_server_knows_better_than_the_watch(name: str, part: str, values: t.Any) -> None:
    on = full_nodes("n")
    on.cluster.refuse_eviction = lambda _name, dry_run: hide(on, name, part, **values) if dry_run else None
    on.controller.reconcile()
    assert on.cluster.evicted == []


def test_node_that_the_api_server_has_no_more_is_left() -> None:
    on = full_nodes("n")
    on.cluster.refuse_get = lambda plural, _name: NOT_FOUND if plural == "nodes" else None
    on.controller.reconcile()
    assert on.cluster.evicted == [] and not on.controller.clearing


def test_role_without_get_on_pods_ends_the_rescue_with_its_name() -> None:
    on = full_nodes("n")
    on.cluster.refuse_get = lambda plural, _name: NO_ROLE if plural == "pods" else None
    on.controller.reconcile()
    assert the_task(on).status == "failed" and on.cluster.evicted == [] and on.cluster.held == []


def test_silent_watch_is_not_the_basis_of_a_write() -> None:
    on = full_nodes("n")
    on.cluster.silent = {"pods": 76.0}
    on.controller.reconcile()
    assert on.cluster.evicted == [] and on.cluster.held == []
    assert "pods" in on.notes.errors[0] and "76 s" in on.notes.errors[0]


# --- the scheduler's own time -----------------------------------------------------------------------------------------


def wait_over(task: RescueTask) -> None:
    """The settle time is over, and so is every other wait."""
    end_settling(task)
    later(task)


def test_plan_is_carried_out_only_after_it_has_been_possible_for_the_settle_time() -> None:
    """The pod has waited for a minute; the node may have opened just now."""
    on = full_nodes("n", settle_time_s=30)
    on.controller.reconcile()
    assert reason_of(on) == "settling" and on.cluster.evicted == []
    wait_over(the_task(on))
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"]


def test_node_that_opens_gives_the_scheduler_its_time_again() -> None:
    on = full_nodes("n", "m", settle_time_s=30)
    on.cluster.nodes["m"]["spec"]["unschedulable"] = True
    on.controller.reconcile()
    wait_over(the_task(on))
    on.cluster.nodes["m"]["spec"]["unschedulable"] = False
    on.controller.reconcile()
    assert reason_of(on) == "settling" and on.cluster.evicted == []


def test_node_that_opens_during_a_rescue_stops_further_evictions_for_the_settle_time() -> None:
    victims = [pod("v1", "450m", on="n"), pod("v2", "450m", on="n"), pod("w", "900m", on="m", priority=5)]
    on = scene([node("n"), node("m")], [*victims, pod("dns", "900m")], settle_time_s=30)
    on.cluster.nodes["m"]["spec"]["unschedulable"] = True
    on.controller.reconcile()
    wait_over(the_task(on))

    def uncordon(_name: str, dry_run: bool) -> None:
        if not dry_run:
            on.cluster.nodes["m"]["spec"]["unschedulable"] = False

    on.cluster.refuse_eviction = uncordon
    on.controller.reconcile()
    assert len(on.cluster.evicted) == 1
    wait_over(the_task(on))
    on.controller.reconcile()
    assert len(on.cluster.evicted) == 2


def test_nomination_by_the_scheduler_gives_it_its_time_again() -> None:
    """The nomination may be seen before the scheduler's victims are."""
    on = full_nodes("n", settle_time_s=30)
    on.controller.reconcile()
    wait_over(the_task(on))
    on.cluster.pods["dns"]["status"]["nominatedNodeName"] = "n"
    on.controller.reconcile()
    assert reason_of(on) == "settling" and on.cluster.evicted == []


def test_settle_time_begins_again_only_so_often() -> None:
    """On a cluster where nodes open without end a rescue is delayed by ten settle times in ten minutes."""
    task = RescueTask(Pod(), 0.0, 0.0)
    for second in range(590):
        task.restart_settling(float(second), 2.0)
    assert task.settles_at_s == 20.0
    task.restart_settling(601.0, 2.0)
    assert task.settles_at_s == 603.0


@pytest.mark.parametrize("settle_time_s", [2.0, 60.0, 300.0, 3600.0])
def test_a_long_settle_time_leaves_time_for_rescues_on_a_cluster_where_nodes_open_without_end(settle_time_s: float) -> None:
    task = RescueTask(Pod(), 0.0, 0.0)
    free = 0
    for second in range(6000):
        task.restart_settling(float(second), settle_time_s)
        free += second >= task.settles_at_s
    assert free >= 2500


# --- pods that are no longer critical, or no longer wait ----------------------------------------------------------------

ANNOTATED = {"scheduler.alpha.kubernetes.io/critical-pod": ""}


def annotated(*, once: bool = True) -> Scene:
    """A pod that is critical by its annotation alone, and a full node with pods that even an ordinary pod could displace."""
    critical = pod("dns", "900m")
    critical["metadata"]["annotations"] = dict(ANNOTATED)
    critical["spec"]["priority"] = 0
    return scene([node("n")], [pod("v1", "450m", on="n", priority=-10), pod("v2", "450m", on="n", priority=-5), critical], once=once)


@pytest.mark.parametrize("once", [True, False])
def test_nothing_more_is_evicted_for_a_pod_that_is_no_longer_critical(once: bool) -> None:
    on = annotated(once=once)

    def take_annotation_away(_name: str, dry_run: bool) -> None:
        if not dry_run:
            on.cluster.pods["dns"]["metadata"]["annotations"] = {}

    on.cluster.refuse_eviction = take_annotation_away
    for _tick in range(2):
        on.controller.reconcile()
    assert on.cluster.evicted == ["v1"] and on.cluster.held == [] and under_way(on) == []
    assert [entry.attempts for entry in on.attempts.kept.values()] == [1], "a pod was evicted for it"
    if once:
        assert (the_task(on).status, reason_of(on)) == ("impossible", "not_critical")
    else:
        assert on.controller.tasks == {}
    assert "Rescued" not in on.cluster.events


def test_annotation_that_is_removed_right_before_an_eviction_stops_it() -> None:
    """The watch does not show it yet. The pod has priority 0, so that a pod of the same priority stays."""
    on = annotated()
    for name in ("v1", "v2"):
        on.cluster.pods[name]["spec"]["priority"] = 0
    on.cluster.refuse_eviction = lambda _name, dry_run: hide(on, "dns", "metadata", annotations={}) if dry_run else None
    on.controller.reconcile()
    assert on.cluster.evicted == []


def test_no_node_is_held_beyond_its_deadline_for_a_pod_that_the_scheduler_no_longer_calls_unschedulable() -> None:
    """Such as with SchedulerError: nothing is evicted for it, and it may stay so for ever."""
    on = full_nodes("n")
    error = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}

    def fail_to_schedule(_name: str, dry_run: bool) -> None:
        if dry_run:
            on.cluster.pods["dns"]["status"]["conditions"] = [error]

    on.cluster.refuse_eviction = fail_to_schedule
    on.controller.reconcile()
    assert on.cluster.held == ["n"] and on.cluster.evicted == [] and on.controller.clearing
    the_task(on).clearing.ends_at_s = time.monotonic() - 1
    later(the_task(on))
    on.controller.reconcile()
    assert on.cluster.held == [] and under_way(on) == [] and not on.controller.clearing
    assert (the_task(on).status, reason_of(on)) == ("failed", "not_cleared")


@pytest.mark.parametrize("takes_over", [True, False])
@pytest.mark.parametrize("pause_s", [0.0, 3600.0])
def test_no_node_is_held_beyond_the_deadline_of_its_hold(takes_over: bool, pause_s: float) -> None:
    """Neither the longer times of a program that takes over extend it, nor a pause before the next request."""
    on = full_nodes("n", wait_timeout_s=1, evict_timeout_s=1)
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else REFUSED
    on.controller.reconcile()
    held, *others = on.controller.holds_seen()
    assert others == [] and on.cluster.held == ["n"]
    working = again(on, wait_timeout_s=3600, evict_timeout_s=3600) if takes_over else on.controller
    working.reconcile()
    assert working.clearing, "it clears the held node"
    time.sleep(max(0.0, held.hold.deadline_s + 1.1 - time.time()))
    (task,) = working.tasks.values()
    task.retry_at_s, task.plan_at_s = time.monotonic() + pause_s, 0.0
    working.reconcile()
    assert on.cluster.held == [] and on.cluster.evicted == []
    assert task.status == "failed" and task.reason is not None and task.reason.code == "not_cleared"


# --- slow answers -------------------------------------------------------------------------------------------------------


def test_slow_answer_is_no_refusal_also_if_refused_evictions_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "WAIT_FOR_ANSWER_S", 0.05)
    on = full_nodes("n", "m", evict_timeout_s=0)

    def slow(name: str, dry_run: bool) -> None:
        time.sleep(0.3)
        if not dry_run:
            on.cluster.pods[name]["metadata"]["deletionTimestamp"] = format_time(time.time() + 1)
            on.cluster.pods[name]["status"]["conditions"] = EVICTED

    on.cluster.refuse_eviction = slow
    deadline_s = time.monotonic() + 30
    while not on.cluster.evicted and time.monotonic() < deadline_s:
        on.controller.reconcile()
        later(the_task(on))
        time.sleep(0.05)
    for _tick in range(3):
        later(the_task(on))
        on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and on.cluster.held == ["n"]


def test_lost_answer_is_no_refusal_before_it_is_known_what_became_of_the_eviction() -> None:
    on = full_nodes("n", "m", evict_timeout_s=0)

    def lose(name: str, dry_run: bool) -> KubeError | None:
        if not dry_run:
            on.cluster.pods[name]["metadata"]["deletionTimestamp"] = format_time(time.time() + 1)
            on.cluster.pods[name]["status"]["conditions"] = EVICTED
        return None if dry_run else LOST

    on.cluster.refuse_eviction = lose
    for _tick in range(3):
        on.controller.reconcile()
        later(the_task(on))
    assert [victim.pod.metadata.name for victim in the_task(on).evicted] == ["v-n"] and on.cluster.held == ["n"]


def test_eviction_that_is_found_out_after_the_node_was_left_is_told_with_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    on = full_nodes("n", evict_timeout_s=0)
    told: list[str] = []
    monkeypatch.setattr(on.cluster, "create_event", lambda _namespace, event: told.append(event["message"]))
    asked: list[str] = []

    def lose(name: str, dry_run: bool) -> KubeError | None:
        if dry_run:
            return None
        asked.append(name)
        if len(asked) > 1:
            del on.cluster.pods[name]
        return LOST

    on.cluster.refuse_eviction = lose
    for _tick in range(3):
        on.controller.reconcile()
        later(the_task(on))
    assert on.cluster.held == [] and len(asked) == 2
    assert any("evicted pod app/v-n from node n for it" in message for message in told), told


# --- a pod that fits on its node ----------------------------------------------------------------------------------------


def test_pod_that_fits_is_planned_again_only_if_its_node_has_changed_or_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    on = full_nodes("n", "m")
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and the_task(on).stage == "binding"
    snapshot, planned = on.cluster.snapshot(), list[str]()
    replan = RescuePlanner.replan_on_node

    def counted(planner: RescuePlanner, of: Pod, node_name: str, *more: t.Any) -> RescuePlan:
        planned.append(node_name)
        return replan(planner, of, node_name, *more)

    monkeypatch.setattr(RescuePlanner, "replan_on_node", counted)
    monkeypatch.setattr(on.cluster, "snapshot", lambda: snapshot)
    the_task(on).plan_at_s = time.monotonic() + 60
    on.controller.reconcile()
    planned.clear()
    on.controller.reconcile()
    assert planned == []
    the_task(on).plan_at_s = 0.0
    on.controller.reconcile()
    assert planned == ["n"]
