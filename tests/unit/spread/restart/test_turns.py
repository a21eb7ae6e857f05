# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Namespaces take turns, the one with the oldest move first, and a slow one waits until the others were served."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import force_setattr
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.run_limits import RunLimits
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.turns import NamespaceTimes, in_turns
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.support.cluster import NOW, struct
from tests.unit.support.objects import running


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
        ("a/1 b/1", [moved("a/9", -9e8)], "b/1 a/1"),
    ],
)
def test_order(given: str, workloads: list[Workload], order: str) -> None:
    assert in_turns(targets(given), workloads) == targets(order)


def test_a_slow_namespace_waits_until_the_others_were_served() -> None:
    times, waiting = NamespaceTimes(60, max_parallel=1), targets("a/1 b/1 a/2 c/1")
    times.add("a", 59)
    assert times.in_order(waiting) == waiting
    times.add("a", 1)
    assert times.in_order(waiting) == targets("b/1 c/1 a/1 a/2")
    times.add("b", 60)
    times.add("c", 60)
    assert times.in_order(waiting) == waiting


def test_a_namespace_that_has_taken_its_time_is_not_moved_any_more() -> None:
    limits = RunLimits(RestartOptions(wait_timeout_s=60, max_parallel=2))
    (first, second, other), pod = targets("a/1 a/2 b/1"), running("worker-1", namespace="a")
    limits.add_restart(first)
    limits.times.add("a", 719)
    assert limits.workload_limit_violation(second) is None
    limits.times.add("a", 1)
    text = "limit_reached: the workloads of namespace a have taken 720 s of this run, and it may take 720 s; the next run continues"
    for target in (first, second):
        assert str(limits.workload_limit_violation(target)) == str(limits.eviction_limit_violation(target, pod)) == text
    assert limits.workload_limit_violation(other) is None


def test_the_time_of_a_namespace_is_ten_minutes_at_least() -> None:
    times = NamespaceTimes(1, max_parallel=1)
    times.add("a", 599)
    assert not times.shortage("a")
    times.add("a", 1)
    assert times.shortage("a") and not times.shortage("b")
