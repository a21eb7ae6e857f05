# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Annotations that a kubelet could have written on its own Node, and taints whose annotation a user has edited or removed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import ATTEMPTS, HOLD_ANNOTATION, HOLD_KEY, SYSTEM, Scene, nomination_when_bound
from tests.integration.rescue.test_interrupted import attempts, killed_during_a_rescue

pytestmark = pytest.mark.never_repeated

PAST, FUTURE = "2020-01-01T00:00:00Z", "2199-01-01T00:00:00Z"
NO_PROOF = "is not proved"


def hold_fields(*, pod: str, uid: str, key: str = "", value: str = "", deadline: str = FUTURE, writer: str = "kubelet") -> dict[str, str]:
    fields = {"key": key, "value": value, "namespace": SYSTEM, "pod": pod, "uid": uid}
    return {**fields, "owner": "", "deadline": deadline, "writer": writer}


def annotate(scene: Scene, node: str, value: dict[str, str] | str | None) -> None:
    text = json.dumps(value) if isinstance(value, dict) else value
    scene.api.merge_patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {HOLD_ANNOTATION: text}}})


def annotation(scene: Scene, node: str) -> str | None:
    found: str | None = (scene.node(node)["metadata"].get("annotations") or {}).get(HOLD_ANNOTATION)
    return found


def uid_of(scene: Scene, pod: str) -> str:
    uid: str = scene.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{pod}")["metadata"]["uid"]
    return uid


def hash_of(pod: str, uid: str, namespace: str = SYSTEM) -> str:
    return hashlib.sha256(f"{namespace}/{pod}/{uid}".encode()).hexdigest()[:16]


def records(scene: Scene) -> dict[str, str]:
    return {key: text for key, text in attempts(scene.cluster).items() if key.startswith("hold.")}


@pytest.mark.parametrize(
    "taint",
    [
        {"key": HOLD_KEY, "value": "true", "effect": "NoSchedule"},
        {"key": "example.com/team", "value": "a", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/out-of-service", "value": "", "effect": "NoSchedule"},
    ],
)
def test_expired_forged_annotation_removes_no_taint(scene: Scene, rescues: Rescues, taint: dict[str, str]) -> None:
    (node,) = scene.nodes(taints=(taint,))
    before = scene.taints(node)
    annotate(scene, node, hold_fields(pod="gone", uid="gone", key=taint["key"], value=taint["value"], deadline=PAST))
    for state in ("rescued", "released"):
        result = rescues.run(state=state, label_selector=f"scene={scene.id}")
        assert scene.taints(node) == before and result["released"] == []
    assert any(node in text and NO_PROOF in text for text in rescues.warnings), rescues.warnings


@pytest.mark.parametrize(("tainted", "tolerates"), [(False, False), (False, True), (True, True)])
def test_forged_annotation_with_the_uid_of_a_pending_critical_pod_does_not_choose_its_node(
    scene: Scene, rescues: Rescues, tainted: bool, tolerates: bool
) -> None:
    """The node of the forger is the dear one. The annotation claims a nomination, or a taint that the node does not have."""
    cheap, dear = scene.nodes(2)
    scene.occupant("low", cheap, cpu="800m", priority="scene-low")
    scene.occupant("high", dear, cpu="800m", priority="scene-high")
    pod = scene.critical("dns", tolerates=tolerates)
    uid = uid_of(scene, pod)
    taint = {"key": HOLD_KEY, "value": hash_of(pod, uid)} if tainted else {}
    annotate(scene, dear, hold_fields(pod=pod, uid=uid, **taint))
    row = rescues.one(pod)
    assert (row["status"], row["node"], victims(row)) == ("rescued", cheap, {"low"})


@pytest.mark.parametrize("forged", ["for another pod", "for the pod itself", "nonsense"])
def test_forged_annotation_does_not_close_its_node(scene: Scene, rescues: Rescues, forged: str) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    texts = {
        "for another pod": hold_fields(pod="other", uid="other"),
        "for the pod itself": hold_fields(pod=pod, uid=uid_of(scene, pod), deadline=PAST),
        "nonsense": "{nonsense",
    }
    annotate(scene, node, texts[forged])
    row = rescues.one(pod)
    assert (row["status"], row["node"]) == ("rescued", node), row


EDITS: list[Any] = [None, "{nonsense", hold_fields(pod="other", uid="other", deadline=PAST)]


@pytest.mark.parametrize("edit", EDITS)
def test_taint_whose_annotation_was_edited_or_removed_is_removed_by_state_released(scene: Scene, rescues: Rescues, edit: Any) -> None:
    node, pod = killed_during_a_rescue(scene, rescues)
    assert list(records(scene)) == [f"hold.{node}"]
    annotate(scene, node, edit)
    expected = [{"node": node, "pod": f"{SYSTEM}/{pod}"}]
    assert rescues.run(state="released", check_mode=True)["released"] == expected
    assert rescues.run(state="released")["released"] == expected
    assert scene.taints(node) == [] and annotation(scene, node) is None and records(scene) == {}


@pytest.mark.parametrize("edit", EDITS)
def test_rescue_continues_where_the_annotation_of_its_node_was_edited_or_removed(scene: Scene, rescues: Rescues, edit: Any) -> None:
    node, pod = killed_during_a_rescue(scene, rescues)
    annotate(scene, node, edit)
    row = rescues.one(pod)
    assert (row["status"], row["node"]) == ("rescued", node) and len(scene.evictions()) == 1
    assert scene.held() == [] and records(scene) == {}


def test_hold_without_taint_continues_where_its_annotation_was_removed(scene: Scene, rescues: Rescues) -> None:
    node, pod = killed_during_a_rescue(scene, rescues, tolerates=False)
    annotate(scene, node, None)
    row = rescues.one(pod)
    assert (row["status"], row["node"]) == ("rescued", node) and len(scene.evictions()) == 1
    assert scene.held() == [] and records(scene) == {} and scene.nominated(pod) == nomination_when_bound(node)


def test_deadline_of_an_edited_annotation_does_not_count(scene: Scene, rescues: Rescues) -> None:
    node, pod = killed_during_a_rescue(scene, rescues)
    annotate(scene, node, {**json.loads(annotation(scene, node) or ""), "deadline": PAST})
    row = rescues.one(pod)
    assert (row["status"], row["node"]) == ("rescued", node) and len(scene.evictions()) == 1 and scene.held() == []


def test_taint_whose_annotation_was_removed_is_removed_when_the_pod_is_gone(scene: Scene, rescues: Rescues) -> None:
    node, pod = killed_during_a_rescue(scene, rescues)
    annotate(scene, node, None)
    scene.api.request("DELETE", f"/api/v1/namespaces/{SYSTEM}/pods/{pod}", {"gracePeriodSeconds": 0})
    result = rescues.run(label_selector=f"scene={scene.id}")
    assert result["released"] == [{"node": node, "pod": f"{SYSTEM}/{pod}"}] and scene.taints(node) == [] and records(scene) == {}


@pytest.mark.parametrize("annotated", [True, False])
def test_taint_with_the_hash_of_a_critical_pod_is_removed_without_a_record(scene: Scene, rescues: Rescues, annotated: bool) -> None:
    """A user has deleted the ConfigMap, or an older version has set the taint."""
    node, pod = killed_during_a_rescue(scene, rescues)
    scene.api.request("DELETE", ATTEMPTS)
    if not annotated:
        annotate(scene, node, None)
    assert rescues.run(state="released")["released"] == [{"node": node, "pod": f"{SYSTEM}/{pod}"}]
    assert scene.taints(node) == [] and annotation(scene, node) is None


def test_taint_of_the_key_in_no_record_and_of_no_critical_pod_is_foreign(scene: Scene, rescues: Rescues) -> None:
    value = hash_of("gone", "gone")
    (node,) = scene.nodes(taints=({"key": HOLD_KEY, "value": value, "effect": "NoSchedule"},))
    before = scene.taints(node)
    for state in ("rescued", "released"):
        assert rescues.run(state=state, label_selector=f"scene={scene.id}")["released"] == []
        assert scene.taints(node) == before


def test_record_of_a_run_that_was_killed_before_the_taint_is_removed(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    uid = uid_of(scene, pod)
    hold = hold_fields(pod=pod, uid=uid, key=HOLD_KEY, value=hash_of(pod, uid), writer="killed")
    record = json.dumps({"node": node, "node_uid": scene.node(node)["metadata"]["uid"], "hold": hold})
    scene.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-scheduling-rescue", "namespace": SYSTEM},
            "data": {f"hold.{node}": record, "hold.no-such-node": record.replace(node, "no-such-node"), "hold.x": "nonsense"},
        }
    )
    row = rescues.one(pod)
    assert (row["status"], row["node"]) == ("rescued", node) and scene.held() == [] and records(scene) == {}


@pytest.mark.parametrize("trouble", ["immutable", "full"])
def test_nothing_is_held_or_evicted_where_the_hold_cannot_be_recorded(scene: Scene, rescues: Rescues, trouble: str) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    scene.api.request("DELETE", ATTEMPTS)
    how = {"immutable": {"immutable": True}, "full": {"binaryData": {"filled": "AAAA" * ((2**20 - 60) // 3)}}}
    metadata = {"name": "kube-scheduling-rescue", "namespace": SYSTEM}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **how[trouble]}
    scene.cluster.api.post(f"/api/v1/namespaces/{SYSTEM}/configmaps", body)
    try:
        result = rescues.run(name=pod)
        (row,) = result["pods"]
        assert result["failed"] and row["status"] == "failed", row
        assert "ConfigMap kube-system/kube-scheduling-rescue" in row["message"] and node in row["message"]
        assert scene.evictions() == [] and scene.held() == []
    finally:
        scene.api.request("DELETE", ATTEMPTS)
