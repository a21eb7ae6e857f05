# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Failures lower the score of a type of workload on a node, time raises it again, and the knowledge survives a restart."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learning import LearningAgent
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.paths import ORIGINAL_PATHS
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.reward import (
    MAX_ENTRIES,
    MAX_STATE_BYTES,
    WorkloadType,
    workload_of,
)
from ansible_collections.onprem.kube_scheduling.services.extender.interface import PodView
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.agents.views import NOW_S, node, pod, reward_agent

WEB = pod("web-1", labels={"app": "web"})


def reward(**args: t.Any) -> LearningAgent:
    return reward_agent(**{"exploration": 0, **args})


def observe(of: LearningAgent, where: str, *results: bool, of_pod: PodView = WEB, at_s: float = NOW_S) -> None:
    for result in results:
        of.observe(of_pod, where, result, at_s)


def score(of: LearningAgent, where: str, *, of_pod: PodView = WEB, at_s: float = NOW_S) -> float:
    found = of.score_all(None, [node(where)], of_pod, at_s)[0].score
    assert found is not None
    return found


def test_a_failure_lowers_the_score_as_in_the_original() -> None:
    of = reward()
    assert score(of, "n") == 10.0
    observe(of, "n", False)
    assert score(of, "n") == pytest.approx(9.0)
    observe(of, "n", False, True)
    assert score(of, "n") == pytest.approx(10 * (0.9 * 0.81 + 0.1))
    path = ORIGINAL_PATHS["rl-priority"]
    assert path.score_by_value(of.score_all(None, [node("n")], WEB, NOW_S)[0]) == 8
    assert path.score_by_value(of.score_all(None, [node("unknown")], WEB, NOW_S)[0]) == 0


def test_scores_without_texts_are_those_of_the_judgements() -> None:
    of, nodes = reward(exploration=0.05), [node("n"), node("other"), node("unknown")]
    observe(of, "n", False, True)
    observe(of, "other", False, at_s=NOW_S - 100)
    for one in (WEB, pod("bare")):
        found, expected = of.scores(None, nodes, one, NOW_S + 50), of.score_all(None, nodes, one, NOW_S + 50)
        assert found is not None and list(found.scores) == [judgement.score for judgement in expected]
        assert found.oldest_s == min((each.measured_at_s for each in expected if each.measured_at_s is not None), default=None)


def test_other_nodes_and_types_keep_their_scores() -> None:
    of = reward()
    observe(of, "n", False)
    assert score(of, "other") == 10.0 and score(of, "n", of_pod=pod("x", labels={"app": "x"})) == 10.0


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"podtype": "a", "app": "b", "name": "c"}, WorkloadType("default", "a")),
        ({"app": "b", "name": "c"}, WorkloadType("default", "b")),
        ({"name": "c"}, WorkloadType("default", "c")),
        ({"app": "", "name": "c"}, WorkloadType("default", "c")),
        ({}, WorkloadType("default", "web")),
    ],
)
def test_the_type_is_the_first_label_that_is_present_else_the_controller(labels: dict[str, str], expected: WorkloadType) -> None:
    assert workload_of(pod("web-5d4f-x7k2", labels=labels, owner="web")) == expected


def test_pods_without_labels_learn_from_those_of_their_controller() -> None:
    of = reward()
    of.observe(pod("web-0", owner="web"), "n", False, NOW_S)
    assert score(of, "n", of_pod=pod("web-1", owner="web")) < 10.0
    assert score(of, "n", of_pod=pod("web-1", owner="other")) == 10.0
    of.observe(pod("bare"), "n", False, NOW_S)
    assert score(of, "n", of_pod=pod("bare")) < 10.0 and score(of, "n", of_pod=pod("other")) == 10.0


def test_knowledge_loses_half_of_its_weight_in_a_half_life() -> None:
    of = reward(half_life="1h")
    observe(of, "n", *[False] * 50)
    assert score(of, "n") == pytest.approx(0.0, abs=0.1)
    assert score(of, "n", at_s=NOW_S + 3600) == pytest.approx(5.0, abs=0.1)
    assert score(of, "n", at_s=NOW_S + 36_000) == pytest.approx(10.0, abs=0.1)


def test_a_node_with_few_observations_gets_a_bonus() -> None:
    of = reward(exploration=0.1)
    observe(of, "seldom", False, False)
    observe(of, "often", *[False] * 60)
    without = reward()
    observe(without, "seldom", False, False)
    observe(without, "often", *[False] * 60)
    assert score(of, "seldom") - score(without, "seldom") > 3 * (score(of, "often") - score(without, "often")) > 0
    assert score(of, "untried") == 10.0


def test_an_observation_that_arrives_late_does_not_move_the_time_back() -> None:
    of = reward(half_life="1h")
    observe(of, "n", False, at_s=NOW_S)
    observe(of, "n", False, at_s=NOW_S - 7200)
    assert score(of, "n") == pytest.approx(8.1)


def test_an_observation_keeps_the_key() -> None:
    of = reward()
    before = of.demand_key(WEB)
    assert before == of.demand_key(pod("web-2", labels={"app": "web"})) != of.demand_key(pod("x", labels={"app": "x"}))
    observe(of, "n", False)
    assert of.demand_key(WEB) == before


def test_another_namespace_learns_for_itself() -> None:
    of = reward()
    observe(of, "n", *[False] * 40, of_pod=replace(WEB, namespace="other"))
    assert score(of, "n") == 10.0
    assert of.demand_key(WEB) != of.demand_key(replace(WEB, namespace="other"))
    again = reward()
    again.load(of.save(), NOW_S)
    assert score(again, "n") == 10.0 > score(again, "n", of_pod=replace(WEB, namespace="other"))


def test_the_entries_of_one_namespace_do_not_push_out_those_of_others() -> None:
    of = reward()
    observe(of, "n", False)
    for number in range(MAX_ENTRIES + 10):
        many = replace(WEB, namespace="other", labels={"app": f"a-long-name-of-a-workload-{number}"})
        observe(of, "n", False, of_pod=many, at_s=NOW_S + 1 + number)
    later = {"at_s": NOW_S + MAX_ENTRIES}
    assert score(of, "n", **later) < 10.0
    restarted = reward()
    restarted.load(of.save(), NOW_S)
    assert score(restarted, "n", **later) < 10.0
    assert len(of.save()) <= MAX_STATE_BYTES


def test_a_very_long_type_does_not_push_out_the_others() -> None:
    of, hostile = reward(), pod("x", owner="o" * MAX_STATE_BYTES)
    observe(of, "n", False, at_s=NOW_S - 60)
    observe(of, "n", False, of_pod=hostile)
    again = reward()
    again.load(of.save(), NOW_S)
    assert score(again, "n") < 10.0 and score(again, "n", of_pod=hostile) < 10.0
    assert len(again.save()) < 1000


def test_saved_rewards_count_after_a_restart_with_their_ages() -> None:
    of = reward(half_life="1h")
    observe(of, "old", *[False] * 30, at_s=NOW_S - 3600)
    observe(of, "new", *[False] * 30, at_s=NOW_S)
    restarted = reward(half_life="1h")
    restarted.load(of.save(), 77.0)
    assert restarted.save() == of.save()
    # The clock of the new process is another one.
    assert score(restarted, "old", at_s=77.0) == pytest.approx(score(of, "old"), abs=0.01)
    assert score(restarted, "new", at_s=77.0) == pytest.approx(score(of, "new"), abs=0.01)
    assert restarted.save() == of.save()


def test_what_was_observed_before_the_load_is_not_lost() -> None:
    saved = reward()
    observe(saved, "both", *[False] * 5)
    observe(saved, "saved", False)
    for later in (True, False):
        of = reward()
        observe(of, "own", False)
        observe(of, "both", False)
        of.load(saved.save(), NOW_S)
        if later:
            observe(of, "later", False)
        assert {where: round(score(of, where), 1) for where in ("own", "saved", "both")} == {"own": 9.0, "saved": 9.0, "both": 5.9}
        nodes = [entry[2] for entry in json.loads(of.save())["entries"]]
        assert sorted(nodes) == sorted({"own", "both", "saved", *(["later"] if later else [])})


def test_the_saved_state_keeps_the_newest_within_its_limit() -> None:
    of = reward()
    for number in range(MAX_ENTRIES + 10):
        observe(of, f"node-{number:05}.of-a-long-domain.example.org", False, at_s=NOW_S + number)
    state = of.save()
    assert MAX_STATE_BYTES - 200 < len(state) <= MAX_STATE_BYTES
    nodes = [entry[2] for entry in json.loads(state)["entries"]]
    assert nodes[0].startswith(f"node-{MAX_ENTRIES + 9:05}") and nodes == sorted(nodes, reverse=True)
    assert score(of, "node-00009.of-a-long-domain.example.org", at_s=NOW_S + MAX_ENTRIES) == 10.0
    assert score(of, "node-00010.of-a-long-domain.example.org", at_s=NOW_S + MAX_ENTRIES) < 10.0


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (b"", "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"version": 1}', "have the version 1, and this program reads version 2"),
        (b'{"version": 2, "entries": [["d", "a", "n", 1.5, 1, 0]]}', "outside their ranges"),
        (b'{"version": 2, "entries": [["d", "a", "n", 0.5, 1]]}', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(state: bytes, text: str) -> None:
    of = reward()
    observe(of, "n", False)
    with pytest.raises(ValueError, match=text):
        of.load(state, NOW_S)
    assert score(of, "n") == pytest.approx(9.0)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.floats(0, 1e6)), max_size=30))
@settings(max_examples=50, deadline=None)
def test_scores_stay_in_their_range(outcomes: list[tuple[str, bool, float]]) -> None:
    of = reward_agent()
    for where, result, at_s in outcomes:
        of.observe(WEB, where, result, at_s)
    assert all(0.0 <= score(of, where, at_s=2e6) <= 10.0 for where in "abc")
    again = reward_agent()
    again.load(of.save(), NOW_S)
    assert again.save() == of.save()


def test_without_a_pod_the_score_is_that_of_an_unknown_node() -> None:
    assert reward().judge(None, node("n"), None, NOW_S).score == 10.0


@pytest.mark.parametrize(("name", "text"), [("web-1", "no observation of web-1 on this node"), ("", "no observation on this node")])
def test_a_node_without_an_observation_is_explained(name: str, text: str) -> None:
    assert reward().score_all(None, [node("n")], pod(name), NOW_S)[0].explanation == text
