# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes that are open by rules which no other pod can change."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduling.domains import domain_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduling.eligibility import eligible_nodes, ineligibility

from tests.unit.scheduling.builders import node, node_affinity, pod

TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
ZONE_A = node_affinity({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]})


@pytest.mark.parametrize(
    ("a_node", "spec", "code"),
    [
        (node(), {}, None),
        (node(ready=False, taints=[TAINT]), {}, "node_not_ready"),
        (node(ready=False), {"tolerations": [{"operator": "Exists"}]}, "node_not_ready"),
        (node(cordoned=True), {}, "node_unschedulable"),
        (node(taints=[TAINT]), {}, "untolerated_taint"),
        (node(taints=[{**TAINT, "effect": "NoExecute"}]), {}, "untolerated_taint"),
        (node(taints=[TAINT]), {"tolerations": [{"operator": "Exists"}]}, None),
        (node(), {"nodeSelector": {"zone": "a"}}, "node_affinity"),
        (node(labels={"zone": "b"}), {"affinity": ZONE_A}, "node_affinity"),
        (node(labels={"zone": "a"}), {"affinity": ZONE_A}, None),
        (node(), {"nodeName": "node-2"}, "node_name"),
        (node(allocatable={"cpu": "0", "pods": "0"}), {}, None),
    ],
)
def test_a_node_is_eligible_or_not(a_node: t.Any, spec: dict[str, t.Any], code: str | None) -> None:
    reason = ineligibility(pod(**spec), a_node)
    assert (reason.code if reason else None) == code
    assert eligible_nodes(pod(**spec), [a_node]) == ([] if code else ["node-1"])


def test_a_node_without_the_key_is_in_no_domain() -> None:
    assert domain_of(node(labels={"zone": "a", "rack": ""}), "zone") == "a"
    assert domain_of(node(labels={"zone": "a", "rack": ""}), "rack") == ""
    assert domain_of(node(), "kubernetes.io/hostname") is None
