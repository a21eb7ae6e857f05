# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Between two refreshes, a pod gets the answer of a new calculation from the pods that are bound by then."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.engine import Engine
from ansible_collections.onprem.kube_scheduling.services.extender.engine.explanation import explain_pod
from ansible_collections.onprem.kube_scheduling.services.extender.engine.fragments import Table, answer_of
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile_state import ProfileState
from ansible_collections.onprem.kube_scheduling.services.extender.engine.recent_pods import RecentPod
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, NodeView, PodView
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView

from tests.unit.services.extender.agents.views import GIB, NOW_S, agent, node, pod, series
from tests.unit.services.extender.extender_objects import GAUGE, PROFILE, DemandAgent, engine, profile, scores_in

NODES, PODS = 40, 30
ALLOCATABLE = {"cpu": 16_000, "memory": 64 * GIB, "pods": 110}
SMALL, LARGE = (pod(requests={"cpu": cpu, "memory": cpu * GIB // 500}) for cpu in (250, 1000))


def cluster(choices: random.Random) -> dict[str, NodeView]:
    """Nodes with 2 to 12 pods each."""
    found = {}
    for number in range(NODES):
        pods = [
            pod(f"p{number}-{one}", requests={"cpu": choices.choice([100, 250, 500]), "memory": GIB // 2}, bound_s_ago=60)
            for one in range(choices.randint(2, 12))
        ]
        found[f"n{number}"] = node(f"n{number}", pods=pods, allocatable=ALLOCATABLE)
    return found


def engine_with(of: Agent, nodes: Mapping[str, NodeView]) -> Engine:
    one = engine(profile(of))
    one.on_view(ClusterView(1, dict(nodes), refreshed_at_s=NOW_S))
    return one


def state_of(one: Engine) -> ProfileState:
    state = one.state_for(PROFILE)
    assert state is not None
    return state


def scores(table: Table) -> dict[str, int]:
    return scores_in(answer_of(table, tuple(table.fragments)))


def ask(one: Engine, waiting: PodView, uid: str) -> dict[str, int]:
    return scores(state_of(one).table(uid, lambda: waiting))


@pytest.mark.parametrize("objective", ["A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE"])
def test_each_pod_of_a_burst_gets_the_answer_of_a_new_calculation(objective: str) -> None:
    choices = random.Random(3)
    of, nodes = agent("pigeon", policy_objective=objective), cluster(choices)
    one = engine_with(of, nodes)
    for number in range(PODS):
        waiting, uid = (SMALL if number % 3 else LARGE), f"u{number}"
        found, new = ask(one, waiting, uid), engine_with(of, nodes)
        assert found == ask(new, waiting, uid), f"pod {number}"
        chosen = choices.choice([name for name, score in found.items() if score == max(found.values())])
        bound = replace(waiting, name=uid, uid=uid, bound_at_s=NOW_S)
        nodes[chosen] = replace(nodes[chosen], pods=(*nodes[chosen].pods, bound))
        one.on_node(nodes[chosen])


@pytest.mark.parametrize("objective", ["A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE"])
def test_an_explanation_has_the_newest_scores_and_changes_no_answer(objective: str) -> None:
    answers = []
    for is_explained in (False, True):
        of, nodes = agent("pigeon", policy_objective=objective), cluster(random.Random(4))
        one = engine_with(of, nodes)
        ask(one, SMALL, "u1")
        for number in range(15):
            name = f"n{number}"
            nodes[name] = replace(nodes[name], pods=(*nodes[name].pods, replace(LARGE, uid="b", bound_at_s=NOW_S)))
            one.on_node(nodes[name])
            if is_explained:
                rows = explain_pod(one, RecentPod("default", "web", "u1", PROFILE, NODES, 0.0, SMALL), 1.0)
                assert rows is not None
                new = ask(engine_with(of, nodes), SMALL, "u1")
                assert {row.node: row.score for row in rows.nodes} == new
        answers.append(ask(one, SMALL, "u1"))
    assert answers[0] == answers[1]


def test_the_scores_of_other_agents_in_the_profile_are_current() -> None:
    choices = random.Random(5)
    nodes = {name: replace(one, series={GAUGE: [series(5.0)]}) for name, one in cluster(choices).items()}
    one = engine(profile(agent("pigeon"), DemandAgent()))
    one.on_view(ClusterView(1, dict(nodes), refreshed_at_s=NOW_S))
    for number in range(20):
        name = f"n{choices.randrange(NODES)}"
        pods = (*nodes[name].pods, replace(LARGE, uid=f"b{number}", bound_at_s=NOW_S))
        nodes[name] = replace(nodes[name], pods=pods, series={GAUGE: [series(choices.uniform(0, 10))]})
        one.on_node(nodes[name])
        if number % 6 == 0:
            new = engine(profile(agent("pigeon"), DemandAgent()))
            new.on_view(ClusterView(1, dict(nodes), refreshed_at_s=NOW_S))
            assert ask(one, SMALL, "u1") == ask(new, SMALL, "u1")
            assert ask(one, LARGE, "u2") == ask(new, LARGE, "u2")
