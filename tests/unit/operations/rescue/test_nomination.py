# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Capacity that no taint can hold: the pod is nominated for the node, and again after the scheduler clears the nomination."""

from __future__ import annotations

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
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import run

from tests.unit.support.fakes import Scene, again, clear_nomination, full_nodes, node, nominated, pod, scene

NO_ROLE = ForbiddenError('pods "dns" is forbidden: User "me" cannot patch resource "pods/status"', status=403)
TROUBLE = ApiError("etcd", status=500, reason="InternalError")


def without_toleration(*names: str, **options: int) -> Scene:
    """Full nodes, and a critical pod that tolerates no taint."""
    return full_nodes(*names, tolerates=False, **options)


def due(on: Scene) -> None:
    """Every case is judged with the next step."""
    for task in on.controller.tasks.values():
        task.retry_at_s = task.plan_at_s = 0.0


def test_it_is_nominated_before_anything_leaves_and_as_long_as_it_waits() -> None:
    on = without_toleration("n")
    asked: list[str] = []
    on.cluster.refuse_eviction = lambda _name, dry_run: asked.append(nominated(on) if not dry_run else "dry run")
    on.controller.reconcile()
    assert asked == ["dry run", "n"] and on.controller.clearing and not on.cluster.nodes["n"]["spec"].get("taints")
    patches = on.cluster.patches
    on.controller.reconcile()
    assert on.cluster.patches == patches, "nothing is to be done"
    clear_nomination(on)
    on.controller.reconcile()
    assert nominated(on) == "n" and on.cluster.patches == patches + 1
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    assert task.status == "rescued" and on.cluster.held == []
    assert on.cluster.patches == patches + 1, "a bound pod is not patched"


def test_a_watch_that_lags_behind_makes_no_second_nomination() -> None:
    on = without_toleration("n")
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    patches = on.cluster.patches
    on.cluster.pods["dns"]["status"].pop("nominatedNodeName")
    on.cluster.pods["dns"]["metadata"]["resourceVersion"] = task.clearing.nominated_version
    on.controller.reconcile()
    assert on.cluster.patches == patches


def test_the_nomination_goes_with_the_node() -> None:
    on = without_toleration("n", "m")
    on.controller.reconcile()
    on.cluster.nodes["n"]["spec"]["unschedulable"] = True
    on.controller.reconcile()
    assert nominated(on) == "", "the end of the first victim would make the scheduler clear the nomination for the other node"
    del on.cluster.pods["v-n"]
    due(on)
    on.controller.reconcile()
    assert nominated(on) == "m" and on.cluster.evicted == ["v-n", "v-m"]


@pytest.mark.parametrize("end", ["stopped", "without effect"])
def test_nothing_is_left_of_it(end: str) -> None:
    on = without_toleration("n", wait_timeout_s=1)
    on.controller.reconcile()
    assert nominated(on) == "n"
    if end == "stopped":
        on.controller.release_own_holds()
    else:
        del on.cluster.pods["v-n"]
        (task,) = on.controller.tasks.values()
        task.clearing.give_up_at_s = time.monotonic() - 1
        on.controller.reconcile()
        assert task.status == "failed"
    assert nominated(on) == ""


def test_a_nomination_by_another_client_meanwhile_is_not_removed() -> None:
    on = without_toleration("n")
    on.controller.reconcile()
    on.cluster.pods["dns"]["status"]["nominatedNodeName"] = "other"
    on.controller.release_all_holds()
    assert nominated(on) == "other"


def test_who_has_lost_the_lease_takes_nothing_away() -> None:
    on = without_toleration("n")
    on.controller.reconcile()
    on.lease.held = False
    clear_nomination(on)
    on.controller.reconcile()
    on.controller.abandon()
    assert nominated(on) == "" and not on.controller.clearing


def test_a_nomination_of_the_scheduler_is_not_changed() -> None:
    """It preempts on another node while an eviction is waited for."""
    on = without_toleration("n", "m")
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else BudgetError("not now", status=429)
    on.controller.reconcile()
    assert nominated(on) == "n" and on.cluster.evicted == []
    on.cluster.pods["dns"]["status"]["nominatedNodeName"] = "m"
    on.cluster.touch(on.cluster.pods["dns"])
    on.cluster.pods["v-m"]["metadata"]["deletionTimestamp"] = format_time(time.time() + 5)
    (task,) = on.controller.tasks.values()
    task.retry_at_s = 0.0
    on.controller.reconcile()
    assert nominated(on) == "m" and task.reason is not None and task.reason.code == "preemption_under_way" and on.cluster.evicted == []


def test_a_nomination_whose_victims_hang_is_not_changed() -> None:
    """Without it the scheduler would preempt once more, on a third node."""
    on = without_toleration("n", "m")
    on.cluster.pods["dns"]["status"]["nominatedNodeName"] = "m"
    on.cluster.pods["v-m"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    on.cluster.pods["v-m"]["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and nominated(on) == "m"
    on.controller.release_all_holds()
    assert nominated(on) == "m"


def test_nomination_of_a_killed_run_for_another_node_is_withdrawn_before_anything_is_evicted() -> None:
    on = without_toleration("n", "m")
    on.cluster.refuse_eviction = lambda name, dry_run: BudgetError("not now", status=429) if name == "v-n" and not dry_run else None
    on.controller.reconcile()
    assert nominated(on) == "n" and on.cluster.evicted == []
    on.cluster.nodes["n"]["spec"]["unschedulable"] = True
    other = again(on)
    other.reconcile()
    assert nominated(on) == "" and on.cluster.evicted == []
    for task in other.tasks.values():
        task.plan_at_s = 0.0
    other.reconcile()
    assert nominated(on) == "m" and on.cluster.evicted == ["v-m"]


def test_a_pod_that_is_bound_meanwhile_is_not_nominated() -> None:
    on = without_toleration("n")
    on.cluster.refuse_patch = lambda _name, _release: on.cluster.pods["dns"]["spec"].update(nodeName="m")
    on.controller.reconcile()
    assert nominated(on) == "" and on.cluster.evicted == []


def test_an_answer_that_is_lost_leaves_no_nomination_behind() -> None:
    on = without_toleration("n")

    def written_and_lost(_name: str, _release: bool) -> KubeError:
        on.cluster.pods["dns"]["status"]["nominatedNodeName"] = "n"
        return UnreachableError("gone")

    def trouble_with_the_pod(name: str, release: bool) -> KubeError | None:
        return written_and_lost(name, release) if name == "dns" and on.controller.clearing else None

    on.cluster.refuse_patch = trouble_with_the_pod
    on.controller.reconcile()
    assert nominated(on) == "n" and on.cluster.evicted == []
    on.cluster.refuse_patch = lambda _name, _release: None
    on.controller.release_own_holds()
    assert nominated(on) == ""


def test_a_conflict_ends_nothing() -> None:
    on = without_toleration("n")
    on.cluster.refuse_patch = lambda _name, _release: ConflictError("changed", status=409)
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    assert on.cluster.evicted == [] and not task.is_finished
    on.cluster.refuse_patch = lambda _name, _release: None
    task.plan_at_s = 0.0
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"]
    clear_nomination(on)
    on.cluster.refuse_patch = lambda _name, _release: ConflictError("changed", status=409)
    on.controller.reconcile()
    assert not task.is_finished and nominated(on) == ""
    on.cluster.refuse_patch = lambda _name, _release: None
    task.retry_at_s = 0.0
    on.controller.reconcile()
    assert nominated(on) == "n"


def test_a_nomination_that_cannot_be_removed_at_the_end_is_reported() -> None:
    """The scheduler clears it after its next try."""
    on = without_toleration("n")
    on.controller.reconcile()
    del on.cluster.pods["v-n"]
    (task,) = on.controller.tasks.values()
    task.clearing.give_up_at_s = time.monotonic() - 1
    on.cluster.refuse_patch = lambda _name, release: TROUBLE if release else None
    on.controller.reconcile()
    assert task.status == "failed" and any("still nominated for node n" in text for text in on.notes.errors)


@pytest.mark.parametrize("scheduler", ["default-scheduler", "second-scheduler"])
def test_what_a_killed_run_leaves_behind_is_gone_on_with(scheduler: str) -> None:
    """The scheduler forgets the nomination while nobody is there."""
    on = without_toleration("n")
    for item in on.cluster.pods.values():
        item["spec"]["schedulerName"] = scheduler
    on.controller.reconcile()
    on.cluster.pods["v-n"]["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    on.controller.tasks.clear()
    clear_nomination(on)
    on.lease.held = False
    on.controller.reconcile()
    assert nominated(on) == "" and run._needs_lease(on.controller), "the Lease is asked for"
    on.lease.held = True
    due(on)
    on.controller.reconcile()
    assert nominated(on) == "n" and on.cluster.evicted == ["v-n"]
    del on.cluster.pods["v-n"]
    on.cluster.pods["dns"]["spec"]["nodeName"] = "n"
    on.controller.reconcile()
    assert on.cluster.held == [] and [entry.under_way for entry in on.attempts.kept.values()] == [{}]


def test_a_node_is_not_kept_for_ever_by_a_nomination_that_stays() -> None:
    on = without_toleration("n")
    on.controller.reconcile()
    on.cluster.nodes["n"]["spec"]["unschedulable"] = True
    on.cluster.refuse_patch = lambda _name, release: NO_ROLE if release else None
    (task,) = on.controller.tasks.values()
    task.clearing.give_up_at_s = time.monotonic() - 1
    on.controller.reconcile()
    assert task.status == "failed" and not on.controller.clearing


def test_the_taint_that_needed_no_hold_is_removed_meanwhile() -> None:
    taint = {"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}
    kept = {**node("n"), "spec": {"taints": [taint]}}
    on = scene([kept], [pod("v1", "450m", on="n"), pod("v2", "450m", on="n"), pod("dns", "900m")])
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else BudgetError("not now", status=429)
    on.controller.reconcile()
    assert on.cluster.held == [] and on.controller.clearing
    on.cluster.nodes["n"]["spec"]["taints"] = []
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    (task,) = on.controller.tasks.values()
    task.retry_at_s = 0.0
    on.controller.reconcile()
    assert on.cluster.evicted == [] and not on.controller.clearing


@pytest.mark.parametrize("error", [NO_ROLE, InvalidError("no", status=422)])
def test_what_may_not_be_nominated_is_not_evicted_for(error: KubeError) -> None:
    on = without_toleration("n")
    on.cluster.refuse_patch = lambda _name, _release: error
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    assert task.status == "failed" and str(error) in str(task.reason) and on.cluster.evicted == [] and on.attempts.kept == {}


def test_a_nomination_that_cannot_be_removed_yet_is_tried_again() -> None:
    on = without_toleration("n", "m")
    on.controller.reconcile()
    on.cluster.nodes["n"]["spec"]["unschedulable"] = True
    on.cluster.refuse_patch = lambda _name, release: TROUBLE if release else None
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    assert nominated(on) == "n" and task.clearing.node == "n" and on.cluster.evicted == ["v-n"]
    on.cluster.refuse_patch = lambda _name, _release: None
    del on.cluster.pods["v-n"]
    task.retry_at_s = task.plan_at_s = 0.0
    on.controller.reconcile()
    assert nominated(on) == "m"


def test_a_pod_that_has_gone_is_not_nominated() -> None:
    on = without_toleration("n")
    gone = on.cluster.pods["dns"]
    on.cluster.refuse_patch = lambda _name, _release: on.cluster.pods.pop("dns", None) and None
    on.controller.reconcile()
    assert "nominatedNodeName" not in gone["status"] and on.cluster.evicted == []


def test_a_plan_nominates_nobody() -> None:
    on = scene([node("n")], [pod("v", "900m", on="n"), pod("dns", "500m", tolerates=False)], dry_run=True)
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    assert task.status == "planned" and nominated(on) == "" and on.cluster.patches == 1, "the server was asked"


def test_a_plan_takes_no_nomination_away() -> None:
    on = without_toleration("n", "m", dry_run=True)
    on.cluster.pods["dns"]["status"]["nominatedNodeName"] = "n"
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    assert task.status == "planned" and nominated(on) == "n" and on.cluster.held == []


def test_a_plan_ends_where_the_nomination_is_refused() -> None:
    on = without_toleration("n", dry_run=True)
    on.cluster.refuse_patch = lambda _name, _release: InvalidError("webhook does not support dry run", status=400)
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    assert task.status == "failed" and "dry run" in str(task.reason)


# --- beside a taint ---------------------------------------------------------------------------------------------------


def taints(on: Scene) -> list[str]:
    return [taint["key"] for taint in on.cluster.nodes["n"]["spec"].get("taints") or ()]


@pytest.mark.parametrize("hold", ["auto", "taint", "none"])
def test_pod_is_nominated_beside_the_taint_before_anything_is_evicted_and_again_after_each_failed_attempt(hold: str) -> None:
    on = full_nodes("n", hold=hold)
    asked: list[tuple[str, list[str]]] = []
    on.cluster.refuse_eviction = lambda _name, dry_run: asked.append((nominated(on), taints(on))) if not dry_run else None
    on.controller.reconcile()
    assert asked == [("n", [] if hold == "none" else ["CriticalAddonsOnly"])]
    for _attempt in range(3):
        clear_nomination(on)
        on.controller.reconcile()
        assert nominated(on) == "n"


def test_nomination_beside_a_taint_ends_with_the_hold() -> None:
    on = full_nodes("n")
    on.controller.reconcile()
    on.controller.release_all_holds()
    assert nominated(on) == "" and taints(on) == []


def test_nomination_by_the_scheduler_stays_beside_a_taint() -> None:
    on = full_nodes("n", "m")
    on.cluster.pods["dns"]["status"]["nominatedNodeName"] = "gone"
    on.controller.reconcile()
    assert nominated(on) == "gone" and on.cluster.evicted == ["v-n"]
    on.controller.release_all_holds()
    assert nominated(on) == "gone"


def test_missing_role_for_the_nomination_beside_a_taint_is_said_once_and_stops_nothing() -> None:
    on = full_nodes("n", "m")
    asked: list[str] = []

    def refuse(name: str, _release: bool) -> KubeError | None:
        return NO_ROLE if name == "dns" and not asked.append(name) else None

    on.cluster.refuse_patch = refuse
    for _tick in range(5):
        on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and asked == ["dns"]
    assert len(on.notes.errors) == 1 and "pods are not nominated" in on.notes.errors[0]
    on.controller.release_all_holds()
    assert on.cluster.held == [] and len(on.notes.errors) == 1


@pytest.mark.parametrize("error", [TROUBLE, UnreachableError("gone"), ConflictError("changed", status=409)])
def test_nomination_beside_a_taint_that_fails_is_tried_again_and_stops_nothing(error: KubeError) -> None:
    on = full_nodes("n")
    on.cluster.refuse_patch = lambda name, _release: error if name == "dns" else None
    on.controller.reconcile()
    assert on.cluster.evicted == ["v-n"] and nominated(on) == ""
    on.cluster.refuse_patch = lambda _name, _release: None
    on.controller.reconcile()
    assert nominated(on) == "n"


# --- beside a taint that another client has set ------------------------------------------------------------------------

ADMINISTRATORS_TAINT = {"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}


def on_reserved_node(**options: t.Any) -> Scene:
    """Node n is permanently reserved for add-ons. Two of them, with a low priority, must be evicted. Node m would cost more."""
    pods = [pod("v1", "450m", on="n", priority=1), pod("v2", "450m", on="n", priority=2), pod("v-m", "900m", on="m", priority=100)]
    on = scene([node("n"), node("m")], [*pods, pod("dns", "900m")], **options)
    on.cluster.nodes["n"]["spec"]["taints"] = [ADMINISTRATORS_TAINT]
    return on


@pytest.mark.parametrize("hold", ["auto", "taint", "none"])
def test_pod_is_nominated_beside_the_taint_of_another_client_and_again_after_each_failed_attempt(hold: str) -> None:
    """The pods of such a node tolerate the taint. What replaces the first victim must not take its capacity."""
    on = on_reserved_node(hold=hold)
    asked: list[str] = []
    on.cluster.refuse_eviction = lambda _name, dry_run: asked.append(nominated(on)) if not dry_run else None
    on.controller.reconcile()
    assert on.cluster.evicted == ["v1", "v2"] and asked == ["n", "n"]
    for _attempt in range(3):
        clear_nomination(on)
        on.controller.reconcile()
        assert nominated(on) == "n"
    assert on.cluster.nodes["n"]["spec"]["taints"] == [ADMINISTRATORS_TAINT] and on.cluster.held == []


@pytest.mark.parametrize("end", ["stopped", "without effect", "cordoned"])
def test_nomination_beside_the_taint_of_another_client_ends_with_the_rescue(end: str) -> None:
    on = on_reserved_node()
    on.controller.reconcile()
    assert nominated(on) == "n"
    (task,) = on.controller.tasks.values()
    if end == "stopped":
        on.controller.release_own_holds()
    elif end == "without effect":
        task.clearing.give_up_at_s = time.monotonic() - 1
        on.controller.reconcile()
    else:
        on.cluster.refuse_eviction = lambda _name, _dry_run: TROUBLE
        on.cluster.nodes["n"]["spec"]["unschedulable"] = True
        on.controller.reconcile()
    assert nominated(on) == ""


def test_without_the_role_a_rescue_beside_the_taint_of_another_client_continues_without_a_nomination() -> None:
    on = on_reserved_node()
    on.cluster.refuse_patch = lambda name, _release: NO_ROLE if name == "dns" else None
    on.controller.reconcile()
    on.controller.release_own_holds()
    assert on.cluster.evicted == ["v1", "v2"] and len(on.notes.errors) == 1, on.notes.errors


def test_rescue_beside_the_taint_of_another_client_continues_when_the_lease_comes_back() -> None:
    """There is no hold that would show that the node is still being cleared."""
    on = on_reserved_node()
    on.cluster.refuse_eviction = lambda name, dry_run: None if dry_run or name == "v1" else TROUBLE
    on.controller.reconcile()
    assert on.cluster.evicted == ["v1"]
    on.lease.held = False
    on.controller.abandon()
    del on.cluster.pods["v1"]
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    on.lease.held = True
    for _tick in range(2):
        due(on)
        on.controller.reconcile()
    assert on.cluster.evicted == ["v1", "v2"]
