# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of a run: codes in ``reason``, texts in ``message``."""

from __future__ import annotations

import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import RescueResult, rescue_result

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
    assert rows["cni"]["reason"] == "no_node" and rows["cni"]["message"].startswith("no eviction makes the pod fit on a node: ")
    assert rows["cni"]["blockers"]
    for blocker in rows["cni"]["blockers"]:
        assert set(blocker) == {"reason", "message", "nodes"} and blocker["message"]


def test_the_message_of_a_failed_task_has_no_code() -> None:
    on = scene([node("n")], [pod("web", "900m", on="n"), pod("cni", "5")], dry_run=True)
    on.controller.reconcile()
    result = rescue_result(RescueResult([*on.controller.tasks.values()]), named=True)
    assert result["failed"] and result["msg"].startswith("Pod kube-system/cni: impossible: no eviction makes the pod fit on a node: ")
