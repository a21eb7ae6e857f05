# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""After which changes of nodes the scheduler gets its time again."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.settle_time import changed_nodes, has_opened

from tests.unit.support.objects import node, pending

TOLERATED = {"key": "held", "value": "x", "effect": "NoSchedule"}
TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("before", "now", "opened"),
    [
        (None, node(), True),
        (None, node(ready=False), False),
        (node(ready=False), node(), True),
        (node(cordoned=True), node(), True),
        (node(taints=[TAINT]), node(), True),
        (node(taints=[TAINT]), node(taints=[{**TAINT, "value": "c"}]), False),
        (node(taints=[TOLERATED]), node(), False),
        (node(), node(labels={"zone": "a"}), True),
        (node(), node(allocatable={"cpu": "8"}), True),
        (node(), node(allocatable={"cpu": "8"}, taints=[TAINT]), False),
        (node(), node(ready=False), False),
        (node(), node(cordoned=True), False),
        (node(), node(taints=[TAINT]), False),
        (node(taints=[TAINT]), node(taints=[TAINT], labels={"a": "b"}), False),
        (node(), node(), False),
    ],
)
def test_node_that_may_take_the_pod_now_and_could_not_before_has_opened(before: Node | None, now: Node, opened: bool) -> None:
    pod = pending(tolerations=[{"key": "held", "operator": "Exists"}])
    changes = changed_nodes({} if before is None else {"n": before}, {"n": now})
    assert has_opened(pod, changes) is opened


def test_nodes_that_are_gone_or_the_same_have_not_changed() -> None:
    same = node()
    assert changed_nodes({"n": same, "gone": node()}, {"n": same}) == []
