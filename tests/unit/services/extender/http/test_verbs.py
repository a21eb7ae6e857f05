# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs of the scheduler are answered by the policy of the pod, also on the paths of the original systems."""

from __future__ import annotations

import json

from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent

from tests.unit.services.extender.extender_objects import (
    PROFILE,
    DemandAgent,
    ScoreAgent,
    names_body,
    node,
    pod,
    profile,
    scores_in,
    view,
)
from tests.unit.services.extender.http.client import FILTER, PREEMPT, PRIORITIZE, VALUES, Client, preemption


def test_prioritize_has_an_integer_for_every_name(client: Client) -> None:
    answer = client.post(PRIORITIZE, names_body(["c", "a", "b", "unknown"]))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert scores_in(answer.body) == {"c": 9, "a": 1, "b": 6, "unknown": 6}


def test_a_pod_of_another_profile_gets_equal_scores_and_every_node(client: Client) -> None:
    body = names_body(["a", "b", "unknown"], scheduler="default-scheduler")
    assert scores_in(client.post(PRIORITIZE, body).body) == {"a": 0, "b": 0, "unknown": 0}
    assert client.post(FILTER, body).json["NodeNames"] == ["a", "b", "unknown"]
    answer = client.post(PREEMPT, preemption("default-scheduler", a=1, b=0))
    assert set(answer.json["NodeNameToMetaVictims"]) == {"a", "b"}


def test_filter_gives_a_reason_for_each_rejected_node(client: Client) -> None:
    answer = client.post(FILTER, names_body(["a", "b", "c"])).json
    assert answer["NodeNames"] == ["b", "c"]
    assert answer["FailedNodes"] == {"a": "score 1 is below 2"}


def test_filter_with_whole_nodes_answers_with_whole_nodes(client: Client) -> None:
    nodes = [{"metadata": {"name": name}, "spec": {"x": name}} for name in VALUES]
    body = json.dumps({"Pod": pod(), "Nodes": {"items": nodes}}).encode()
    answer = client.post(FILTER, body).json
    assert answer["Nodes"]["items"] == nodes[1:] and answer["NodeNames"] is None
    assert scores_in(client.post(PRIORITIZE, json.dumps({"Pod": pod(), "Nodes": {"items": nodes}}).encode()).body) == {
        "a": 1,
        "b": 6,
        "c": 9,
    }


def test_without_filter_true_no_node_is_rejected() -> None:
    client = Client(profile(ScoreAgent()))
    client.engine.on_view(view(VALUES))
    assert client.post(FILTER, names_body(["a"])).json["NodeNames"] == ["a"]


def test_the_policy_filter_rejects_nodes_without_a_value_and_names_that_are_not_known() -> None:
    client = Client(profile(ScoreAgent(), unknown="filter"))
    client.engine.on_view(view({**VALUES, "d": None}))
    answer = client.post(FILTER, names_body(["a", "d", "x"])).json
    assert answer["NodeNames"] == ["a"]
    assert set(answer["FailedNodes"]) == {"d", "x"}


def test_nodes_without_a_value_are_rejected_only_if_a_node_of_the_request_has_one() -> None:
    client = Client(profile(ScoreAgent(), unknown="filter"))
    client.engine.on_view(view({**VALUES, "d": None, "e": None}))
    failed = client.post(FILTER, names_body(["a", "d", "x"])).json["FailedNodes"]
    assert set(failed) == {"d", "x"} and all("no fresh value " in reason and "(score)" in reason for reason in failed.values())
    answer = client.post(FILTER, names_body(["d", "e", "x"])).json
    assert (answer["NodeNames"], answer["FailedNodes"]) == (["d", "e", "x"], {})
    assert set(client.post(PREEMPT, preemption(a=0, d=0)).json["NodeNameToMetaVictims"]) == {"a"}
    assert set(client.post(PREEMPT, preemption(d=0, e=0)).json["NodeNameToMetaVictims"]) == {"d", "e"}


def test_preempt_drops_nodes_with_violated_budgets_and_nodes_that_the_filter_rejects(client: Client) -> None:
    answer = client.post(PREEMPT, preemption(a=0, b=1, c=0)).json
    assert answer == {"NodeNameToMetaVictims": {"c": {"Pods": [{"UID": "victim on c"}], "NumPDBViolations": 0}}}
    client.engine.on_view(view(dict.fromkeys(VALUES, 0.0), version=2))
    assert client.post(PREEMPT, preemption(a=0, b=0, c=0)).json == {"NodeNameToMetaVictims": {}}


def test_scores_that_depend_on_the_pod() -> None:
    client = Client(profile(ConfiguredAgent(DemandAgent(), 1, True)))
    client.engine.on_view(view(VALUES))
    assert scores_in(client.post(PRIORITIZE, names_body(["b", "c"], cpu="2")).body) == {"b": 4, "c": 7}
    answer = client.post(PRIORITIZE, names_body(["b"], cpu="a lot"))
    assert answer.status == 400 and "the demand of Pod app/web cannot be read" in answer.json["error"]
    assert client.post(FILTER, names_body(["a", "b"], cpu="2")).json["NodeNames"] == ["b"]
    assert set(client.post(PREEMPT, preemption(a=0, b=0)).json["NodeNameToMetaVictims"]) == {"b"}


def test_a_binding_changes_the_next_answer(client: Client) -> None:
    client.engine.on_node(node("c", 3.0))
    assert scores_in(client.post(PRIORITIZE, names_body(["b", "c"])).body) == {"b": 6, "c": 3}


class Foo(ScoreAgent):
    """The name that the path foo stands for."""

    name = "template"


def test_the_paths_of_the_original_round_as_it_did_and_filter_without_the_switch() -> None:
    client = Client(profile(ScoreAgent(), name="other"), profile(Foo()))
    client.engine.on_view(view({"a": 1.3, "b": 4.6, "c": 9.0}))
    for scheduler in (PROFILE, "my-scheduler"):
        body = names_body(["a", "b", "c", "unknown"], scheduler=scheduler)
        assert scores_in(client.post("/scheduler/priorities/foo", body).body) == {"a": 1, "b": 4, "c": 9, "unknown": 0}
        answer = client.post("/scheduler/predicates/foo", body).json
        assert answer["NodeNames"] == ["b", "c", "unknown"] and answer["FailedNodes"] == {"a": "score 1.3 is below 2"}
    client.engine.on_node(node("a", 5.0))
    assert scores_in(client.post("/scheduler/priorities/foo", names_body(["a"])).body) == {"a": 5}
    assert client.post("/scheduler/predicates/foo", names_body(["a"])).json["FailedNodes"] == {}


def test_a_path_of_an_agent_that_no_profile_has_is_explained(client: Client) -> None:
    answer = client.post("/scheduler/priorities/safe-overload", names_body(["a"]))
    assert answer.status == 404
    assert "has the agent safe_overload" in answer.json["error"]
