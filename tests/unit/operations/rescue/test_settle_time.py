# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scheduler gets its settle time only where it may preempt pods."""

from __future__ import annotations

import typing as t

import pytest

from tests.unit.support.fakes import CRITICAL, UNSCHEDULABLE, Json, Scene, node, pod, scene

ANNOTATION = {"scheduler.alpha.kubernetes.io/critical-pod": ""}
HOUR_S = 3600


def critical(**spec: t.Any) -> Json:
    made = pod("dns", "500m")
    made["spec"].update(spec)
    return made


def annotated(**spec: t.Any) -> Json:
    made = critical(priority=0, **spec)
    made["metadata"]["annotations"] = dict(ANNOTATION)
    made["metadata"]["namespace"] = "kube-system"
    return made


def full(dns: Json, *, priority: int = 0, **options: t.Any) -> Scene:
    return scene([node("n")], [pod("v", "900m", on="n", priority=priority), dns], settle_time_s=HOUR_S, **options)


@pytest.mark.parametrize(
    ("dns", "priority", "options"),
    [
        pytest.param(critical(preemptionPolicy="Never"), 0, {}, id="its preemptionPolicy is Never"),
        pytest.param(annotated(), 0, {}, id="it is critical by its annotation only"),
        pytest.param(critical(), CRITICAL, {"allow_equal_priority": True}, id="all pods have its priority"),
    ],
)
def test_no_time_passes_if_the_scheduler_cannot_preempt_for_the_pod(dns: Json, priority: int, options: dict[str, t.Any]) -> None:
    on = full(dns, priority=priority, **options)
    on.controller.reconcile()
    assert on.cluster.evicted == ["v"]


@pytest.mark.parametrize("dns", [critical(), annotated()])
def test_the_time_passes_if_the_scheduler_can_preempt_a_pod(dns: Json) -> None:
    on = full(dns, priority=-1)
    on.controller.reconcile()
    assert on.cluster.evicted == []


def new_pod(on: Scene, **status: t.Any) -> None:
    """The scheduler reports a new pod, while the program watches."""
    dns = on.cluster.pods.pop("dns")
    on.controller.reconcile()
    dns["status"].update(conditions=[UNSCHEDULABLE], **status)
    on.cluster.pods["dns"] = dns
    on.controller.reconcile()


def test_no_time_passes_if_the_scheduler_has_just_reported_that_it_preempts_nothing() -> None:
    on = full(critical())
    new_pod(on)
    assert on.cluster.evicted == ["v"]


def test_the_time_passes_if_the_scheduler_has_nominated_the_pod() -> None:
    on = full(critical())
    new_pod(on, nominatedNodeName="n")
    assert on.cluster.evicted == []


def test_the_time_passes_if_a_node_opens_together_with_the_report() -> None:
    on = full(critical())
    on.cluster.nodes["n"]["spec"]["unschedulable"] = True
    dns = on.cluster.pods.pop("dns")
    on.controller.reconcile()
    on.cluster.pods["dns"] = dns
    on.cluster.nodes["n"]["spec"]["unschedulable"] = False
    on.controller.reconcile()
    assert on.cluster.evicted == []


def test_the_time_passes_if_evictions_become_possible_after_the_report() -> None:
    """The scheduler may preempt then, too."""
    on = full(critical())
    on.cluster.pods["v"]["spec"]["priority"] = CRITICAL + 1
    new_pod(on)
    on.cluster.pods["v"]["spec"]["priority"] = 0
    on.cluster.touch(on.cluster.pods["v"])
    for task in on.controller.tasks.values():
        task.plan_at_s = 0.0
    on.controller.reconcile()
    assert on.cluster.evicted == []
