# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agents metric, template and budgets."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Victims

from tests.unit.services.extender.agents.views import agent, judgements, node, on_path, scores, series

QUERY = Expression("node_load1")


@pytest.mark.parametrize(
    ("best", "worst", "value", "score"),
    [(0, 10, 0, 10.0), (0, 10, 2.5, 7.5), (0, 10, 10, 0.0), (0, 10, 99, 0.0), (0, 10, -5, 10.0), (100, 20, 60, 5.0), (100, 20, 120, 10.0)],
)
def test_a_metric_is_scored_between_its_bounds(best: float, worst: float, value: float, score: float) -> None:
    of = agent("metric", query="node_load1", best=best, worst=worst)
    assert scores(of, [node("n", {QUERY: [series(value)]})]) == {"n": pytest.approx(score)}


def test_a_metric_rejects_beyond_its_limits() -> None:
    of = agent("metric", query="node_load1", best=0, worst=10, reject_above=8, reject_below=1, unit="jobs")
    found = judgements(of, [node(str(value), {QUERY: [series(value)]}) for value in (0, 1, 8, 9)])
    assert [one.rejection for one in found.values()] == [
        "the metric is 0 jobs, and reject_below is 1 jobs",
        "",
        "",
        "the metric is 9 jobs, and reject_above is 8 jobs",
    ]
    assert found["8"].explanation == "8 jobs (best 0 jobs, worst 10 jobs)"


def test_several_series_of_a_node_are_unknown() -> None:
    of = agent("metric", query="node_load1", best=0, worst=10)
    judgement = judgements(of, [node("n", {QUERY: [series(1), series(2)]})])["n"]
    assert judgement.score is None and judgement.explanation.startswith("2 series ")


def test_template_gives_each_node_the_score_of_the_original() -> None:
    of = agent("template")
    judgement = judgements(of, [node("n")])["n"]
    assert (judgement.score, on_path("foo", judgement), judgement.rejection) == (1.0, 1, "")
    assert scores(agent("template", score=7.5), [node("n")]) == {"n": 7.5}


def test_budgets_allow_preemption_without_violations_only() -> None:
    of = agent("budgets")
    assert of.can_preempt and not of.can_score and not of.can_filter
    assert of.preempt_violation(Victims(["a", "b"], 0)) == ""
    assert of.preempt_violation(Victims(["a", "b"], 1)) == (
        "preemption would delete 2 pods and violate PodDisruptionBudgets 1 times, and max_violations is 0"
    )
    assert agent("budgets", max_violations=1).preempt_violation(Victims(["a"], 1)) == ""
    assert judgements(of, [node("n")])["n"].score is None
