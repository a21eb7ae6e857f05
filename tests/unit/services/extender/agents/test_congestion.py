# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A larger congestion factor gives a lower score."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Annotation, Expression

from tests.unit.services.extender.agents.views import agent, judgements, node, on_path, series

FACTOR = Annotation("congestion-factor")


@pytest.mark.parametrize(("factor", "most", "original"), [(0, 10, 10), (3, 10, 7), (10, 10, 0), (12, 10, 0), (44, 100, 6), (55, 100, 5)])
def test_scores_are_those_of_the_original(factor: float, most: int, original: int) -> None:
    of = agent("congestion", max=most)
    judgement = judgements(of, [node("n", {FACTOR: [series(factor)]})])["n"]
    assert judgement.score == pytest.approx(10 * (1 - min(factor, most) / most))
    assert on_path("congestion", judgement) == original


@pytest.mark.parametrize("factor", [None, -1.0])
def test_the_original_gives_its_best_score_to_a_node_without_a_factor(factor: float | None) -> None:
    of = agent("congestion", max=10)
    judgement = judgements(of, [node("n", {FACTOR: [series(factor)]} if factor is not None else {})])["n"]
    assert on_path("congestion", judgement) == 10


def test_a_missing_or_negative_factor_is_unknown() -> None:
    of = agent("congestion")
    found = judgements(of, [node("none"), node("negative", {FACTOR: [series(-1.0)]}), node("old", {FACTOR: [series(1.0, age_s=400)]})])
    assert [one.score for one in found.values()] == [None, None, None]


def test_the_factor_can_come_from_a_query() -> None:
    of = agent("congestion", query="node:congestion", max=10, timestamp_of="node_load1")
    assert of.queries == (Expression("node:congestion", "node_load1"),)
    judgement = judgements(of, [node("n", {of.queries[0]: [series(3.5)]})])["n"]
    assert (judgement.score, on_path("congestion", judgement)) == (6.5, 7)
