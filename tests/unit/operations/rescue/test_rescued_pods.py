# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A rescued pod that loses its node counts as a failed attempt. One that finishes, is deleted by its owner or stays does not."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import LASTS_S, AttemptRecord

from tests.unit.support.fakes import Json, Scene, again, key_of, node, pod, scene

DNS = key_of(pod("dns", "500m"))
NO_ROLE = ForbiddenError('events is forbidden: User "me" cannot list resource "events"', status=403)
PREEMPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
STARTED = {"containerStatuses": [{"name": "main"}]}


def rescued() -> Scene:
    """The pod dns was rescued on node n; node m is full."""
    victims = [pod(f"v-{name}", "900m", on=name, priority=number) for number, name in enumerate(("n", "m"))]
    on = scene([node("n"), node("m")], [*victims, pod("dns", "500m")], once=False)
    on.controller.reconcile()
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.cluster.pods["dns"]["status"] = {"phase": "Running", **STARTED}
    on.controller.reconcile()
    assert list(entry(on).rescued) == ["u-dns"]
    return on


def entry(on: Scene) -> AttemptRecord:
    return on.attempts.kept.get(DNS) or AttemptRecord(0, format_time(0), "none")


def terminating(after_s: float = 0, **status: t.Any) -> Json:
    """Changes of a pod that is deleted with a grace period of a second."""
    return {"metadata": {"deletionTimestamp": format_time(time.time() + after_s + 1)}, "status": status}


def change(on: Scene, changes: Json) -> Json:
    item = on.cluster.pods["dns"]
    for part, values in changes.items():
        item[part] = {**item[part], **values}
    return item


def delete(on: Scene, changes: Json, *, seen: bool = True) -> None:
    """Delete the pod. ``seen``: the watch has shown its last state."""
    item = change(on, changes)
    del on.cluster.pods["dns"]
    if seen:
        on.cluster.deleted["u-dns"] = item


def age(on: Scene, seconds: float) -> float:
    """So many seconds have passed since the pod was bound; the time from which they are counted."""
    now_s = time.time()
    on.attempts.kept[DNS] = replace(entry(on), rescued={"u-dns": format_time(now_s - seconds)})
    return now_s


LOSSES = {
    "preempted": terminating(**PREEMPTED),
    "evicted by its kubelet": {"status": {"phase": "Failed", **PREEMPTED, **STARTED}},
    "rejected by its kubelet": {"status": {"phase": "Failed", "reason": "OutOfcpu", "containerStatuses": None}},
}
ENDS = {
    "succeeded": {"status": {"phase": "Succeeded", **STARTED}},
    "failed": {"status": {"phase": "Failed", **STARTED}},
    "deleted": terminating(**STARTED),
    "condition is false": terminating(conditions=[{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]),
}


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("how", LOSSES)
def test_loss_of_the_node_is_counted_when_it_happens_and_not_only_when_the_next_pod_is_planned(how: str, gone: bool) -> None:
    on = rescued()
    if gone:
        delete(on, LOSSES[how])
    else:
        change(on, LOSSES[how])
    on.controller.reconcile()
    assert (entry(on).attempts, list(entry(on).lost)) == (1, ["u-dns"])


@pytest.mark.parametrize("how", ENDS)
def test_pod_that_has_finished_or_was_deleted_by_its_owner_is_not_lost(how: str) -> None:
    on = rescued()
    delete(on, ENDS[how])
    on.cluster.pods["dns2"] = pod("dns2", "500m", owner="dns")
    on.cluster.touch(on.cluster.pods["dns2"])
    on.cluster.pods["bully"] = pod("bully", "900m", on="n", priority=2_000_001_000)
    on.controller.reconcile()
    assert entry(on).attempts == 0 and on.cluster.evicted == ["v-n", "v-m"], "the next pod is rescued"


@pytest.mark.parametrize("how", ["succeeded", "failed"])
def test_finished_pod_that_is_still_there_is_not_lost(how: str) -> None:
    on = rescued()
    change(on, ENDS[how])
    on.controller.reconcile()
    assert on.attempts.kept == {}


def test_pod_that_terminates_is_judged_by_what_its_last_state_shows() -> None:
    """The watch may show the deletion before the condition."""
    on = rescued()
    change(on, terminating())
    on.controller.reconcile()
    assert list(entry(on).rescued) == ["u-dns"]
    delete(on, terminating(**PREEMPTED))
    on.controller.reconcile()
    assert entry(on).attempts == 1


@pytest.mark.parametrize(("age_s", "left"), [(LASTS_S - 5, ["u-dns"]), (LASTS_S, [])])
def test_pod_that_is_seen_on_its_node_after_ten_minutes_has_lasted(age_s: float, left: list[str]) -> None:
    on = rescued()
    before = format_time(age(on, age_s) - age_s - 60)
    on.attempts.kept[DNS] = replace(entry(on), attempts=1, lost={"u-before": before})
    again(on).reconcile()
    assert list(entry(on).rescued) == left and entry(on).attempts == len(left)


def test_loss_before_ten_minutes_is_counted_by_a_program_that_sees_it_later() -> None:
    on = rescued()
    age(on, LASTS_S + 60)
    change(on, terminating(-120, **PREEMPTED))
    again(on).reconcile()
    assert entry(on).attempts == 1


def test_loss_after_ten_minutes_is_no_failure() -> None:
    on = rescued()
    age(on, LASTS_S + 3600)
    delete(on, terminating(**PREEMPTED))
    again(on).reconcile()
    assert entry(on).attempts == 0


@pytest.mark.parametrize(
    ("reason", "age_s", "told_ago_s", "attempts"),
    [
        ("Preempted", 60, 5, 1),
        ("TaintManagerEviction", 60, 5, 1),
        ("Preempted", LASTS_S + 600, LASTS_S, 1),
        ("Preempted", LASTS_S + 600, 5, 0),
        ("Killing", 60, 5, 0),
        ("", 60, 5, 0),
    ],
)
def test_events_show_the_end_of_a_pod_that_the_watch_has_not_shown(reason: str, age_s: float, told_ago_s: float, attempts: int) -> None:
    on = rescued()
    now_s = age(on, age_s)
    delete(on, {}, seen=False)
    on.cluster.told = [("u-dns", reason, format_time(now_s - told_ago_s)), ("u-other", "Preempted", format_time(now_s))]
    again(on).reconcile()
    assert (entry(on).attempts, entry(on).rescued) == (attempts, {})


@pytest.mark.parametrize(("age_s", "attempts"), [(60, 1), (LASTS_S + 1, 0)])
def test_pod_that_is_gone_soon_counts_as_lost_where_events_may_not_be_read(age_s: float, attempts: int) -> None:
    on = rescued()
    age(on, age_s)
    delete(on, {}, seen=False)
    on.cluster.refuse_events = NO_ROLE
    again(on).reconcile()
    assert entry(on).attempts == attempts


def test_what_cannot_be_found_out_now_stays_open() -> None:
    on = rescued()
    delete(on, {}, seen=False)
    on.cluster.refuse_events = UnreachableError("no answer")
    again(on).reconcile()
    assert list(entry(on).rescued) == ["u-dns"]
    on.cluster.refuse_events = None
    again(on).reconcile()
    assert entry(on).rescued == {}


@pytest.mark.parametrize(("told", "status", "code"), [(True, "waiting", "backoff"), (False, "planned", "evictions_help")])
def test_check_mode_judges_rescued_pods_and_writes_nothing(told: bool, status: str, code: str) -> None:
    on = rescued()
    delete(on, {}, seen=False)
    on.cluster.told = [("u-dns", "Preempted", format_time(time.time()))] if told else []
    on.cluster.pods["bully"] = pod("bully", "900m", on="n", priority=2_000_001_000)
    on.cluster.pods["dns2"] = pod("dns2", "500m", owner="dns")
    on.cluster.touch(on.cluster.pods["dns2"])
    other = scene([], [], dry_run=True)
    other.attempts.kept.update(on.attempts.kept)
    other.cluster.nodes, other.cluster.pods, other.cluster.told = on.cluster.nodes, on.cluster.pods, on.cluster.told
    other.controller.reconcile()
    (task,) = other.controller.tasks.values()
    assert task.reason is not None and (task.status, task.reason.code) == (status, code)
    assert other.attempts.kept == on.attempts.kept


def test_owner_reference_that_changes_between_two_attempts_does_not_clear_the_count() -> None:
    victims = [pod(f"v-{name}", "900m", on=name, priority=number) for number, name in enumerate(("n", "m"))]
    on = scene([node("n"), node("m")], [*victims, pod("dns", "500m")], once=False, wait_timeout_s=1)
    on.controller.reconcile()
    del on.cluster.pods["v-n"]
    (task,) = on.controller.tasks.values()
    task.clearing.give_up_at_s = time.monotonic() - 1
    on.controller.reconcile()
    assert entry(on).attempts == 1
    on.cluster.pods["bully"] = pod("bully", "900m", on="n", priority=2_000_001_000)
    on.cluster.pods["dns"]["metadata"]["ownerReferences"][0]["uid"] = "hold.n"
    other = again(on)
    other.reconcile()
    (task,) = other.tasks.values()
    assert task.reason is not None and task.reason.code == "backoff" and on.cluster.evicted == ["v-n"]
