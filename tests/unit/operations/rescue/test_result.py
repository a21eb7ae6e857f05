# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of a run: codes in ``reason``, texts in ``message``."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import HoldChange, RescueResult, rescue_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.held_nodes import HeldNode
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import Hold, hash_of, hold_patch

from tests.unit.state.test_hold import applied
from tests.unit.support.cluster import struct
from tests.unit.support.fakes import Scene, again, full_nodes, node, pod, scene

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


HOLD = Hold("kube-scheduling.onprem/rescue", hash_of(struct(Pod, pod("dns", "500m"))), 1_700_000_000)


def diff_of(document: Json, *, is_release: bool) -> tuple[Json, Json]:
    change = HoldChange(HeldNode(struct(Node, document), HOLD, struct(Pod, pod("dns", "500m"))), is_release)
    (diff,) = rescue_result(RescueResult([], [change]), named=False, diff=True)["diff"]
    assert diff["before_header"] == diff["after_header"] == f"Node n, {'released from' if is_release else 'held for'} pod kube-system/dns"
    return diff["before"], diff["after"]


@pytest.mark.parametrize("held", [False, True], ids=["free", "held already"])
def test_diff_of_a_hold_is_the_change_of_its_patch(held: bool) -> None:
    document = node("n")
    document["spec"]["taints"] = [OTHER_TAINT]
    free = {"spec": {"taints": [OTHER_TAINT]}}
    after = {"spec": {"taints": applied(document, hold_patch(document, HOLD, ""))["spec"]["taints"]}}
    if held:
        document["spec"]["taints"] = after["spec"]["taints"]
    assert diff_of(document, is_release=False) == (free, after)
    assert diff_of(document, is_release=True) == (after, free)


@pytest.mark.parametrize(("killed", "name"), [(False, "kube-system/dns"), (True, "")])
def test_released_node_of_a_pod_that_was_deleted_names_the_pod_if_it_is_known(killed: bool, name: str) -> None:
    result: t.Any = RescueResult()
    on = full_nodes("n", notes=result)
    on.controller.reconcile()
    del on.cluster.pods["dns"]
    (again(on) if killed else on.controller).reconcile()
    assert on.cluster.held == [] and rescue_result(result, named=False)["released"] == [{"node": "n", "pod": name}]
