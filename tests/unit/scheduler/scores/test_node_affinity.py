# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores by preferred node affinity. The expected values are those of upstream's tests."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import PreferredSchedulingTerm
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import ScoreSettings

from tests.unit.scheduler.scores.scored import plugin_scores
from tests.unit.support.objects import Json, node, pod

AFFINITY = "NodeAffinity"


def preferred(weight: int, key: str, *values: str) -> Json:
    return {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}}


def pod_with(*terms: Json) -> Json:
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}} if terms else {}


FOO = preferred(2, "foo", "bar")
KEY = preferred(4, "key", "value")
NAMED = {"weight": 9, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}}
ALL_THREE = {
    "weight": 5,
    "preference": {
        "matchExpressions": [
            {"key": "foo", "operator": "In", "values": ["bar"]},
            {"key": "key", "operator": "In", "values": ["value"]},
            {"key": "az", "operator": "In", "values": ["az1"]},
        ]
    },
}
LABELS = [{"foo": "bar"}, {"key": "value"}, {"az": "az1"}, {"abc": "az11", "def": "az22"}, {"foo": "bar", "key": "value", "az": "az1"}]


@pytest.mark.parametrize(
    ("terms", "added", "labels", "expected"),
    [
        ([], [], LABELS[:3], []),
        ([FOO], [], [LABELS[0], LABELS[1], LABELS[2]], [100, 0, 0]),
        ([FOO, KEY, ALL_THREE], [], [LABELS[0], LABELS[4], LABELS[1]], [18, 100, 36]),
        ([], [FOO], LABELS[:3], [100, 0, 0]),
        ([KEY], [FOO], LABELS[:3], [50, 100, 0]),
        # A term without expressions matches no node, and the plugin is not skipped.
        ([{"weight": 9, "preference": {}}], [], LABELS[:2], [0, 0]),
        ([NAMED, FOO], [], LABELS[:2], [22, 100]),
    ],
)  # fmt: skip
def test_score_is_the_weight_of_the_terms_that_match(terms: list[Json], added: list[Json], labels: list[Json], expected: list[int]) -> None:
    nodes = [node(f"node-{number}", labels=some) for number, some in enumerate(labels)]
    settings = ScoreSettings(added_terms=tuple(decode_json(PreferredSchedulingTerm, encode_json(term)) for term in added))
    assert plugin_scores(AFFINITY, pod(**pod_with(*terms)), nodes, settings=settings) == expected
