# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine replaces nodes, keeps demands, and takes over other profiles."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Sequence
from dataclasses import replace

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learning import LearningAgent
from ansible_collections.onprem.kube_scheduling.services.extender.engine import profile_state
from ansible_collections.onprem.kube_scheduling.services.extender.engine.dithering import TABLES
from ansible_collections.onprem.kube_scheduling.services.extender.engine.fragments import answer_of
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Judgement, NodeView, PodView
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_tracker import Outcome
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.engine.engine_scores import NAMES, no_pod, scores
from tests.unit.services.extender.extender_objects import (
    PROFILE,
    DemandAgent,
    ScoreAgent,
    engine,
    node,
    pod_view,
    profile,
    scores_in,
    view,
)


def test_a_replaced_node_changes_its_fragment_in_every_table_and_no_other() -> None:
    agent = ScoreAgent()
    one = engine(profile(agent))
    one.on_view(view({"a": 5.0, "b": 5.0, "c": 5.0}))
    calls = agent.calls
    one.on_node(node("b", 1.0))
    assert agent.calls == calls + 1
    assert all(scores(one, uid=f"u{number}") == {"a": 5, "b": 1, "c": 5} for number in range(50))
    one.on_node(node("new", 1.0))
    assert "new" not in one.current.nodes.numbers


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
    monkeypatch.setattr(profile_state, "MAX_DEMANDS", 3)
    monkeypatch.setattr(profile_state, "MAX_TABLE_BYTES", 0)
    one = engine(profile(DemandAgent()))
    one.on_view(view({"a": 9.0, "b": 9.0, "c": 9.0}))
    for round_ in range(2):
        for cores in range(6):
            for number in range(8):
                assert scores(one, uid=f"u{round_}{number}", cpu=cores * 1000)["a"] == 9 - cores
    state = one.state_for(PROFILE)
    assert state is not None
    demands = state._demands.values()
    assert len(demands) == 3 and sum(len(demand.tables) for demand in demands) <= TABLES
    assert all(demand.is_used for demand in demands)
    one.on_node(node("a", 0.0))
    assert scores(one, cpu=5000)["a"] == 0


def test_a_reload_keeps_the_values_of_the_last_view_and_the_replaced_nodes() -> None:
    one = engine(profile(ScoreAgent()))
    one.on_view(view({"a": 1.0, "b": 2.0, "c": 3.0}))
    one.on_node(node("a", 9.0))
    one.reconfigure({"other": profile(ScoreAgent(), name="other")})
    assert one.state_for(PROFILE) is None
    state = one.state_for("other")
    assert state is not None
    assert scores_in(answer_of(state.table("u", no_pod), NAMES)) == {"a": 9, "b": 2, "c": 3}


def test_only_agents_that_learn_observe_outcomes() -> None:
    seen = []

    class Learner(ScoreAgent, LearningAgent):
        def observe(self, pod: PodView, node: str, succeeded: bool, at_s: float) -> None:
            seen.append((pod, node, succeeded, at_s))
            raise RuntimeError("cannot learn")

    one = engine(profile(Learner(), ScoreAgent()))
    outcome = Outcome(pod_view(), "a", True, time.monotonic())
    one.on_outcome(outcome)
    assert seen == [outcome]


def test_the_nodes_that_were_replaced_since_the_last_request_are_judged_in_one_call() -> None:
    calls = []

    class Many(DemandAgent):
        def score_all(self, prepared: object, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
            calls.append(([node.name for node in nodes], pod.demand.requests.get("cpu", 0)))
            return super().score_all(prepared, nodes, pod, now_s)

    one = engine(profile(ScoreAgent(), Many()))
    one.on_view(view({"a": 9.0, "b": 9.0, "c": 9.0}))
    scores(one, cpu=2000), scores(one, cpu=4000)
    calls.clear()
    for name, value in (("a", 6.0), ("b", 8.0), ("a", 7.0)):
        one.on_node(node(name, value))
    assert calls == [(["a"], 0), (["b"], 0), (["a"], 0)], "for a pod without requests"
    calls.clear()
    assert [scores(one, cpu=cpu) for cpu in (2000, 4000)] == [{"a": 6, "b": 7, "c": 8}, {"a": 5, "b": 6, "c": 7}]
    assert calls == [(["a", "b"], 2000), (["a", "b"], 4000)]


def test_an_agent_that_fails_for_a_replaced_node_does_not_know_it() -> None:
    class Short(DemandAgent):
        def score_all(self, prepared: object, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
            return super().score_all(prepared, nodes, pod, now_s) if len(nodes) > 1 else ()

    one = engine(profile(Short()))
    one.on_view(view({"a": 9.0, "b": 3.0, "c": 3.0}))
    assert scores(one, cpu=1000) == {"a": 8, "b": 2, "c": 2}
    one.on_node(node("a", 9.0))
    assert scores(one, cpu=1000) == {"a": 2, "b": 2, "c": 2}


CHANGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(3, 10).map(float)) | st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=60
)


@settings(max_examples=50, deadline=None)
@given(changes=CHANGES)
def test_replaced_nodes_and_requests_in_any_order_give_the_scores_of_a_new_calculation(changes: list[tuple[t.Any, t.Any]]) -> None:
    """A change is a node with its new value, or a request with its cores and the number of its pod."""
    profiles = profile(DemandAgent(), ConfiguredAgent(ScoreAgent(), 2)), profile(ScoreAgent(), name="static")
    one, values = engine(*profiles), dict.fromkeys(NAMES, 5.0)
    one.on_view(view(dict(values)))
    asked = {(0, 0)}
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
    (before,) = state.agents[0].prepared
    one.on_node(node("a", 1.0))
    assert state.agents[0].prepared == (before,) and state.nodes.views != [before]


def test_a_node_that_changes_before_the_engine_begins_with_its_view_is_not_lost() -> None:
    one, nodes = engine(profile(ScoreAgent())), {"a": node("a", 5.0)}
    one.on_view(view({"a": 5.0}))
    newest = replace(view({}, version=2), nodes=nodes)
    nodes["a"] = node("a", 1.0)
    one.on_node(nodes["a"])
    one.on_view(newest)
    assert scores(one, names=("a",)) == {"a": 1}
