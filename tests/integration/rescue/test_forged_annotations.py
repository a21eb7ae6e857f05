# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forged, edited and missing annotations of holds, which no program reads, and forged taints.

A kubelet can annotate its own Node. Only an administrator can change the taints of a Node that exists.
"""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time

from tests.integration.rescue.rescues import Json, Rescues, victims
from tests.integration.rescue.scene import ATTEMPTS, HOLD_ANNOTATION, HOLD_KEY, SYSTEM, Scene
from tests.integration.rescue.test_interrupted import killed_during_a_rescue

pytestmark = pytest.mark.never_repeated

HASH = "0123456789abcdef"
PAST_S, FUTURE_S = 1_000_000_000, 9_999_999_999
NO_SCHEDULE = {"key": HOLD_KEY, "effect": "NoSchedule"}


def note(pod: str) -> str:
    """The text of an annotation for the pod, after its deadline."""
    return json.dumps({"pod": f"{SYSTEM}/{pod}", "owner": "", "since": "2020-01-01T00:00:00Z", "deadline": "2020-01-01T00:01:00Z"})


def annotate(scene: Scene, node: str, text: str | None) -> None:
    scene.api.merge_patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {HOLD_ANNOTATION: text}}})


@pytest.mark.parametrize(
    "taint",
    [
        {**NO_SCHEDULE, "value": "true"},
        {**NO_SCHEDULE, "value": HASH},
        {**NO_SCHEDULE, "value": f"rescue-{HASH}"},
        {"key": HOLD_KEY, "value": f"rescue-{HASH}-until-{PAST_S}", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/out-of-service", "value": "", "effect": "NoSchedule"},
    ],
)
def test_forged_annotation_removes_no_taint_of_another_party(scene: Scene, rescues: Rescues, taint: Json) -> None:
    (node,) = scene.nodes(taints=(taint,))
    before = scene.taints(node)
    annotate(scene, node, note("gone"))
    for state in ("rescued", "released"):
        result = rescues.run(state=state, label_selector=f"scene={scene.id}")
        assert scene.taints(node) == before and result["released"] == [] and rescues.warnings == []


def test_forged_annotation_neither_closes_nor_chooses_its_node(scene: Scene, rescues: Rescues) -> None:
    cheap, dear = scene.nodes(2)
    scene.occupant("low", cheap, cpu="800m", priority="scene-low")
    scene.occupant("high", dear, cpu="800m", priority="scene-high")
    pod = scene.critical("dns")
    annotate(scene, cheap, note("other"))
    annotate(scene, dear, note(pod))
    row = rescues.one(pod)
    assert (row["status"], row["node"], victims(row)) == ("rescued", cheap, {"low"})


EDITS = [None, note("other")]


@pytest.mark.parametrize("edit", EDITS)
def test_rescue_continues_where_the_annotation_of_its_node_was_edited_or_removed(scene: Scene, rescues: Rescues, edit: str | None) -> None:
    node, pod = killed_during_a_rescue(scene, rescues, grace=9)
    annotate(scene, node, edit)
    row = rescues.one(pod)
    assert (row["status"], row["node"]) == ("rescued", node) and len(scene.evictions()) == 1 and scene.held() == []


@pytest.mark.parametrize("edit", EDITS)
def test_taint_whose_annotation_was_edited_or_removed_is_removed_by_state_released(
    scene: Scene, rescues: Rescues, edit: str | None
) -> None:
    node, pod = killed_during_a_rescue(scene, rescues)
    annotate(scene, node, edit)
    for check_mode in (True, False):
        assert rescues.run(state="released", check_mode=check_mode)["released"] == [{"node": node, "pod": f"{SYSTEM}/{pod}"}]
    assert scene.held() == []


@pytest.mark.parametrize("key", [HOLD_KEY, "example.com/held"])
def test_hold_for_a_pod_that_does_not_exist_is_removed_before_its_deadline(scene: Scene, rescues: Rescues, key: str) -> None:
    (node,) = scene.nodes(taints=({"key": key, "value": f"rescue-{HASH}-until-{FUTURE_S}", "effect": "NoSchedule"},))
    result = rescues.run(label_selector=f"scene={scene.id}")
    assert result["released"] == [{"node": node, "pod": ""}] and scene.taints(node) == []


def test_forged_hold_for_a_waiting_pod_does_not_last_longer_than_a_hold_of_the_run(scene: Scene, rescues: Rescues) -> None:
    """The forged deadline is in the year 2286. No scheduler binds the pod to the node, although it fits."""
    (node,) = scene.nodes()
    pod = scene.critical("dns", wait=False, schedulerName="absent")
    reported = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": format_time(time.time())}
    scene.api.merge_patch(f"/api/v1/namespaces/{SYSTEM}/pods/{pod}/status", {"status": {"conditions": [reported]}})
    scene.hold(node, pod, deadline_s=FUTURE_S)
    began_s = time.monotonic()
    row = rescues.one(pod, wait_timeout=3, evict_timeout=1)
    assert (row["status"], row["reason"]) == ("failed", "not_bound") and 3 < time.monotonic() - began_s < 30
    assert scene.held() == []


UNWRITABLE: dict[str, Json] = {"immutable": {"immutable": True}, "full": {"binaryData": {"filled": "AAAA" * ((2**20 - 60) // 3)}}}


@pytest.mark.parametrize("how", UNWRITABLE)
def test_nothing_is_evicted_and_no_node_stays_held_if_the_attempt_cannot_be_recorded(scene: Scene, rescues: Rescues, how: str) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    scene.api.request("DELETE", ATTEMPTS)
    scene.api.post(f"/api/v1/namespaces/{SYSTEM}/configmaps", {"metadata": {"name": "kube-scheduling-rescue"}, **UNWRITABLE[how]})
    try:
        result = rescues.run(name=pod)
        (row,) = result["pods"]
        assert result["failed"] and row["status"] == "failed" and "ConfigMap kube-system/kube-scheduling-rescue" in row["message"], row
        assert scene.evictions() == [] and scene.held() == []
    finally:
        scene.api.request("DELETE", ATTEMPTS)
