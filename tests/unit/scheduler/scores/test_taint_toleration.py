# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores by taints with PreferNoSchedule. The expected values are those of upstream's tests."""

from __future__ import annotations

import pytest

from tests.unit.scheduler.scores.scored import plugin_scores
from tests.unit.support.objects import Json, node, pod

TAINTS = "TaintToleration"


def taint(key: str, value: str = "", effect: str = "PreferNoSchedule") -> Json:
    return {"key": key, "value": value, "effect": effect}


def toleration(key: str, value: str = "", effect: str = "PreferNoSchedule") -> Json:
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


CPU, DISK = taint("cpu-type", "arm64"), taint("disk-type", "ssd")


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        ([toleration("foo", "bar")], [[taint("foo", "bar")], [taint("foo", "blah")]], [100, 0]),
        ([toleration("cpu-type", "arm64"), toleration("disk-type", "ssd")], [[], [CPU], [CPU, DISK]], [100, 100, 100]),
        ([toleration("foo", "bar")], [[], [CPU], [CPU, DISK]], [100, 50, 0]),
        # Only taints with PreferNoSchedule count.
        ([], [[], [taint("cpu-type", "arm64", "NoSchedule")], [CPU, DISK]], [100, 100, 0]),
        ([], [[], [CPU]], [100, 0]),
        ([{"key": "cpu-type", "operator": "Exists"}], [[CPU], [CPU, DISK]], [100, 0]),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [[], [CPU], [CPU, DISK], [CPU, DISK, taint("a")]], [100, 67, 34, 0]),
    ],
)
def test_score_is_lower_with_more_taints_that_the_pod_does_not_tolerate(
    tolerations: list[Json], taints: list[list[Json]], expected: list[int]
) -> None:
    nodes = [node(f"node-{number}", taints=some) for number, some in enumerate(taints)]
    assert plugin_scores(TAINTS, pod(tolerations=tolerations), nodes) == expected


def test_only_feasible_nodes_count_for_the_largest_number_of_taints() -> None:
    nodes = [node("a"), node("b", taints=[CPU]), node("c", taints=[CPU, DISK])]
    assert plugin_scores(TAINTS, pod(), nodes, feasible=["a", "b"]) == [100, 0]
