# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Workloads of the system are shown, and actions leave them out if nothing names them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import force_setattr
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import check_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions

from tests.unit.support.cluster import workers

SYSTEM = {"dns", "critical", "by-pods"}
OWN = {"web", "high"}


def checked(names: set[tuple[str, str]] | None = None, **options: Any) -> dict[str, Any]:
    """Check five collapsed Deployments, three of which are those of the system."""
    cluster = workers(3)
    cluster.namespace("kube-system", {"kube-scheduling.onprem/spread": "allow"})
    cluster.deployment("web", ["worker-1"] * 2)
    cluster.deployment("high", ["worker-1"] * 2, template={"spec": {"priorityClassName": "high-system-", "priority": 1_000_000_000}})
    cluster.deployment("dns", ["worker-1"] * 2)
    for found in (*cluster.deployments, *cluster.replica_sets, *cluster.pods):
        if found.metadata.name.startswith("dns"):
            force_setattr(found.metadata, "namespace", "kube-system")
    cluster.deployment("critical", ["worker-1"] * 2, template={"spec": {"priorityClassName": "system-node-critical"}})
    cluster.deployment("by-pods", ["worker-1"] * 2, template={"spec": {"priority": 2_000_000_000}})
    chosen = CheckOptions(**options)
    return check_result(check_spread(cluster.snapshot(), chosen, names=names), chosen, include_healthy=False)


def names_in(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["name"] for entry in entries}


def test_with_any_namespace_only_the_own_workloads_can_be_moved_and_all_are_shown() -> None:
    result = checked(namespace_annotations=())
    assert names_in(result["restartable"]) == names_in(result["uneven"]) == OWN
    assert result["summary"]["collapsed"] == 5 and result["summary"]["restartable"] == 2
    shown = {entry["name"]: entry for entry in result["workloads"]}
    assert set(shown) == SYSTEM | OWN and all(entry["restart_helps"] for entry in shown.values())
    texts = {name: [blocker["message"] for blocker in shown[name]["blockers"] if blocker["reason"] == "system_workload"] for name in shown}
    assert {name for name, found in texts.items() if found} == SYSTEM
    (dns,) = texts["dns"]
    assert dns.startswith("it is in kube-system; without an annotation, ") and dns.endswith("(namespaces) or they themselves are named")
    assert "has the priority class system-node-critical" in texts["critical"][0] and "priority 2000000000" in texts["by-pods"][0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, SYSTEM | OWN),  # both namespaces have the annotation
        ({"namespace_annotations": (), "namespaces": ["kube-system"]}, {"dns"}),
        ({"namespace_annotations": (), "namespaces": ["kube-system", "app"]}, SYSTEM | OWN),
        ({"namespace_annotations": (), "names": {("Deployment", "dns"), ("Deployment", "web")}}, {"dns", "web"}),
    ],
)
def test_an_annotation_or_a_name_is_a_choice(options: dict[str, Any], expected: set[str]) -> None:
    result = checked(**options)
    assert names_in(result["restartable"]) == names_in(result["uneven"]) == expected
