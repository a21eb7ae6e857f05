# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A node that only a nomination keeps: no other rescue is under way meanwhile, and the pod is nominated again without a delay."""

from __future__ import annotations

import threading
import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    BudgetError,
    ForbiddenError,
    KubeError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import nomination_alone, run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import QUEUED
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescuePlan, Victim
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan_reasons import ANOTHER_POD_FIRST

from tests.unit.support.fakes import CRITICAL, Scene, clear_nomination, end_of, node, nominated, pod, scene, under_way

REFUSED = BudgetError("Cannot evict pod", status=429, retry_after_s=5.0)
DEADLINE_S = 60.0


def two_rescues(*, first_tolerates: bool, hold: str = "auto") -> Scene:
    """Two full nodes and two critical pods. The first pod has a higher priority, and its node is n; the other one's is m."""
    first = pod("first", "500m", priority=CRITICAL + 1, tolerates=first_tolerates)
    other = pod("other", "500m", tolerates=not first_tolerates)
    for item, name in ((first, "n"), (other, "m")):
        item["spec"]["nodeSelector"] = {"kubernetes.io/hostname": name}
    pods = [pod("v-n", "900m", on="n"), pod("v-m", "900m", on="m"), first, other]
    return scene([node("n"), node("m")], pods, hold=hold)


def again(on: Scene) -> None:
    """Run one more step, which plans for every pod."""
    for task in on.controller.tasks.values():
        task.retry_at_s = task.plan_at_s = 0.0
    on.controller.reconcile()


def code(on: Scene, name: str) -> str:
    """Return the code of the reason of the pod's rescue task."""
    task = on.controller.tasks[f"u-{name}"]
    return task.reason.code if task.reason is not None else ""


def cleared(on: Scene) -> set[str]:
    """The nodes that are being cleared."""
    return {task.clearing.node for task in on.controller.clearing}


def bind(on: Scene, name: str, to: str) -> None:
    """The victim has ended, and the scheduler has bound the pod."""
    del on.cluster.pods[f"v-{to}"]
    on.cluster.pods[name]["spec"]["nodeName"] = to
    on.cluster.touch(on.cluster.pods[name])


def left_to_another() -> Scene:
    """A nomination alone keeps the node of the first pod. It is left, because the other rescue evicts first."""
    on = two_rescues(first_tolerates=False)
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else REFUSED
    on.controller.reconcile()
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    again(on)
    assert on.cluster.evicted == ["v-m"] and on.cluster.held == ["m"] and on.controller.tasks["u-first"].stage == "watched"
    return on


def test_while_a_nomination_alone_keeps_a_node_no_other_rescue_begins() -> None:
    on = two_rescues(first_tolerates=False)
    on.controller.reconcile()
    again(on)
    assert on.cluster.evicted == ["v-n"] and code(on, "other") == "queued" and cleared(on) == {"n"}
    bind(on, "first", "n")
    again(on)
    assert on.cluster.evicted == ["v-n", "v-m"]


def test_no_other_rescue_begins_while_the_first_eviction_is_not_answered_yet() -> None:
    on, answered = two_rescues(first_tolerates=False), threading.Event()

    def slow(name: str, dry_run: bool) -> KubeError | None:
        if name == "v-n" and not dry_run:
            answered.wait(DEADLINE_S)
        return None

    on.cluster.refuse_eviction = slow
    try:
        on.controller.reconcile()
        again(on)
        assert list(on.controller.tasks["u-first"].uncertain_evictions) == ["u-v-n"]
        assert on.cluster.evicted == [] and code(on, "other") == "queued" and cleared(on) == {"n"}
    finally:
        answered.set()


def test_a_pod_that_is_not_bound_delays_other_rescues_only_while_its_victim_ends() -> None:
    on = two_rescues(first_tolerates=False)
    on.controller.reconcile()
    task = on.controller.tasks["u-first"]
    task.grace_ends_at_s = dict.fromkeys(task.grace_ends_at_s, time.monotonic() - 16)
    again(on)
    assert on.cluster.evicted == ["v-n", "v-m"]


def test_a_rescue_that_a_nomination_alone_would_keep_begins_after_those_that_are_under_way() -> None:
    on = two_rescues(first_tolerates=True)
    on.cluster.refuse_eviction = lambda name, dry_run: REFUSED if name == "v-n" and not dry_run else None
    on.controller.reconcile()
    again(on)
    assert on.cluster.evicted == [] and code(on, "other") == "queued" and on.cluster.held == ["n"]
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    again(on)
    again(on)
    assert on.cluster.evicted == ["v-n"] and code(on, "other") == "others_terminating"
    bind(on, "first", "n")
    again(on)
    assert on.cluster.evicted == ["v-n", "v-m"]


def test_a_rescue_whose_eviction_was_refused_evicts_nothing_while_another_is_under_way() -> None:
    on = two_rescues(first_tolerates=False)
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else REFUSED
    on.controller.reconcile()
    assert cleared(on) == {"n", "m"}, "a budget that turns down the first one does not keep the other one from beginning"
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    again(on)
    assert on.cluster.evicted == ["v-m"] and on.cluster.held == ["m"]


def test_a_rescue_that_has_left_its_node_to_another_rescue_begins_there_again_afterwards() -> None:
    on = left_to_another()
    first = on.controller.tasks["u-first"]
    assert (first.status, code(on, "first")) == ("waiting", "queued") and first.excluded_nodes == {}
    assert first.plan_at_s <= time.monotonic() + 1
    again(on)
    assert (first.status, code(on, "first")) == ("waiting", "others_terminating")
    assert end_of(on, run._Clock(600)) is None, "the run waits for it"
    bind(on, "other", "m")
    again(on)
    assert on.cluster.evicted == ["v-m", "v-n"] and cleared(on) == {"n"}


def test_a_wait_for_pods_of_other_nodes_uses_up_no_patience_for_capacity_that_becomes_free() -> None:
    on = two_rescues(first_tolerates=False)
    del on.cluster.pods["other"]
    on.cluster.assume_terminating("u-v-m", format_time(time.time() + 5))
    on.controller.reconcile()
    first = on.controller.tasks["u-first"]
    assert code(on, "first") == "others_terminating"
    past = time.monotonic() + first.max_wait_s + 1
    context = first.context(past)
    assert (context.awaits_terminating, context.awaits_others) == (True, False)
    first.set_plan(RescuePlan(first.pod, "waiting", Reason("capacity_becoming_free", "x")), time.monotonic())
    assert not first.context(past).awaits_terminating


def add_third(on: Scene, to: str) -> None:
    """Add the full node l, and a critical pod with a lower priority that fits only on the node ``to``."""
    third = pod("third", "500m")
    third["spec"]["nodeSelector"] = {"kubernetes.io/hostname": to}
    on.cluster.nodes["l"] = node("l")
    for item in (third, pod("v-l", "900m", on="l")):
        on.cluster.pods[item["metadata"]["name"]] = item
        on.cluster.touch(item)


@pytest.mark.parametrize("waited", [False, True])
def test_a_rescue_that_has_waited_long_for_others_is_the_next_to_begin(waited: bool) -> None:
    """Pods that have a lower priority and tolerate the taint come one after the other."""
    on = two_rescues(first_tolerates=True)
    on.cluster.pods["other"]["spec"]["priority"] = CRITICAL + 2
    on.cluster.refuse_eviction = lambda name, dry_run: None if dry_run or name != "v-n" else REFUSED
    on.cluster.pods["other"]["status"]["conditions"] = []
    on.controller.reconcile()
    on.cluster.pods["other"]["status"]["conditions"] = on.cluster.pods["first"]["status"]["conditions"]
    again(on)
    assert code(on, "other") == "queued" and on.cluster.held == ["n"]
    other = on.controller.tasks["u-other"]
    if waited:
        other.waits[QUEUED] -= other.max_wait_s + 1
    add_third(on, "l")
    again(on)
    assert ("v-l" in on.cluster.evicted) is not waited
    if waited:
        assert code(on, "third") == "queued"
        on.cluster.refuse_eviction = lambda _name, _dry_run: None
        bind(on, "first", "n")
        again(on)
        assert on.cluster.evicted == ["v-m"]


def queued_on(to: str) -> Scene:
    """The pod ``other``, with the node m, waits for a rescue on the node n. A pod with a lower priority fits only on the node ``to``."""
    on = two_rescues(first_tolerates=True)
    on.cluster.pods["other"]["spec"]["priority"] = CRITICAL + 1
    on.cluster.refuse_eviction = lambda name, dry_run: None if dry_run or name != "v-n" else REFUSED
    add_third(on, to)
    again(on)
    again(on)
    return on


def test_node_of_a_queued_pod_is_not_cleared_for_a_pod_with_a_lower_priority() -> None:
    on = queued_on("m")
    assert on.cluster.evicted == [] and (code(on, "other"), code(on, "third")) == ("queued", "another_pod_first")
    assert queued_on("l").cluster.evicted == ["v-l"], "on another node it does not wait"


def test_queued_pod_delays_a_pod_with_a_lower_priority_only_for_a_time() -> None:
    on = queued_on("m")
    third = on.controller.tasks["u-third"]
    third.waits[ANOTHER_POD_FIRST] -= third.max_wait_s + 1
    again(on)
    again(on)
    assert on.cluster.evicted == ["v-m"] and on.cluster.held == ["n", "m"]


@pytest.mark.parametrize("evicted", [False, True])
def test_the_end_of_a_run_leaves_no_attempt_under_way(evicted: bool) -> None:
    on = left_to_another()
    first = on.controller.tasks["u-first"]
    if evicted:
        first.evicted.append(Victim(on.cluster.pod("u-v-n") or Pod(), 0, Reason("x", "x"), 1))
    bind(on, "other", "m")
    on.controller.accepts_new = False
    again(on)
    assert under_way(on) == ["u-first"]
    on.controller.record_open_attempts()
    assert under_way(on) == [] and sum(entry.attempts for entry in on.attempts.kept.values()) == evicted
    assert not first.is_finished, "the result says what the pod waits for"


def test_a_rescue_is_under_way_until_the_last_of_its_victims_is_evicted() -> None:
    """A budget refuses the second eviction for longer than the first victim takes to end."""
    on = two_rescues(first_tolerates=True)
    on.cluster.pods["v-n"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    on.cluster.pods["w-n"] = pod("w-n", "400m", on="n", priority=1)
    on.cluster.pods["first"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "900m"
    on.cluster.refuse_eviction = lambda name, dry_run: REFUSED if name == "w-n" and not dry_run else None
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"]
    del on.cluster.pods["v-n"]
    first = on.controller.tasks["u-first"]
    first.grace_ends_at_s = dict.fromkeys(first.grace_ends_at_s, time.monotonic() - 60)
    again(on)
    assert on.cluster.evicted == ["v-n"] and code(on, "other") == "queued" and on.cluster.held == ["n"]
    del on.cluster.pods["w-n"]
    again(on)
    assert on.cluster.evicted == ["v-n", "v-m"], "no planned pod is left on the node"


def test_a_rescue_that_a_taint_keeps_waits_with_its_node_while_a_nomination_alone_keeps_another_one() -> None:
    on = two_rescues(first_tolerates=False)
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else REFUSED
    on.controller.reconcile()
    assert cleared(on) == {"n", "m"} and on.cluster.evicted == []
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    first = on.controller.tasks["u-first"]
    first.evicted.append(Victim(on.cluster.pod("u-v-n") or Pod(), 0, Reason("x", "x"), 1))
    first.grace_ends_at_s["u-v-n"] = time.monotonic() + 1
    on.cluster.assume_terminating("u-v-n")
    again(on)
    assert on.cluster.evicted == [] and cleared(on) == {"n", "m"} and on.controller.tasks["u-other"].is_clearing
    bind(on, "first", "n")
    again(on)
    assert on.cluster.evicted == ["v-m"]


def test_rescues_that_keep_no_capacity_do_not_wait_for_each_other() -> None:
    on = two_rescues(first_tolerates=False, hold="none")
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n", "v-m"]


def test_rescues_that_a_taint_keeps_do_not_wait_for_each_other() -> None:
    on = two_rescues(first_tolerates=True)
    on.cluster.pods["other"]["spec"]["tolerations"] = on.cluster.pods["first"]["spec"]["tolerations"]
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n", "v-m"]


# --- the renewal ------------------------------------------------------------------------------------------------------


def one_rescue(*, tolerates: bool = False) -> Scene:
    """The victim has been evicted, and the pod is nominated."""
    on = scene([node("n")], [pod("v-n", "900m", on="n"), pod("dns", "500m", tolerates=tolerates)])
    on.controller.reconcile()
    assert nominated(on) == "n"
    return on


def clear(on: Scene) -> None:
    """The scheduler has tried the pod without success, and the watch shows it."""
    clear_nomination(on)
    on.cluster.version += 1


def test_it_is_nominated_again_while_the_program_does_something_else() -> None:
    on = one_rescue()
    with on.controller.nominations.renewed():
        for _attempt in range(3):
            clear(on)
            deadline_s = time.monotonic() + DEADLINE_S
            while nominated(on) != "n" and time.monotonic() < deadline_s:
                time.sleep(0.01)
            assert nominated(on) == "n"


class _LateEntry(dict[str, t.Any]):
    """A pod is nominated directly after the renewal has found that there is none."""

    def __init__(self, nominations: t.Any, kept: dict[str, t.Any]) -> None:
        super().__init__()
        self._nominations, self._late = nominations, kept

    def __bool__(self) -> bool:
        if self._late:
            self._nominations._kept = self._late
            self._nominations._any.set()
            self._late = {}
            return False
        return True


def test_a_nomination_that_comes_while_the_renewal_finds_nothing_to_do_is_renewed_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    on = one_rescue()
    nominations: t.Any = on.controller.nominations
    monkeypatch.setattr(nomination_alone, "WAIT_S", 2 * DEADLINE_S)
    nominations._kept = _LateEntry(nominations, nominations._kept)
    clear(on)
    with nominations.renewed():
        deadline_s = time.monotonic() + DEADLINE_S / 6
        while nominated(on) != "n" and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert nominated(on) == "n"
        nominations._stopping = True
        on.cluster.version += 1


def test_a_version_of_the_pod_is_nominated_once() -> None:
    on = one_rescue()
    clear(on)
    version = on.cluster.pods["dns"]["metadata"]["resourceVersion"]
    on.controller.nominations.renew()
    patches = on.cluster.patches
    on.cluster.pods["dns"]["status"].pop("nominatedNodeName")  # the watch does not show it yet
    on.cluster.pods["dns"]["metadata"]["resourceVersion"] = version
    on.controller.nominations.renew()
    on.controller.reconcile()
    assert on.cluster.patches == patches


@pytest.mark.parametrize("end", ["released", "lease lost", "abandoned", "bound", "nominated by another client"])
def test_it_is_not_nominated_again_when_that_is_over(end: str) -> None:
    on = one_rescue()
    if end == "released":
        on.controller.release_own_holds()
    clear(on)
    if end == "lease lost":
        on.lease.held = False
    elif end == "abandoned":
        on.controller.abandon()
    elif end == "bound":
        on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    elif end == "nominated by another client":
        on.cluster.pods["dns"]["status"]["nominatedNodeName"] = "other"
    patches = on.cluster.patches
    on.controller.nominations.renew()
    assert on.cluster.patches == patches


@pytest.mark.parametrize(
    "error",
    [ApiError("etcd", status=500, reason="InternalError"), ForbiddenError('User "me" cannot patch resource "pods/status"', status=403)],
)
def test_the_step_of_the_rescue_reports_a_renewal_that_fails(error: KubeError) -> None:
    on = one_rescue()
    clear(on)
    on.cluster.refuse_patch = lambda _name, _release: error
    on.controller.nominations.renew()
    assert nominated(on) == "" and not on.notes.errors
    on.controller.reconcile()
    assert any(str(error) in text for text in on.notes.errors)


def test_beside_a_taint_it_is_nominated_again_as_quickly() -> None:
    """Other critical pods tolerate the taint too."""
    on = one_rescue(tolerates=True)
    clear(on)
    on.controller.nominations.renew()
    assert nominated(on) == "n"
