# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent that fails, or returns a wrong value, knows no node, and the others continue."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from fractions import Fraction

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.agent_calls import checked
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.engine.scores import NEUTRAL
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Judgement, NodeView, PodView, Scores
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics

from tests.unit.services.extender.engine.engine_scores import NAMES, scores, totals
from tests.unit.services.extender.extender_objects import (
    PROFILE,
    BrokenAgent,
    DemandAgent,
    ScoreAgent,
    engine,
    node,
    pod_view,
    profile,
    quiet_log,
    view,
)


def test_an_agent_that_fails_knows_no_node_and_the_others_continue() -> None:
    metrics = Metrics(quiet_log())
    one = engine(profile(BrokenAgent(), ScoreAgent()), metrics=metrics)
    one.on_view(view({"a": 0.0, "b": 10.0}))
    one.on_node(node("a", 4.0))
    assert totals(one) == {"a": (NEUTRAL + 4) / 2, "b": (NEUTRAL + 10) / 2}
    assert metrics.registry.get_sample_value("kube_scheduling_extender_agent_errors_total", {"agent": "broken"}) >= 2


WRONG: list[t.Any] = [
    Judgement("9"),  # type: ignore[arg-type]
    Judgement([]),  # type: ignore[arg-type]
    Judgement(10**400),
    Judgement(5.0, "much"),  # type: ignore[arg-type]
    Judgement(5.0, measured_at_s="now"),  # type: ignore[arg-type]
    Judgement(5.0, rejection=7),  # type: ignore[arg-type]
    7.0,
    None,
]


@pytest.mark.parametrize("per_demand", [False, True])
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_an_agent_that_returns_a_wrong_type_knows_no_node_and_the_others_continue(wrong: t.Any, per_demand: bool) -> None:
    class Odd(ScoreAgent):
        def judge(self, prepared: object, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
            return t.cast(Judgement, wrong)

    Odd.per_demand = per_demand
    metrics = Metrics(quiet_log())
    one = engine(profile(Odd(), ScoreAgent()), metrics=metrics)
    one.on_view(view({"a": 0.0, "b": 10.0}))
    assert totals(one) == {"a": NEUTRAL / 2, "b": (NEUTRAL + 10) / 2}
    one.on_node(node("a", 4.0))
    assert totals(one) == {"a": (NEUTRAL + 4) / 2, "b": (NEUTRAL + 10) / 2}
    assert metrics.registry.get_sample_value("kube_scheduling_extender_agent_errors_total", {"agent": "score"}) >= 2


def test_numbers_of_other_types_and_explanations_that_are_no_text_are_converted() -> None:
    found = checked(Judgement(Fraction(5, 2), True, 7, 12, ""))  # type: ignore[arg-type]
    assert found == Judgement(2.5, 1.0, "7", 12.0, "")
    assert [type(part) for part in found] == [float, float, str, float, str]
    assert checked(Judgement(1.0, None, "Grüße \ud800", None, "zu \udfff"))[2:] == ("Grüße ?", None, "zu ?")


@pytest.mark.parametrize(("score", "total"), [(float("nan"), NEUTRAL), (float("inf"), 10.0), (-3.0, 0.0), (11, 10.0)])
def test_a_score_outside_the_scale_is_corrected(score: float, total: float) -> None:
    class Odd(ScoreAgent):
        def judge(self, prepared: object, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
            return Judgement(score)

    one = engine(profile(Odd()))
    one.on_view(view({"a": 1.0}))
    assert totals(one) == {"a": total}


def test_an_agent_with_a_key_that_cannot_be_used_fails_alone() -> None:
    class Odd(DemandAgent):
        def demand_key(self, pod: PodView) -> object:
            return []

    one = engine(profile(Odd()))
    one.on_view(view({"a": 8.0, "b": 3.0, "c": 3.0}))
    assert scores(one, cpu=1000) == {"a": 7, "b": 2, "c": 2}


def test_an_agent_that_returns_too_few_judgements_knows_no_node() -> None:
    class Short(DemandAgent):
        def score_all(self, prepared: object, nodes: object, pod: PodView, now_s: float) -> list[Judgement]:
            return [Judgement(1.0)]

    one = engine(profile(Short()))
    one.on_view(view({"a": 8.0, "b": 3.0}))
    assert len(set(scores(one, cpu=1, names=("a", "b")).values())) == 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Scores([7.0, float("nan"), 3.0], {2: "full"}), {"a": 7, "b": 5, "c": 3}),
        (Scores([99.0, -1.0, float("inf")]), {"a": 10, "b": 0, "c": 10}),
        (None, {"a": 4, "b": 4, "c": 4}),
        (Scores([1.0]), {"a": 5, "b": 5, "c": 5}),
        (Scores(["9", 1.0, 1.0]), {"a": 5, "b": 5, "c": 5}),  # type: ignore[list-item]
        (Scores([1.0, 1.0, 1.0], {9: "no such node"}), {"a": 5, "b": 5, "c": 5}),
        (7, {"a": 5, "b": 5, "c": 5}),
    ],
    ids=str,
)
def test_scores_without_texts(found: t.Any, expected: dict[str, int]) -> None:
    class Fast(DemandAgent):
        def scores(self, prepared: object, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> t.Any:
            return found

    one = engine(profile(ConfiguredAgent(Fast(), 1, True)))
    one.on_view(view(dict.fromkeys(NAMES, 4.0)))
    assert scores(one, cpu=0) == expected
    state = one.state_for(PROFILE)
    assert state is not None
    rejections = state.scores(pod_view).rejections(NAMES)
    assert rejections == ({"c": "full"} if isinstance(found, Scores) and 2 in found.rejections else {})


def test_of_several_reasons_the_one_of_the_first_agent_is_given() -> None:
    class Strict(ScoreAgent):
        def judge(self, prepared: object, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
            return super().judge(prepared, node, pod, now_s)._replace(rejection="too strict" if node.name != "c" else "")

    one = engine(profile(ConfiguredAgent(ScoreAgent(), 1, True), ConfiguredAgent(Strict(), 1, True), BrokenAgent()))
    one.on_view(view({"a": 1.0, "b": 5.0, "c": 5.0}))
    state = one.state_for(PROFILE)
    assert state is not None
    expected = {"a": "score 1 is below 2", "b": "too strict"}
    assert state.scores(pod_view).rejections(["x", "c", "b", "a"]) == expected
