# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine combines agents, replaces nodes, keeps demands, and survives agents that fail."""

from __future__ import annotations

import io
import json
import time
import typing as t
from collections.abc import Sequence
from fractions import Fraction

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import set_up_log
from ansible_collections.onprem.kube_scheduling.services.extender.engine import kept_demands
from ansible_collections.onprem.kube_scheduling.services.extender.engine.agent_values import checked
from ansible_collections.onprem.kube_scheduling.services.extender.engine.dithering import TABLES
from ansible_collections.onprem.kube_scheduling.services.extender.engine.engine import Engine
from ansible_collections.onprem.kube_scheduling.services.extender.engine.evaluation import NEUTRAL
from ansible_collections.onprem.kube_scheduling.services.extender.engine.fragments import answer_of
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Judgement, NodeView, Outcome, PodView, Scores
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.extender_objects import (
    PROFILE,
    BrokenAgent,
    DemandAgent,
    KeepBudgets,
    ScoreAgent,
    engine,
    node,
    pod_view,
    profile,
    quiet_log,
    scores_in,
    view,
)

NAMES = ("a", "b", "c")


def no_pod() -> PodView:
    raise AssertionError("the scores do not depend on the pod")


def scores(one: Engine, *, uid: str = "u1", cpu: int | None = None, names: tuple[str, ...] = NAMES) -> dict[str, int]:
    state = one.state_for(PROFILE)
    assert state is not None
    return scores_in(answer_of(state.table(uid, no_pod if cpu is None else lambda: pod_view(uid, cpu)), names))


def totals(one: Engine) -> dict[str, float]:
    state = one.state_for(PROFILE)
    assert state is not None
    return dict(zip(state.nodes.names, state.scores(lambda: pod_view()).totals, strict=True))


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
    assert state.scores(no_pod).rejection(0, "a") == ""
    assert state.scores(no_pod).rejections(["a", "b", "x"], state.nodes.number) == {}


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
    wrong, right = "no value is known for any node, so all nodes have equal scores", "values of nodes are known again"
    assert messages == [wrong, right, wrong]


def test_small_differences_show_in_some_tables_and_never_in_the_wrong_order() -> None:
    one = engine(profile(ScoreAgent()))
    one.on_view(view({"a": 9.9, "b": 10.0, "c": 10.0}))
    found = [scores(one, uid=f"u{number}") for number in range(200)]
    assert all(each["a"] <= each["b"] == each["c"] == 10 for each in found)
    assert {each["a"] for each in found} == {9, 10}


def test_a_replaced_node_changes_its_fragment_in_every_table_and_no_other() -> None:
    agent = ScoreAgent()
    one = engine(profile(agent))
    one.on_view(view({"a": 5.0, "b": 5.0, "c": 5.0}))
    calls = agent.calls
    one.on_node(node("b", 1.0))
    assert agent.calls == calls + 1
    assert all(scores(one, uid=f"u{number}") == {"a": 5, "b": 1, "c": 5} for number in range(50))
    one.on_node(node("new", 1.0))
    assert "new" not in one.current.nodes.number


def test_scores_of_a_demand_are_calculated_once_for_each_view() -> None:
    agent = DemandAgent()
    one = engine(profile(agent))
    one.on_view(view({"a": 5.0, "b": 6.0, "c": 7.0}))
    calls = agent.calls
    assert scores(one, cpu=1000) == {"a": 4, "b": 5, "c": 6}
    assert scores(one, cpu=1000, uid="u2") == {"a": 4, "b": 5, "c": 6}
    assert agent.calls == calls + 3
    assert scores(one, cpu=3000) == {"a": 2, "b": 3, "c": 4}
    assert agent.calls == calls + 6


def test_a_refresh_calculates_the_used_demands_before_a_request_waits_for_them() -> None:
    agent = DemandAgent()
    one = engine(profile(agent))
    one.on_view(view({"a": 5.0, "b": 6.0, "c": 7.0}))
    scores(one, cpu=1000)
    one.on_view(view({"a": 3.0, "b": 6.0, "c": 7.0}, version=2))
    calls = agent.calls
    assert scores(one, cpu=1000) == {"a": 2, "b": 5, "c": 6}
    assert agent.calls == calls
    one.on_view(view({"a": 3.0, "b": 6.0, "c": 7.0}, version=3))
    one.on_view(view({"a": 3.0, "b": 6.0, "c": 7.0}, version=4))
    calls = agent.calls
    one.on_view(view({"a": 3.0, "b": 6.0, "c": 7.0}, version=5))
    assert agent.calls == calls + 3, (
        "only a pod without requests is judged: a demand that no request used since the last view is not calculated again"
    )


def test_a_replaced_node_changes_in_the_tables_of_each_demand() -> None:
    one = engine(profile(DemandAgent(), ScoreAgent()))
    one.on_view(view({"a": 8.0, "b": 8.0, "c": 8.0}))
    scores(one, cpu=2000), scores(one, cpu=4000)
    one.on_node(node("b", 4.0))
    assert scores(one, cpu=2000) == {"a": 7, "b": 3, "c": 7}
    assert scores(one, cpu=4000) == {"a": 6, "b": 2, "c": 6}


def test_the_kept_demands_and_tables_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_demands, "MAX_DEMANDS", 3)
    monkeypatch.setattr(kept_demands, "MAX_TABLE_BYTES", 0)
    one = engine(profile(DemandAgent()))
    one.on_view(view({"a": 9.0, "b": 9.0, "c": 9.0}))
    for round_ in range(2):
        for cores in range(6):
            for number in range(8):
                assert scores(one, uid=f"u{round_}{number}", cpu=cores * 1000)["a"] == 9 - cores
    state = one.state_for(PROFILE)
    assert state is not None
    demands = state._kept._demands.values()
    assert len(demands) == 3 and sum(len(demand.tables) for demand in demands) <= TABLES
    assert all(demand.used for demand in demands)
    one.on_node(node("a", 0.0))
    assert scores(one, cpu=5000)["a"] == 0


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
    rejections = state.scores(pod_view).rejections(NAMES, state.nodes.number)
    assert rejections == ({"c": "full"} if isinstance(found, Scores) and 2 in found.rejections else {})


def test_a_reload_keeps_the_values_of_the_last_view_and_the_replaced_nodes() -> None:
    one = engine(profile(ScoreAgent()))
    one.on_view(view({"a": 1.0, "b": 2.0, "c": 3.0}))
    one.on_node(node("a", 9.0))
    one.reconfigure({"other": profile(ScoreAgent(), name="other")})
    assert one.state_for(PROFILE) is None
    state = one.state_for("other")
    assert state is not None
    assert scores_in(answer_of(state.table("u", no_pod), NAMES)) == {"a": 9, "b": 2, "c": 3}


def test_the_profile_of_all_schedulers_is_the_last_choice() -> None:
    one = engine(profile(ScoreAgent()), profile(ScoreAgent(), name="*"))
    own, other = one.state_for(PROFILE), one.state_for("anything")
    assert own is not None and own.profile.name == PROFILE
    assert other is not None and other.profile.name == "*"


def test_only_agents_that_learn_observe_outcomes() -> None:
    seen = []

    class Learner(ScoreAgent):
        learns = True

        def observe(self, outcome: Outcome) -> None:
            seen.append(outcome)
            raise RuntimeError("cannot learn")

    one = engine(profile(Learner(), ScoreAgent()))
    outcome = Outcome(pod_view(), "a", True, time.monotonic())
    one.on_outcome(outcome)
    assert seen == [outcome]


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


def test_a_replaced_node_is_judged_for_all_demands_without_requests_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_demands, "MOST_LATE", 2)
    calls = []

    class Many(DemandAgent):
        def judge_demands(self, prepared: object, node: NodeView, pods: Sequence[PodView], now_s: float) -> Sequence[Judgement]:
            calls.append([pod.demand.requests["cpu"] for pod in pods])
            return super().judge_demands(prepared, node, pods, now_s)

    one = engine(profile(ScoreAgent(), Many()))
    one.on_view(view({"a": 9.0, "b": 9.0}))
    scores(one, cpu=2000), scores(one, cpu=4000), scores(one, cpu=1000)
    one.on_node(node("a", 6.0))
    one.on_node(node("b", 9.0))
    assert calls == []
    scores(one, cpu=1000)
    one.on_node(node("b", 9.0))
    assert calls == [[2000, 4000]]
    assert [scores(one, cpu=cpu, names=("a", "b")) for cpu in (2000, 4000)] == [{"a": 5, "b": 8}, {"a": 4, "b": 7}]


def test_an_agent_that_fails_for_a_replaced_node_does_not_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_demands, "MOST_LATE", 0)

    class Short(DemandAgent):
        def judge_demands(self, prepared: object, node: NodeView, pods: Sequence[PodView], now_s: float) -> Sequence[Judgement]:
            return ()

    one = engine(profile(Short()))
    one.on_view(view({"a": 9.0, "b": 3.0, "c": 3.0}))
    assert scores(one, cpu=1000) == {"a": 8, "b": 2, "c": 2}
    one.on_node(node("a", 9.0))
    assert scores(one, cpu=1000) == {"a": 2, "b": 2, "c": 2}


CHANGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(3, 10).map(float)) | st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=60
)


@settings(max_examples=50, deadline=None)
@given(changes=CHANGES, most_late=st.integers(0, 4))
def test_replaced_nodes_and_requests_in_any_order_give_the_scores_of_a_new_calculation(
    changes: list[tuple[t.Any, t.Any]], most_late: int
) -> None:
    """A change is a node with its new value, or a request with its cores and the number of its pod."""
    profiles = profile(DemandAgent(), ConfiguredAgent(ScoreAgent(), 2)), profile(ScoreAgent(), name="static")
    one, values = engine(*profiles), dict.fromkeys(NAMES, 5.0)
    one.on_view(view(dict(values)))
    asked = {(0, 0)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_demands, "MOST_LATE", most_late)
        for what, value in changes:
            if what in NAMES:
                values[what] = value
                one.on_node(node(what, value))
            else:
                asked.add((what, value))
                scores(one, cpu=what * 1000, uid=f"u{value}")
    other = engine(*profiles)
    other.on_view(view(dict(values)))
    for cores, number in asked:
        assert scores(one, cpu=cores * 1000, uid=f"u{number}") == scores(other, cpu=cores * 1000, uid=f"u{number}")
    found, expected = one.state_for("static"), other.state_for("static")
    assert found is not None and expected is not None
    for number in range(20):
        assert found.table(f"u{number}", no_pod).fragments == expected.table(f"u{number}", no_pod).fragments


def test_the_nodes_that_an_agent_prepares_do_not_change_with_a_binding() -> None:
    class Memory(ScoreAgent):
        def prepare(self, nodes: Sequence[NodeView], now_s: float) -> Sequence[NodeView]:
            return nodes

    one = engine(profile(Memory()))
    one.on_view(view({"a": 5.0}))
    state = one.state_for(PROFILE)
    assert state is not None
    (before,) = state.prepared[0]
    one.on_node(node("a", 1.0))
    assert state.prepared[0] == (before,) and state.nodes.views != [before]


def test_of_several_reasons_the_one_of_the_first_agent_is_given() -> None:
    class Strict(ScoreAgent):
        def judge(self, prepared: object, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
            return super().judge(prepared, node, pod, now_s)._replace(rejection="too strict" if node.name != "c" else "")

    one = engine(profile(ConfiguredAgent(ScoreAgent(), 1, True), ConfiguredAgent(Strict(), 1, True), BrokenAgent()))
    one.on_view(view({"a": 1.0, "b": 5.0, "c": 5.0}))
    state = one.state_for(PROFILE)
    assert state is not None
    expected = {"a": "score 1 is below 2", "b": "too strict"}
    found = state.scores(no_pod)
    assert found.rejections(["x", "c", "b", "a"], state.nodes.number) == expected
    assert {name: found.rejection(number, name) for name, number in state.nodes.number.items()} == {**expected, "c": ""}
