# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A profile combines its agents, and says what a node without a value gets."""

from __future__ import annotations

import io
import json

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import set_up_log
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.engine.scores import NEUTRAL
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Judgement, NodeView, PodView
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics

from tests.unit.services.extender.engine.engine_scores import no_pod, scores, totals
from tests.unit.services.extender.extender_objects import (
    PROFILE,
    DemandAgent,
    KeepBudgets,
    ScoreAgent,
    engine,
    profile,
    quiet_log,
    view,
)


def test_the_total_is_the_weighted_mean_of_the_agents() -> None:
    class Half(ScoreAgent):
        def judge(self, prepared: object, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
            return Judgement(5.0)

    one = engine(profile(ConfiguredAgent(ScoreAgent(), 3), ConfiguredAgent(Half(), 1), KeepBudgets()))
    one.on_view(view({"a": 0.0, "b": 10.0, "c": 6.0}))
    assert totals(one) == pytest.approx({"a": 1.25, "b": 8.75, "c": 5.75})


@pytest.mark.parametrize(("unknown", "total"), [("median", 4.0), ("low", 0.0), ("filter", 0.0)])
def test_a_node_without_a_value_follows_the_policy(unknown: str, total: float) -> None:
    one = engine(profile(ScoreAgent(), unknown=unknown))
    one.on_view(view({"a": 2.0, "b": 6.0, "c": None, "d": 4.0}))
    assert totals(one)["c"] == total
    assert scores(one, names=("not-in-the-view",)) == {"not-in-the-view": int(total)}


@pytest.mark.parametrize("unknown", ["median", "low", "filter"])
def test_if_no_value_is_known_all_nodes_are_equal_and_none_is_rejected(unknown: str) -> None:
    one = engine(profile(ScoreAgent(), unknown=unknown))
    one.on_view(view({"a": None, "b": None}))
    state = one.state_for(PROFILE)
    assert state is not None and state.is_neutral
    assert len(set(scores(one).values())) == 1
    assert totals(one) == {"a": NEUTRAL, "b": NEUTRAL}
    assert state.scores(no_pod).rejections(["a", "b", "x"]) == {}


def test_a_profile_whose_agents_depend_on_the_pod_is_neutral_without_values() -> None:
    one = engine(profile(DemandAgent()))
    state = one.state_for(PROFILE)
    assert state is not None and state.is_neutral
    one.on_view(view({"a": 1.0, "b": None}))
    state = one.state_for(PROFILE)
    assert state is not None and not state.is_neutral


def test_before_the_first_view_all_nodes_are_equal() -> None:
    one = engine(profile(ScoreAgent()))
    assert not one.has_refreshed
    assert len(set(scores(one).values())) == 1


def test_a_profile_without_a_scoring_agent_gives_equal_scores() -> None:
    one = engine(profile(KeepBudgets()))
    one.on_view(view({"a": 1.0, "b": 9.0}))
    assert len(set(scores(one, names=("a", "b", "x")).values())) == 1
    state = one.state_for(PROFILE)
    assert state is not None and not state.is_neutral, "budgets need no values"


def test_the_log_says_once_that_no_value_is_known_and_that_values_are_known_again() -> None:
    text = io.StringIO()
    metrics = Metrics(set_up_log("extender", form="json", level="info", stream=text))
    one = engine(profile(ScoreAgent()), metrics=metrics)
    for version, value in enumerate((None, None, 5.0, 5.0, None), 1):
        one.on_view(view({"a": value}, version=version))
    messages = [json.loads(line)["message"] for line in text.getvalue().splitlines()]
    starts = ("no value is known ", "values of nodes are known again", "no value is known ")
    assert all(message.startswith(start) for message, start in zip(messages, starts, strict=True)), messages


def test_small_differences_show_in_some_tables_and_never_in_the_wrong_order() -> None:
    one = engine(profile(ScoreAgent()))
    one.on_view(view({"a": 9.9, "b": 10.0, "c": 10.0}))
    found = [scores(one, uid=f"u{number}") for number in range(200)]
    assert all(each["a"] <= each["b"] == each["c"] == 10 for each in found)
    assert {each["a"] for each in found} == {9, 10}


def test_the_profile_of_all_schedulers_is_the_last_choice() -> None:
    one = engine(profile(ScoreAgent()), profile(ScoreAgent(), name="*"))
    own, other = one.state_for(PROFILE), one.state_for("anything")
    assert own is not None and own.profile.name == PROFILE
    assert other is not None and other.profile.name == "*"


def test_metrics_show_scores_unknown_nodes_and_the_age_of_the_data() -> None:
    metrics = Metrics(quiet_log())
    one = engine(profile(ScoreAgent()), metrics=metrics)
    one.on_view(view({"a": 7.5, "b": None}, errors={"prometheus": "it does not answer"}))
    labels = {"profile": PROFILE, "agent": "score"}

    def sample(name: str, **more: str) -> float | None:
        return metrics.registry.get_sample_value(f"kube_scheduling_extender_{name}", more)

    assert sample("nodes_by_score", score="7", **labels) == 1
    assert sample("unknown_nodes", **labels) == 1
    age_s = sample("data_age_seconds", **labels)
    assert age_s is not None and 0 <= age_s < 60
    assert sample("query_errors_total", source="prometheus") == 1
    assert sample("nodes") == 2
