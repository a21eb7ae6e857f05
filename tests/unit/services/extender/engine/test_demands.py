# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Demands share the scores of agents, and their number and size are limited."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine import profile_state
from ansible_collections.onprem.kube_scheduling.services.extender.engine.dithering import TABLES
from ansible_collections.onprem.kube_scheduling.services.extender.engine.engine import Engine
from ansible_collections.onprem.kube_scheduling.services.extender.engine.fragments import answer_of
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile_state import ProfileState
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Judgement, NodeView, PodView

from tests.unit.services.extender.extender_objects import PROFILE, DemandAgent, ScoreAgent, engine, node, pod_view, profile, scores_in, view

NAMES = ("a", "b", "c")


class PodAgent(ScoreAgent):
    """Its score is the value of the gauge, divided by the number in the UID."""

    name = "pod"
    per_demand = True

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        assert pod is not None
        found = super().judge(prepared, node, pod, now_s)
        return found if found.score is None else found._replace(score=found.score / int(pod.uid[1:]))

    def demand_key(self, pod: PodView) -> t.Hashable:
        return pod.uid


def state_of(one: Engine) -> ProfileState:
    state = one.state_for(PROFILE)
    assert state is not None
    return state


def ask(one: Engine, uid: str = "u1", cpu: int = 0) -> dict[str, int]:
    return scores_in(answer_of(state_of(one).table(uid, lambda: pod_view(uid, cpu)), NAMES))


def kept(one: Engine) -> t.Any:
    return list(state_of(one)._demands.values())


def test_demands_share_the_scores_of_an_agent_with_equal_keys() -> None:
    by_cpu, by_pod = DemandAgent(), PodAgent()
    one = engine(profile(by_cpu, by_pod))
    one.on_view(view(dict.fromkeys(NAMES, 8.0)))
    by_cpu.calls = by_pod.calls = 0
    for cpu in (1000, 2000):
        for uid in ("u1", "u2"):
            ask(one, uid, cpu)
    assert (by_cpu.calls, by_pod.calls) == (2 * 3, 2 * 3)
    assert len(kept(one)) == 4
    assert [demand.totals([0])[0] for demand in kept(one)] == [(7 + 8) / 2, (7 + 4) / 2, (6 + 8) / 2, (6 + 4) / 2]


def test_a_node_is_judged_once_for_all_demands_with_the_same_scores() -> None:
    by_cpu, by_pod = DemandAgent(), PodAgent()
    one = engine(profile(by_cpu, by_pod))
    one.on_view(view(dict.fromkeys(NAMES, 8.0)))
    before = {uid: ask(one, uid, 1000) for uid in ("u1", "u2", "u4")}
    one.on_node(node("b", 0.0))
    by_cpu.calls = by_pod.calls = 0
    after = {uid: ask(one, uid, 1000) for uid in before}
    assert (by_cpu.calls, by_pod.calls) == (1, 3)
    assert all(after[uid]["b"] == 0 for uid in after)
    assert all(after[uid][name] == before[uid][name] > 0 for uid in after for name in ("a", "c"))


def test_a_new_demand_with_known_scores_knows_the_replaced_nodes() -> None:
    one = engine(profile(DemandAgent(), PodAgent()))
    one.on_view(view(dict.fromkeys(NAMES, 8.0)))
    ask(one, "u1", 1000)
    one.on_node(node("a", 0.0))
    assert ask(one, "u2", 1000)["a"] == 0
    assert ask(one, "u1", 1000)["a"] == 0


def test_a_refresh_calculates_only_the_demands_that_were_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_state, "MAX_TAKEN_OVER", 3)
    agent = DemandAgent()
    one = engine(profile(agent))
    one.on_view(view(dict.fromkeys(NAMES, 9.0)))
    for cores in (1, 2, 3, 4, 5, 2):
        ask(one, "u1", cores * 1000)
    agent.calls = 0
    one.on_view(view(dict.fromkeys(NAMES, 8.0), version=2))
    assert agent.calls == (1 + 3) * len(NAMES), "a pod without requests, and three demands"
    assert [demand.pod.demand.requests["cpu"] for demand in kept(one)] == [4000, 5000, 2000]
    agent.calls = 0
    assert [ask(one, "u1", cores * 1000)["a"] for cores in (4, 5, 2)] == [4, 3, 6] and agent.calls == 0
    assert ask(one, "u1", 1000)["a"] == 7 and agent.calls == len(NAMES)


def test_no_more_tables_are_kept_than_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_state, "MAX_TABLE_BYTES", 0)
    one = engine(profile(DemandAgent()))
    one.on_view(view(dict.fromkeys(NAMES, 9.0)))
    for cores in (1, 2):
        for number in range(200):
            ask(one, f"u{number}", cores * 1000)
    assert [len(demand.tables) for demand in kept(one)] == [0, TABLES]
    one.on_view(view(dict.fromkeys(NAMES, 8.0), version=2))
    assert [len(demand.tables) for demand in kept(one)] == [0, 0], "a request makes its table"
    assert ask(one, "u1", 1000)["a"] == 7


def test_the_bytes_of_the_kept_scores_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    rejecting = ConfiguredAgent(DemandAgent(), 1, True)
    # Three scores, and a step for each node.
    monkeypatch.setattr(profile_state, "MAX_SCORE_BYTES", 4 * len(NAMES) * (4 + 1))
    one = engine(profile(rejecting))
    one.on_view(view(dict.fromkeys(NAMES, 9.0)))
    for cores in range(8):
        assert ask(one, "u1", cores * 1000)["a"] == 9 - cores
    assert len(kept(one)) == 4
    assert len(state_of(one)._shared) == 4, "the scores of the other demands were released"
    one.on_view(view(dict.fromkeys(NAMES, 1.0), version=2))
    ask(one, "u1", 1000)
    assert len(kept(one)) == 1, "the texts of three rejected nodes are longer than the limit, and the demand of the request stays"
