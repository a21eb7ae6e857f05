# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of a run: codes in ``reason``, texts in ``message``."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import HoldChange, RescueResult, rescue_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import (
    HOLD_ANNOTATION,
    Hold,
    hold_patch,
    make_hold,
    release_patch,
)

from tests.unit.support.cluster import struct
from tests.unit.support.fakes import Scene, node, pod, scene

Json = dict[str, t.Any]


def rows_of(on: Scene) -> dict[str, Json]:
    result = rescue_result(RescueResult([*on.controller.tasks.values()]), named=False)
    return {row["name"]: row for row in result["pods"]}


def test_pods_victims_and_blockers_have_a_code_and_a_message() -> None:
    pods = [pod("web", "900m", on="n"), pod("dns", "500m"), pod("cni", "5")]
    on = scene([node("n")], pods, dry_run=True)
    on.controller.reconcile()
    rows = rows_of(on)
    assert (rows["dns"]["reason"], rows["dns"]["message"]) == ("evictions_help", "evict app/web from node n")
    (victim,) = rows["dns"]["victims"]
    assert victim["reason"] == "lower_priority" and victim["message"].startswith("its priority 0 is below 2000000000; ")
    assert rows["cni"]["reason"] == "no_node" and rows["cni"]["message"].startswith("no eviction ")
    assert rows["cni"]["blockers"]
    for blocker in rows["cni"]["blockers"]:
        assert set(blocker) == {"reason", "message", "nodes"} and blocker["message"]


def test_the_message_of_a_failed_task_has_no_code() -> None:
    on = scene([node("n")], [pod("web", "900m", on="n"), pod("cni", "5")], dry_run=True)
    on.controller.reconcile()
    result = rescue_result(RescueResult([*on.controller.tasks.values()]), named=True)
    assert result["failed"] and result["msg"].startswith("Pod kube-system/cni: impossible: ") and "no_node" not in result["msg"]


OTHER_TAINT = {"key": "dedicated", "value": "db", "effect": "NoExecute"}


def hold_on(key: str = "kube-scheduling.onprem/rescue") -> Hold:
    return make_hold(struct(Pod, pod("dns", "500m")), key=key, deadline_s=1_700_000_000, writer="a test")


def diff_of(document: Json, hold: Hold, *, is_release: bool) -> tuple[Json, Json]:
    change = HoldChange(struct(Node, document), hold, is_release)
    (diff,) = rescue_result(RescueResult([], [change]), named=False, diff=True)["diff"]
    return diff["before"], diff["after"]


def changed_by(document: Json, operations: list[Json]) -> Json:
    """The hold annotation and the taints after a JSON patch whose tests pass."""
    annotations, taints = dict(document["metadata"].get("annotations") or {}), document["spec"].get("taints") or []
    for operation in operations:
        if operation["path"] == "/metadata/annotations" and operation["op"] != "test":
            annotations = operation.get("value", {})
        elif operation["path"].startswith("/metadata/annotations/"):
            if operation["op"] == "remove":
                del annotations[HOLD_ANNOTATION]
            elif operation["op"] != "test":
                annotations[HOLD_ANNOTATION] = operation["value"]
        elif operation["path"] == "/spec/taints" and operation["op"] != "test":
            taints = operation.get("value", [])
    shown = {name: text for name, text in annotations.items() if name == HOLD_ANNOTATION}
    return {"metadata": {"annotations": shown}, "spec": {"taints": taints}}


@pytest.mark.parametrize("annotations", [{}, {"other": "x"}, {HOLD_ANNOTATION: "junk"}], ids=["none", "other", "unproven"])
@pytest.mark.parametrize("key", ["kube-scheduling.onprem/rescue", ""], ids=["taint", "nomination"])
def test_diff_of_a_placed_hold_is_the_change_of_its_patch(annotations: dict[str, str], key: str) -> None:
    document = node("n")
    document["metadata"]["annotations"] = annotations
    document["spec"]["taints"] = [OTHER_TAINT]
    hold = hold_on(key)
    before, after = diff_of(document, hold, is_release=False)
    assert before == changed_by(document, [])
    assert after == changed_by(document, hold_patch(document, hold))
    assert before != after


@pytest.mark.parametrize("key", ["kube-scheduling.onprem/rescue", ""], ids=["taint", "nomination"])
def test_diff_of_a_released_hold_is_the_change_of_its_patch(key: str) -> None:
    document, hold = node("n"), hold_on(key)
    document["metadata"]["annotations"] = {}
    document["spec"]["taints"] = [OTHER_TAINT]
    held = changed_by(document, hold_patch(document, hold))
    document["metadata"]["annotations"], document["spec"]["taints"] = held["metadata"]["annotations"], held["spec"]["taints"]
    before, after = diff_of(document, hold, is_release=True)
    assert before == held
    assert after == changed_by(document, release_patch(document, hold))
    assert before != after


def test_diff_of_a_hold_that_was_on_the_node_already_shows_the_node_without_it() -> None:
    document, hold = node("n"), hold_on()
    document["metadata"]["annotations"] = {}
    held = changed_by(document, hold_patch(document, hold))
    document["metadata"]["annotations"], document["spec"]["taints"] = held["metadata"]["annotations"], held["spec"]["taints"]
    assert diff_of(document, hold, is_release=False) == ({"metadata": {"annotations": {}}, "spec": {"taints": []}}, held)
