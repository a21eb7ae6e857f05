# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Critical pods, and those of them that wait for a node, are recognised."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.critical import (
    effective_priority,
    is_critical,
    is_critical_or_system,
    is_unschedulable,
    not_critical_message,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions

from tests.unit.support.objects import running

ANNOTATION = "scheduler.alpha.kubernetes.io/critical-pod"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def unscheduled(namespace: str = "kube-system", *, deleted: bool = False, **more: t.Any) -> Pod:
    """A pod that the scheduler has reported Unschedulable."""
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    return running("", name="p", namespace=namespace, metadata=metadata, **{"status": {"conditions": [UNSCHEDULABLE]}, **more})


@pytest.mark.parametrize(
    ("given", "options", "priority", "critical"),
    [
        (unscheduled(priority=2_000_000_000), {}, 2_000_000_000, True),
        (unscheduled(priority=1_999_999_999), {}, 1_999_999_999, False),
        (unscheduled(priority=2_000_001_000, annotations={ANNOTATION: ""}), {}, 2_000_001_000, True),
        (unscheduled(annotations={ANNOTATION: ""}), {}, 2_000_000_000, True),
        (unscheduled(annotations={ANNOTATION: "true"}), {}, 0, False),
        (unscheduled(annotations={ANNOTATION: ""}), {"honor_critical_annotation": "none"}, 0, False),
        (unscheduled("shop", annotations={ANNOTATION: ""}), {}, 0, False),
        (unscheduled("shop", annotations={ANNOTATION: ""}), {"namespaces": ("kube-system", "shop")}, 0, False),
        (
            unscheduled("shop", annotations={ANNOTATION: ""}),
            {"namespaces": ("shop",), "honor_critical_annotation": "all"},
            2_000_000_000,
            True,
        ),
        (unscheduled("shop", annotations={ANNOTATION: ""}), {"honor_critical_annotation": "all"}, 0, False),
        (unscheduled("shop", annotations={ANNOTATION: ""}), {"namespaces": ("shop",), "honor_critical_annotation": "none"}, 0, False),
        (unscheduled("none", annotations={ANNOTATION: ""}), {"namespaces": ("none",), "honor_critical_annotation": "none"}, 0, False),
        (unscheduled(annotations={ANNOTATION: ""}), {"namespaces": ("shop",)}, 0, False),
        (unscheduled(priority=1000), {"priority_threshold": 1000}, 1000, True),
        (unscheduled(), {}, 0, False),
    ],
)
def test_importance(given: Pod, options: dict[str, t.Any], priority: int, critical: bool) -> None:
    assert (effective_priority(given, RescueOptions(**options)), is_critical(given, RescueOptions(**options))) == (priority, critical)


def test_kubernetes_own_classes_are_protected_whatever_the_threshold() -> None:
    high = RescueOptions(priority_threshold=2_100_000_000)
    assert is_critical_or_system(unscheduled(priority=2_000_000_000, priorityClassName="system-cluster-critical"), high)
    assert not is_critical_or_system(unscheduled(priority=2_000_000_000, priorityClassName="mine"), high)


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        (unscheduled(), True),
        (unscheduled(nodeName="n"), False),
        (unscheduled(deleted=True), False),
        (unscheduled(schedulingGates=[{"name": "g"}]), False),
        (unscheduled(status={"conditions": [{**UNSCHEDULABLE, "reason": "SchedulerError"}]}), False),
        (unscheduled(status={"conditions": [{**UNSCHEDULABLE, "status": "True"}]}), False),
        (unscheduled(status={"phase": "Pending"}), False),
        (unscheduled(status={"phase": "Failed", "conditions": [UNSCHEDULABLE]}), False),
    ],
)
def test_which_pods_wait_for_a_node(given: Pod, waits: bool) -> None:
    assert is_unschedulable(given) == waits


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (unscheduled(), {}, ", and it has no annotation"),
        (
            unscheduled("shop", annotations={ANNOTATION: ""}),
            {"namespaces": ("shop",)},
            f"; its annotation {ANNOTATION} does not count in namespace shop, because honor_critical_annotation is kube-system",
        ),
        (
            unscheduled(annotations={ANNOTATION: "true"}),
            {},
            f"; its annotation {ANNOTATION} has the value 'true', and only an empty value counts",
        ),
        (
            unscheduled(annotations={ANNOTATION: ""}),
            {"honor_critical_annotation": "none"},
            f"; its annotation {ANNOTATION} does not count, because honor_critical_annotation is none",
        ),
    ],
)
def test_an_annotation_that_does_not_count_is_not_denied(given: Pod, options: dict[str, t.Any], said: str) -> None:
    assert not_critical_message(given, RescueOptions(**options)).startswith(f"its priority 0 is below priority_threshold 2000000000{said}")
