# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores by the images of a node. The expected values are those of upstream's tests."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node, NodeWithImages
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import ScoreSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.scores.scorer import Scorer

from tests.unit.scheduler.scores.scored import plugin_scores, profiles, scores_of
from tests.unit.support.cluster import cluster_state
from tests.unit.support.objects import Json, container, node, node_json, pod

IMAGES = "ImageLocality"
MIB = 1024 * 1024


def node_with(name: str, *images: int | tuple[int, int]) -> Node:
    """A node with images that are named after their size in MiB. A pair is a name and another size."""
    pairs = [image if isinstance(image, tuple) else (image, image) for image in images]
    found = [{"names": [f"gcr.io/{own}:latest", f"gcr.io/{own}:v1", f"gcr.io/{own}:v1"], "sizeBytes": size * MIB} for own, size in pairs]
    value = node_json(name)
    return decode_json(NodeWithImages, encode_json({**value, "status": {**value["status"], "images": found}}))


def pod_with(*images: int, init: tuple[int, ...] = (), volumes: tuple[int, ...] = ()) -> Json:
    return {
        "containers": [container(image=f"gcr.io/{image}") for image in images],
        "initContainers": [container(image=f"gcr.io/{image}:latest") for image in init],
        "volumes": [{"name": f"volume-{image}", "image": {"reference": f"gcr.io/{image}"}} for image in volumes],
    }


A = node_with("a", 40, 300, 2000)
B = node_with("b", 250, 10)
EMPTY = node_with("empty")


@pytest.mark.parametrize(
    ("spec", "nodes", "expected"),
    [
        (pod_with(40, 250), [A, B], [0, 5]),
        (pod_with(40, 300), [A, B], [7, 0]),
        (pod_with(10, 4000), [node_with("c", 4000, 30), B], [100, 0]),
        (pod_with(10, 4000), [node_with("c", 4000, 30), B, EMPTY], [66, 0, 0]),
        (pod_with(300, 600, 900), [node_with("c", 600, 40, 900), node_with("d", 300, 600, 900), EMPTY], [32, 36, 0]),
        (pod_with(30, init=(300,)), [A, node_with("d", 20, 30, 40)], [6, 0]),
        (pod_with(30, volumes=(300,)), [A, node_with("d", 20, 30, 40)], [12, 0]),
        (pod_with(300, 300), [A, EMPTY], [14, 0]),
    ],
)
def test_score_is_the_size_of_the_images_that_the_node_has(spec: Json, nodes: list[Node], expected: list[int]) -> None:
    assert plugin_scores(IMAGES, pod(**spec), nodes) == expected


def test_images_of_volumes_count_since_1_36() -> None:
    spec, nodes = pod_with(30, volumes=(300,)), [A, node_with("d", 20, 30, 40)]
    assert plugin_scores(IMAGES, pod(**spec), nodes, server_version="v1.36.3") == [12, 0]
    assert (
        plugin_scores(IMAGES, pod(**spec), nodes, server_version="v1.35.8") == plugin_scores(IMAGES, pod(**pod_with(30)), nodes) == [0, 0]
    )


@pytest.mark.parametrize(
    ("image", "expected"), [("gcr.io/300:v1", 12), ("gcr.io/300", 12), ("gcr.io/300:other", 0), ("gcr.io:5000/300", 0)]
)
def test_name_without_a_tag_is_the_tag_latest(image: str, expected: int) -> None:
    assert plugin_scores(IMAGES, pod(containers=[container(image=image)]), [A, EMPTY]) == [expected, 0]


def test_score_is_unknown_if_it_depends_on_which_node_has_reported_the_image_first() -> None:
    nodes = [node_with("a", (300, 300)), node_with("b", (300, 900)), EMPTY]
    found = scores_of(pod(**pod_with(300)), nodes)
    assert [reason.code for reason in found.unknown] == ["image_size"]
    assert (found.totals, IMAGES in found.by_plugin) == ({}, False)
    assert not scores_of(pod(**pod_with(300)), nodes, feasible=["empty"]).unknown
    slightly = [node_with("a", (300, 300)), node_with("b", (300, 301)), EMPTY]
    assert not scores_of(pod(**pod_with(300)), slightly).unknown


def test_scores_are_unknown_if_the_images_were_not_read() -> None:
    found = Scorer(pod(), cluster_state([node("a")])).scores(["a"])
    assert [reason.code for reason in found.unknown] == ["images_not_read"]
    assert IMAGES not in found.by_plugin
    assert not Scorer(pod(), cluster_state([node("a")]), profiles(ScoreSettings(weights=(("TaintToleration", 3),)))).unknown(["a"])
