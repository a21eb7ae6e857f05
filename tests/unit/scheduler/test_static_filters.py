# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes that are open by rules which no other pod can change."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.filters.spread_domains import domain_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eligible_nodes import eligible_nodes

from tests.unit.support.objects import node, node_affinity, pod

TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
ZONE_A = node_affinity({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]})


@pytest.mark.parametrize(
    ("a_node", "spec", "eligible"),
    [
        (node(), {}, True),
        (node(ready=False, taints=[TAINT]), {}, False),
        (node(ready=False), {"tolerations": [{"operator": "Exists"}]}, False),
        (node(cordoned=True), {}, False),
        (node(taints=[TAINT]), {}, False),
        (node(taints=[{**TAINT, "effect": "NoExecute"}]), {}, False),
        (node(taints=[TAINT]), {"tolerations": [{"operator": "Exists"}]}, True),
        (node(), {"nodeSelector": {"zone": "a"}}, False),
        (node(labels={"zone": "b"}), {"affinity": ZONE_A}, False),
        (node(labels={"zone": "a"}), {"affinity": ZONE_A}, True),
        (node(), {"nodeName": "node-2"}, False),
        (node(allocatable={"cpu": "0", "pods": "0"}), {}, True),
    ],
)
def test_a_node_is_eligible_or_not(a_node: t.Any, spec: dict[str, t.Any], eligible: bool) -> None:
    assert eligible_nodes(pod(**spec), [a_node]) == (["node-1"] if eligible else [])


def test_a_node_without_the_key_is_in_no_domain() -> None:
    assert domain_of(node(labels={"zone": "a", "rack": ""}), "zone") == "a"
    assert domain_of(node(labels={"zone": "a", "rack": ""}), "rack") == ""
    assert domain_of(node(), "kubernetes.io/hostname") is None
