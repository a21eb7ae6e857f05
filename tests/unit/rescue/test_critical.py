# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Critical pods, and those of them that wait for a node, are recognised."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.critical import (
    effective_priority,
    is_critical,
    is_critical_or_system,
    is_unschedulable,
    not_critical_message,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions

ANNOTATION = "scheduler.alpha.kubernetes.io/critical-pod"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def pod(namespace: str = "kube-system", annotations: t.Any = None, status: t.Any = None, deleted: bool = False, **spec: t.Any) -> Pod:
    metadata = {"name": "p", "namespace": namespace, "uid": "u", "annotations": annotations}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return decode_json(Pod, encode_json({"metadata": metadata, "spec": spec, "status": status or {"conditions": [UNSCHEDULABLE]}}))


@pytest.mark.parametrize(
    ("given", "options", "priority", "critical"),
    [
        (pod(priority=2_000_000_000), {}, 2_000_000_000, True),
        (pod(priority=1_999_999_999), {}, 1_999_999_999, False),
        (pod(priority=2_000_001_000, annotations={ANNOTATION: ""}), {}, 2_000_001_000, True),
        (pod(annotations={ANNOTATION: ""}), {}, 2_000_000_000, True),
        (pod(annotations={ANNOTATION: "true"}), {}, 0, False),
        (pod(annotations={ANNOTATION: ""}), {"honor_critical_annotation": "none"}, 0, False),
        (pod("shop", annotations={ANNOTATION: ""}), {}, 0, False),
        (pod("shop", annotations={ANNOTATION: ""}), {"namespaces": ("kube-system", "shop")}, 0, False),
        (pod("shop", annotations={ANNOTATION: ""}), {"namespaces": ("shop",), "honor_critical_annotation": "all"}, 2_000_000_000, True),
        (pod("shop", annotations={ANNOTATION: ""}), {"honor_critical_annotation": "all"}, 0, False),
        (pod("shop", annotations={ANNOTATION: ""}), {"namespaces": ("shop",), "honor_critical_annotation": "none"}, 0, False),
        (pod("none", annotations={ANNOTATION: ""}), {"namespaces": ("none",), "honor_critical_annotation": "none"}, 0, False),
        (pod(annotations={ANNOTATION: ""}), {"namespaces": ("shop",)}, 0, False),
        (pod(priority=1000), {"priority_threshold": 1000}, 1000, True),
        (pod(), {}, 0, False),
    ],
)
def test_importance(given: Pod, options: dict[str, t.Any], priority: int, critical: bool) -> None:
    assert (effective_priority(given, RescueOptions(**options)), is_critical(given, RescueOptions(**options))) == (priority, critical)


def test_kubernetes_own_classes_are_protected_whatever_the_threshold() -> None:
    high = RescueOptions(priority_threshold=2_100_000_000)
    assert is_critical_or_system(pod(priority=2_000_000_000, priorityClassName="system-cluster-critical"), high)
    assert not is_critical_or_system(pod(priority=2_000_000_000, priorityClassName="mine"), high)


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        (pod(), True),
        (pod(nodeName="n"), False),
        (pod(deleted=True), False),
        (pod(schedulingGates=[{"name": "g"}]), False),
        (pod(status={"conditions": [{**UNSCHEDULABLE, "reason": "SchedulerError"}]}), False),
        (pod(status={"conditions": [{**UNSCHEDULABLE, "status": "True"}]}), False),
        (pod(status={"phase": "Pending"}), False),
        (pod(status={"phase": "Failed", "conditions": [UNSCHEDULABLE]}), False),
    ],
)
def test_which_pods_wait_for_a_node(given: Pod, waits: bool) -> None:
    assert is_unschedulable(given) == waits


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (pod(), {}, ", and it has no annotation that makes it critical"),
        (
            pod("shop", annotations={ANNOTATION: ""}),
            {"namespaces": ("shop",)},
            f"; its annotation {ANNOTATION} does not count in namespace shop, "
            "because honor_critical_annotation is kube-system; set it to all",
        ),
        (pod(annotations={ANNOTATION: "true"}), {}, f"; its annotation {ANNOTATION} has the value 'true', and only an empty value counts"),
        (
            pod(annotations={ANNOTATION: ""}),
            {"honor_critical_annotation": "none"},
            f"; its annotation {ANNOTATION} does not count, because honor_critical_annotation is none",
        ),
    ],
)
def test_an_annotation_that_does_not_count_is_not_denied(given: Pod, options: dict[str, t.Any], said: str) -> None:
    assert not_critical_message(given, RescueOptions(**options)) == f"its priority 0 is below priority_threshold 2000000000{said}"
