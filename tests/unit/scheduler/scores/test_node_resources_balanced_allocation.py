# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores by the balance of the requested resources. The expected values are those of upstream's tests."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import ScoreSettings, WeightedResource

from tests.unit.scheduler.scores.scored import plugin_scores
from tests.unit.support.objects import Json, container, node, pod

BALANCED = "NodeResourcesBalancedAllocation"
GPU = "example.com/gpu"
WITH_GPU = ScoreSettings(balanced_resources=tuple(map(WeightedResource, ("cpu", "memory", GPU))))
ASKED = {"cpu": "3000m", "memory": "5000"}


@pytest.mark.parametrize(
    ("settings", "requests", "allocatable", "pods", "expected"),
    [
        (ScoreSettings(), ASKED, ({"cpu": "4", "memory": "10000"}, {"cpu": "6", "memory": "10000"}), ({}, {}), [68, 75]),
        (ScoreSettings(), ASKED, ({"cpu": "10", "memory": "20000"}, {"cpu": "10", "memory": "20000"}), ({"cpu": "3"}, ASKED), [73, 74]),
        (ScoreSettings(), ASKED, ({"cpu": "10", "memory": "20000"}, {"cpu": "10", "memory": "50000"}), ({"cpu": "3"}, ASKED), [73, 70]),
        (
            ScoreSettings(),
            {"memory": "5000"},
            ({"cpu": "3", "memory": "5000"}, {"cpu": "3", "memory": "5000"}),
            ({"cpu": "3"}, {}),
            [100, 50],
        ),
        (
            ScoreSettings(),
            {"cpu": "3"},
            ({"cpu": "6", "memory": "10000"}, {"cpu": "6", "memory": "10000"}),
            ({"cpu": "3"}, ASKED),
            [62, 62],
        ),
        (
            WITH_GPU,
            {GPU: "1"},
            ({"cpu": "3500m", "memory": "40000", GPU: "8"}, {"cpu": "3500m", "memory": "40000", GPU: "8"}),
            ({**ASKED, GPU: "3"}, ASKED),
            [75, 76],
        ),
        (WITH_GPU, ASKED, ({"cpu": "3500m", "memory": "40000", GPU: "8"}, {"cpu": "3500m", "memory": "40000"}), ({}, {}), [56, 56]),
    ],
)
def test_score_is_higher_if_the_pod_improves_the_balance(
    settings: ScoreSettings, requests: Json, allocatable: tuple[Json, Json], pods: tuple[Json, Json], expected: list[int]
) -> None:
    nodes = [node(f"node-{number}", allocatable=amounts) for number, amounts in enumerate(allocatable)]
    there = [pod(amounts, on=f"node-{number}") for number, amounts in enumerate(pods) if amounts]
    assert plugin_scores(BALANCED, pod(requests), nodes, there, settings=settings) == expected


@pytest.mark.parametrize("version", ["v1.26.15", "v1.34.12", "v1.35.8+k3s1"])
@pytest.mark.parametrize(
    ("settings", "requests", "allocatable", "pods", "expected"),
    [
        (ScoreSettings(), ASKED, ({"cpu": "4", "memory": "10000"}, {"cpu": "6", "memory": "10000"}), ({}, {}), [87, 100]),
        (ScoreSettings(), ASKED, ({"cpu": "10", "memory": "20000"}, {"cpu": "10", "memory": "20000"}), ({"cpu": "3"}, ASKED), [82, 95]),
        (ScoreSettings(), ASKED, ({"cpu": "10", "memory": "20000"}, {"cpu": "10", "memory": "50000"}), ({"cpu": "3"}, ASKED), [82, 80]),
        (
            ScoreSettings(),
            {"cpu": "3"},
            ({"cpu": "6", "memory": "10000"}, {"cpu": "6", "memory": "10000"}),
            ({"cpu": "3"}, ASKED),
            [50, 75],
        ),
        (
            WITH_GPU,
            {GPU: "1"},
            ({"cpu": "3500m", "memory": "40000", GPU: "8"}, {"cpu": "3500m", "memory": "40000", GPU: "8"}),
            ({**ASKED, GPU: "3"}, ASKED),
            [70, 65],
        ),
        (WITH_GPU, ASKED, ({"cpu": "3500m", "memory": "40000", GPU: "8"}, {"cpu": "3500m", "memory": "40000"}), ({}, {}), [63, 63]),
    ],
)
def test_before_1_36_only_the_balance_with_the_pod_counts(
    settings: ScoreSettings, requests: Json, allocatable: tuple[Json, Json], pods: tuple[Json, Json], expected: list[int], version: str
) -> None:
    nodes = [node(f"node-{number}", allocatable=amounts) for number, amounts in enumerate(allocatable)]
    there = [pod(amounts, on=f"node-{number}") for number, amounts in enumerate(pods) if amounts]
    assert plugin_scores(BALANCED, pod(requests), nodes, there, settings=settings, server_version=version) == expected


@pytest.mark.parametrize("version", ["", "v1.36.0", "v1.36.3-eks-1", "v1.40.1", "v1.100.0", "1.35.8", "unknown"])
def test_a_version_that_is_newer_or_not_known_counts_as_the_newest_one(version: str) -> None:
    nodes = [node("node-1", allocatable={"cpu": "4", "memory": "10000"})]
    assert plugin_scores(BALANCED, pod(ASKED), nodes, server_version=version) == [68]


def test_pod_without_requests_is_not_scored_and_pod_level_requests_count() -> None:
    nodes = [node("node-1", allocatable={"cpu": "4", "memory": "10000"})]
    assert plugin_scores(BALANCED, pod({"cpu": "0"}), nodes) == []
    by_pod = pod(containers=[container()], resources={"requests": {"cpu": "3", "memory": "5000"}})
    assert plugin_scores(BALANCED, by_pod, nodes) == [68]
