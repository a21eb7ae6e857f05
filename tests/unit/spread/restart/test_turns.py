# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Namespaces take turns, the one with the oldest move first."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import force_setattr
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.turns import in_turns
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.support.cluster import NOW, struct


def targets(names: str) -> list[Target]:
    """Targets such as ``a/1 a/2 b/1``."""
    return [Target("Deployment", *name.split("/")) for name in names.split()]


def moved(name: str, age_s: float, annotation: str = "", outcome: str = "unchanged") -> Workload:
    """A workload that was moved at this time."""
    namespace, _slash, own_name = name.partition("/")
    made = make_outcome(now_s=NOW - age_s, attempts=1, outcome=outcome, revision="x", eligible="x")
    annotations = {OUTCOME_ANNOTATION: annotation or made.to_annotation()}
    workload: Workload = struct(Workload, {"metadata": {"name": own_name, "namespace": namespace, "annotations": annotations}})
    force_setattr(workload, "kind", "Deployment")
    return workload


@pytest.mark.parametrize(
    ("given", "workloads", "order"),
    [
        ("a/1 a/2 a/3 b/1 b/2 c/1", [], "a/1 b/1 c/1 a/2 b/2 a/3"),
        ("b/1 a/1 b/2", [], "b/1 a/1 b/2"),
        ("a/1 a/2 b/1", [moved("a/9", 60)], "b/1 a/1 a/2"),
        ("a/1 b/1 c/1", [moved("a/9", 60), moved("b/9", 90)], "c/1 b/1 a/1"),
        ("a/1 b/1", [moved("a/8", 10), moved("a/9", 90), moved("b/9", 60)], "b/1 a/1"),
        ("a/1 a/2 a/3", [moved("a/1", 60), moved("a/2", 90)], "a/3 a/2 a/1"),
        ("a/1 a/2 a/3 b/1", [moved("a/1", 60, outcome="pending"), moved("a/2", 90)], "b/1 a/1 a/3 a/2"),
        ("a/1 b/1", [moved("a/9", 60, "no JSON")], "a/1 b/1"),
        ("a/1 b/1", [moved("a/9", -300), moved("b/9", 60)], "b/1 a/1"),
        ("b/1 a/2 a/1", [moved("a/1", -301), moved("a/2", 90), moved("b/9", 60)], "a/1 b/1 a/2"),
    ],
)
def test_order(given: str, workloads: list[Workload], order: str) -> None:
    assert in_turns(targets(given), workloads, now_s=NOW) == targets(order)
