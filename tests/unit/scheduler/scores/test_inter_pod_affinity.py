# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores by preferred affinity between pods. The expected values are those of upstream's tests."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import ScoreSettings

from tests.unit.scheduler.scores.scored import plugin_scores, scores_of
from tests.unit.support.objects import Json, affinity_term, node, pod, pod_affinity

AFFINITY = "InterPodAffinity"
S1, S2, X = {"security": "S1"}, {"security": "S2"}, {"app": "x"}
CHINA, INDIA, AZ1, AZ2 = {"region": "China"}, {"region": "India"}, {"az": "az1"}, {"az": "az2"}


def near(*terms: tuple[int, Json]) -> Json:
    return {"podAffinity": _preferred(*terms)}


def apart(*terms: tuple[int, Json]) -> Json:
    return {"podAntiAffinity": _preferred(*terms)}


def _preferred(*terms: tuple[int, Json]) -> Json:
    weighted = [{"weight": weight, "podAffinityTerm": term} for weight, term in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": weighted}


STAY_S1, STAY_S2 = near((5, affinity_term(S1, "region"))), near((6, affinity_term(S2, "region")))
AWAY_S1, AWAY_S2 = apart((5, affinity_term(S1, "az"))), apart((5, affinity_term(S2, "az")))
HARD = pod_affinity(affinity_term({}, "region", labelSelector={"matchExpressions": [{"key": "security", "operator": "Exists"}]}))


def nodes_with(*labels: Json) -> list[object]:
    return [node(f"node-{number}", labels=some) for number, some in enumerate(labels)]


def on(number: int, labels: Json, affinity: Json | None = None, **more: object) -> Pod:
    return pod(on=f"node-{number}", labels=labels, affinity=affinity, **more)


@pytest.mark.parametrize(
    ("asked", "nodes", "pods", "expected"),
    [
        (pod(labels=S1), [CHINA, INDIA, AZ1], [on(0, S1)], [0, 0, 0]),
        (pod(labels=S1, affinity=STAY_S1), [CHINA, INDIA, AZ1], [on(0, S1), on(1, S2), on(2, S1)], [100, 0, 0]),
        (pod(affinity=STAY_S1), [CHINA, {**CHINA, **AZ1}, INDIA], [on(0, S1)], [100, 100, 0]),
        (
            pod(affinity=STAY_S2),
            [CHINA, INDIA, CHINA, CHINA, INDIA],
            [on(0, S2), *(on(number, S2) for number in range(5))],
            [100, 0, 100, 100, 0],
        ),
        # The terms of the pods on nodes count too.
        (pod(labels=S2), [CHINA, INDIA, AZ1], [on(0, S1, STAY_S1), on(1, S2, STAY_S2)], [0, 100, 0]),
        (pod(labels=S1), [CHINA, INDIA, AZ1], [on(0, S1, HARD), on(1, S2, HARD)], [100, 100, 0]),
        (pod(labels=S1, affinity=AWAY_S1), [AZ1, CHINA], [on(0, S1), on(1, S2)], [0, 100]),
        (pod(labels=S1, affinity=AWAY_S1), [AZ1, CHINA], [on(0, S1), on(1, S1)], [0, 100]),
        (pod(labels=S2), [AZ1, AZ2], [on(0, S1, AWAY_S2), on(1, S2, AWAY_S1)], [0, 100]),
        (pod(labels=S1, affinity={**near((8, affinity_term(S1, "region"))), **AWAY_S2}), [CHINA, AZ1], [on(0, S1), on(1, S2)], [100, 0]),
        # Three sums: 3, 7 and -2.
        (
            pod(
                affinity={
                    **near((3, affinity_term(S1, "az")), (7, affinity_term(S2, "az"))),
                    **apart((2, affinity_term(X, "az"))),
                }
            ),
            [AZ1, AZ2, {"az": "az3"}],
            [on(0, S1), on(1, S2), on(2, X)],
            [55, 100, 0],
        ),
    ],
)
def test_score_is_the_weight_of_the_terms_in_the_domains_of_the_node(
    asked: Pod, nodes: list[Json], pods: list[Pod], expected: list[int]
) -> None:
    assert plugin_scores(AFFINITY, asked, nodes_with(*nodes), pods) == expected


@pytest.mark.parametrize(("weight", "expected"), [(0, [0, 100, 0]), (5, [83, 100, 0]), (100, [100, 6, 0])])
def test_weight_of_required_terms_is_a_setting(weight: int, expected: list[int]) -> None:
    pods = [on(0, {"app": "x"}, HARD), on(1, S2, STAY_S2)]
    settings = ScoreSettings(hard_pod_affinity_weight=weight)
    assert plugin_scores(AFFINITY, pod(labels=S2), nodes_with(CHINA, INDIA, AZ1), pods, settings=settings) == expected


def test_preferred_terms_of_other_pods_can_be_ignored() -> None:
    pods = [on(0, S1, STAY_S1), on(1, S2, STAY_S2)]
    settings = ScoreSettings(ignores_preferred_terms=True)
    nodes = nodes_with(CHINA, INDIA)
    assert plugin_scores(AFFINITY, pod(labels=S2), nodes, pods, settings=settings) == [0, 0]
    # They count if the pod has a preferred term.
    assert plugin_scores(AFFINITY, pod(labels=S2, affinity=AWAY_S1), nodes, pods, settings=settings) == [0, 100]


IN_TEAM = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
NOT_IN_TEAM = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}}
NAMESPACES = {"default": {"team": "a"}, "other": {"team": "b"}}


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({}, [100, 0]),
        ({"namespaces": ["other"]}, [0, 100]),
        (IN_TEAM, [100, 0]),
        ({**IN_TEAM, "namespaces": ["other"]}, [0, 100]),
        # kube-scheduler also applies the selector to a namespace without labels.
        (NOT_IN_TEAM, [0, 100]),
        ({"namespaceSelector": {}}, [0, 100]),
    ],
)
def test_namespaces_of_a_term_of_the_pod(term: Json, expected: list[int]) -> None:
    asked = pod(affinity=near((5, affinity_term(S1, "region", **term))))
    pods = [on(0, S1), on(1, S1, namespace="other"), on(1, S1, namespace="other")]
    assert plugin_scores(AFFINITY, asked, nodes_with(CHINA, INDIA), pods, namespaces=NAMESPACES) == expected


@pytest.mark.parametrize(
    ("term", "expected"), [({}, [0, 0]), ({"namespaces": ["default"]}, [0, 100]), (IN_TEAM, [0, 100]), (NOT_IN_TEAM, [0, 0])]
)
def test_namespaces_of_a_term_of_a_pod_on_a_node(term: Json, expected: list[int]) -> None:
    pods = [on(1, S2, near((5, affinity_term(S1, "region", **term))), namespace="other")]
    assert plugin_scores(AFFINITY, pod(labels=S1), nodes_with(CHINA, INDIA), pods, namespaces=NAMESPACES) == expected


def test_scores_are_unknown_if_a_term_needs_labels_of_a_namespace_that_was_not_read() -> None:
    pods = [on(1, S2, near((5, affinity_term(S1, "region", **IN_TEAM))), namespace="other")]
    found = scores_of(pod(labels=S1), nodes_with(CHINA, INDIA), pods, services=[])
    assert [reason.code for reason in found.unknown] == ["namespace_labels"]
    assert AFFINITY not in found.by_plugin
    assert not scores_of(pod(labels=S1), nodes_with(CHINA, INDIA), pods, services=[], namespaces=NAMESPACES).unknown
