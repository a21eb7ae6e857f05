# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores by the share of the resources that is requested. The expected values are those of upstream's tests of each strategy."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.device import DeviceClass
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import ScoreSettings, ShapePoint, WeightedResource

from tests.unit.scheduler.scores.scored import plugin_scores, scores_of
from tests.unit.support.cluster import struct
from tests.unit.support.objects import Json, container, node, pod, sidecar

FIT = "NodeResourcesFit"
GPU = "example.com/gpu"
MOST = ScoreSettings(strategy="MostAllocated")
SMALL, LARGE = {"cpu": "4000", "memory": "10000"}, {"cpu": "6000", "memory": "10000"}
WIDE = {"cpu": "10000", "memory": "20000"}
TWO_CONTAINERS = [container({"cpu": "1000", "memory": "2000"}), container({"cpu": "2000", "memory": "3000"})]
CPU = WeightedResource("cpu")
CPU_ONLY = {"cpu": "3000", "memory": "0"}
LOADED = {"cpu": "3000", "memory": "5000"}


def ratio(*points: tuple[int, int], resources: tuple[WeightedResource, ...] | None = None) -> ScoreSettings:
    shape = tuple(ShapePoint(*point) for point in points)
    return ScoreSettings(
        strategy="RequestedToCapacityRatio", shape=shape, resources=resources or (WeightedResource("cpu"), WeightedResource("memory"))
    )


def two_nodes(first: Json, second: Json) -> list[object]:
    return [node("node-1", allocatable=first), node("node-2", allocatable=second)]


@pytest.mark.parametrize(
    ("settings", "allocatable", "wanted", "first_pods", "second_pods", "expected"),
    [
        (ScoreSettings(), (SMALL, LARGE), TWO_CONTAINERS, [], [], [37, 50]),
        (ScoreSettings(), (WIDE, WIDE), [container({"cpu": "0", "memory": "0"})], [CPU_ONLY] * 2, [CPU_ONLY, LOADED], [70, 57]),
        (ScoreSettings(), (WIDE, WIDE), TWO_CONTAINERS, [{"cpu": "3000", "memory": "0"}], [LOADED], [57, 45]),
        # More is requested than the node has.
        (ScoreSettings(), (SMALL, SMALL), [container(CPU_ONLY)], [CPU_ONLY], [LOADED], [50, 25]),
        (ScoreSettings(), ({"cpu": "0", "memory": "0"}, {"cpu": "0", "memory": "10000"}), TWO_CONTAINERS, [], [], [0, 50]),
        (ScoreSettings(resources=(WeightedResource("memory", 2), CPU)), (SMALL, LARGE), TWO_CONTAINERS, [], [], [41, 50]),
        (MOST, (SMALL, LARGE), TWO_CONTAINERS, [], [], [62, 50]),
        (MOST, (WIDE, WIDE), TWO_CONTAINERS, [{"cpu": "3000", "memory": "0"}], [LOADED], [42, 55]),
        (MOST, (SMALL, LARGE), [container({"cpu": "5000", "memory": "0"})], [], [], [50, 41]),
        (ratio((0, 10), (100, 0)), (SMALL, LARGE), TWO_CONTAINERS, [], [], [38, 50]),
        # A falling line is rounded towards zero, and a resource without a score does not count.
        (ratio((0, 2), (30, 9), (70, 3), (100, 10)), (SMALL, LARGE), TWO_CONTAINERS, [], [], [51, 60]),
        (ratio((0, 0), (100, 10)), (SMALL, LARGE), [container({"cpu": "2000", "memory": "0"})], [], [], [50, 33]),
    ],
)  # fmt: skip
def test_score_is_the_share_of_the_resources(
    settings: ScoreSettings,
    allocatable: tuple[Json, Json],
    wanted: list[Json],
    first_pods: list[Json],
    second_pods: list[Json],
    expected: list[int],
) -> None:
    pods = [pod(amounts, on="node-1") for amounts in first_pods] + [pod(amounts, on="node-2") for amounts in second_pods]
    assert plugin_scores(FIT, pod(containers=wanted), two_nodes(*allocatable), pods, settings=settings) == expected


HUNDRED = {"cpu": "1", "memory": "2000Mi"}
"""The default requests are a tenth of it."""


@pytest.mark.parametrize(
    ("spec", "on_node", "expected"),
    [
        ({"containers": [container()]}, {}, 90),
        ({"containers": [container(), container()]}, {}, 80),
        ({"containers": [container({"cpu": "0", "memory": "0"})]}, {}, 100),
        ({"containers": [container()], "initContainers": [container(), container()]}, {}, 90),
        ({"containers": [container()], "initContainers": [sidecar(), sidecar()]}, {}, 70),
        ({"containers": [container()], "overhead": {"cpu": "200m", "memory": "400Mi"}}, {}, 70),
        # The scorer of this plugin does not know pod-level requests of the new pod, and knows those of pods on nodes.
        ({"containers": [container()], "resources": {"requests": {"cpu": "500m", "memory": "1000Mi"}}}, {}, 90),
        ({}, {"containers": [container()], "resources": {"requests": {"cpu": "500m", "memory": "1000Mi"}}}, 40),
        ({}, {"containers": [container(), container()], "resources": {"requests": {"cpu": "500m"}}}, 55),
        ({}, {"containers": [container({"memory": "100Mi"}), container()], "resources": {"requests": {"cpu": "500m"}}}, 62),
        ({}, {"containers": [container()], "initContainers": [sidecar()]}, 70),
    ],
)  # fmt: skip
def test_container_without_requests_counts_with_the_default_requests(spec: Json, on_node: Json, expected: int) -> None:
    pods = [pod(on="node-1", **on_node)] if on_node else []
    assert plugin_scores(FIT, pod(**{"containers": [container()], **spec}), [node("node-1", allocatable=HUNDRED)], pods) == [expected]


@pytest.mark.parametrize(("requested", "expected"), [("2", [50, 75]), ("0", [50, 50])])
def test_extended_resource_counts_only_if_the_pod_requests_it(requested: str, expected: list[int]) -> None:
    nodes = two_nodes({"cpu": "2", "memory": "10000", GPU: "4"}, {"cpu": "2", "memory": "10000", GPU: "2"})
    settings = ScoreSettings(strategy="MostAllocated", resources=(WeightedResource("cpu"), WeightedResource(GPU)))
    asked = pod(containers=[container({"cpu": "1"}, limits={GPU: requested})])
    assert plugin_scores(FIT, asked, nodes, settings=settings) == expected


def test_score_is_unknown_on_a_node_on_which_devices_of_a_class_would_be_allocated() -> None:
    nodes = two_nodes({GPU: "4"}, {})
    settings = ScoreSettings(resources=(WeightedResource("cpu"), WeightedResource(GPU)))
    classes = [struct(DeviceClass, {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}})]
    asked = pod(containers=[container(limits={GPU: "1"})])
    found = scores_of(asked, nodes, settings=settings, device_classes=classes)
    assert [reason.code for reason in found.unknown] == ["device_class"]
    assert (found.totals, FIT in found.by_plugin) == ({}, False)
    assert not scores_of(asked, nodes, settings=settings, device_classes=classes, feasible=["node-1"]).unknown
