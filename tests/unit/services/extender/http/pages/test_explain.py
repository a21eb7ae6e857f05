# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/explain shows why a node got its score, for the last pods that the scheduler asked about."""

from __future__ import annotations

import time

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Annotation, NodeView, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView

from tests.unit.services.extender.extender_objects import (
    DemandAgent,
    KeepBudgets,
    ScoreAgent,
    names_body,
    profile,
    view,
)
from tests.unit.services.extender.http.client import FILTER, PRIORITIZE, VALUES, Client


def test_explain_shows_value_age_and_points_of_each_node(client: Client) -> None:
    client.post(PRIORITIZE, names_body(["a", "b", "c"], uid="u5"))
    found = client.get("/explain?pod=app/web").json
    assert found["pod"]["uid"] == "u5" and found["pod"]["nodes_asked"] == 3
    assert [row["node"] for row in found["nodes"]] == ["c", "b", "a"]
    best, worst = found["nodes"][0], found["nodes"][-1]
    assert (best["score"], best["points"]) == (9, 90)
    agent = best["agents"][0]
    assert (agent["agent"], agent["value"], agent["explanation"]) == ("score", 9.0, "gauge 9")
    assert 0 <= agent["age_s"] < 60
    assert worst["rejection"] == "score 1 is below 2"
    assert found["in_tree_weights"]["TaintToleration"] == 3
    assert client.get("/explain?pod=app/web&weight=5").json["nodes"][0]["points"] == 450
    assert [client.get(f"/explain?pod=app/web{end}").json["weight"] for end in ("", "&weight=", "&weight=1")] == [1, 1, 1]


@pytest.mark.parametrize("weight", ["x", "0", "-1", "1.5", "1000000", "9" * 5000, "<b>"])
def test_explain_refuses_a_weight_that_the_scheduler_cannot_have(client: Client, weight: str) -> None:
    client.post(PRIORITIZE, names_body(["a"]))
    answer, page = (client.get(f"/explain?pod=app/web&weight={weight}", accept=accept) for accept in ("*/*", "text/html"))
    assert (answer.status, page.status) == (400, 400)
    assert "number from 1 to 999999" in answer.json["error"] and len(answer.body) < 300
    assert "whole number from 1 to 999999" in page.text and "<b>" not in page.text


@pytest.mark.parametrize("path", [FILTER, "/scheduler/predicates/foo", "/scheduler/priorities/foo"])
def test_a_pod_is_explained_that_no_prioritize_followed(path: str) -> None:
    class Foo(ScoreAgent):
        name = "template"

    client = Client(profile(ConfiguredAgent(Foo(), 1, True)))
    client.engine.on_view(view({"a": 1.0, "b": 1.5}))
    client.post(path, names_body(["a", "b"], name="nowhere"))
    rows = client.get("/explain?pod=app/nowhere").json["nodes"]
    assert {row["node"]: row["rejection"] for row in rows} == {"a": "score 1 is below 2", "b": "score 1.5 is below 2"}


class FilterOnly(ScoreAgent):
    """It rejects nodes and takes no part in scores."""

    name = "limit"
    can_score = False


def test_a_profile_that_only_filters_is_explained_with_its_decisions() -> None:
    client = Client(profile(ConfiguredAgent(FilterOnly(), 1, True)))
    client.engine.on_view(view({"a": 1.0, "b": 6.0, "c": 1.5}))
    answer = client.post(FILTER, names_body(["a", "b", "c"])).json
    assert answer["FailedNodes"] == {"a": "score 1 is below 2", "c": "score 1.5 is below 2"}
    assert {entry["Score"] for entry in client.post(PRIORITIZE, names_body(["a", "b", "c"])).json} == {5}
    found = client.get("/explain?pod=app/web").json
    assert (found["filters"], found["has_scores"], found["neutral"]) == (True, False, False)
    assert {row["node"]: row["rejection"] for row in found["nodes"] if row["rejection"]} == answer["FailedNodes"]
    for path in ("/explain?pod=app/web", "/status"):
        text = client.get(path, accept="text/html").text
        assert "of this profile only filter, " in text
        assert "The filter rejects 2 of the 3 nodes, " in text
        assert "<td>a</td><td>score 1 is below 2</td>" in text and "<td>c</td><td>score 1.5 is below 2</td>" in text
        assert "unknown" not in text.partition("<tbody>")[2]


def test_weights_of_agents_that_only_filter_do_not_count() -> None:
    client = Client(profile(ConfiguredAgent(FilterOnly(), 9, True), ScoreAgent()))
    client.engine.on_view(view({"a": 4.0, "b": None}))
    client.post(PRIORITIZE, names_body(["a", "b"]))
    rows = {row["node"]: row for row in client.get("/explain?pod=app/web").json["nodes"]}
    assert (rows["a"]["exact"], rows["b"]["exact"]) == (4.0, 4.0)


def test_a_node_that_is_rejected_because_its_value_is_unknown_is_on_the_page() -> None:
    client = Client(profile(ScoreAgent(), unknown="filter"))
    client.engine.on_view(view({"a": None, "b": 6.0}))
    client.post(FILTER, names_body(["a", "b"]))
    text = client.get("/explain?pod=app/web", accept="text/html").text
    assert "<td>a</td><td>no fresh value is known " in text


@pytest.mark.parametrize("name", ["safe_overload", "safe_balance"])
def test_the_series_without_which_a_node_is_unknown_is_on_the_page(name: str) -> None:
    client = Client(profile(build_agent(name, {"source": "annotations"})))
    now_s, allocatable = time.monotonic(), {"cpu": 4000, "memory": 2**30}
    idle = {
        f"{kind}-free-{resource}": amount for resource, amount in allocatable.items() for kind, amount in (("mean", amount), ("std", 0))
    }
    nodes = {}
    for node, missing in (("whole", ""), ("part", "mean-free-cpu")):
        series = {Annotation(key): (Series({}, float(value), now_s),) for key, value in idle.items() if key != missing}
        nodes[node] = NodeView(node, allocatable=allocatable, series=series)
    client.engine.on_view(ClusterView(1, nodes))
    client.post(PRIORITIZE, names_body(["whole", "part"]))
    rows = {row["node"]: row["agents"][0] for row in client.get("/explain?pod=app/web").json["nodes"]}
    why = "cpu: no value of the annotation mean-free-cpu is known"
    assert rows["whole"]["score"] is not None and (rows["part"]["score"], rows["part"]["explanation"]) == (None, why)
    for path in ("/explain?pod=app/web", "/status"):
        assert why in client.get(path, accept="text/html").text


def test_a_reason_without_filter_is_not_shown_as_a_rejection() -> None:
    client = Client(profile(ScoreAgent()))
    client.engine.on_view(view({"a": 1.0, "b": 6.0}))
    client.post(FILTER, names_body(["a", "b"]))
    text = client.get("/explain?pod=app/web", accept="text/html").text
    assert "not rejected, because filter is false: score 1 is below 2" in text and "The filter rejects" not in text


def test_a_profile_without_judgements_says_so() -> None:
    client = Client(profile(KeepBudgets()))
    client.engine.on_view(view({"a": 1.0}))
    client.post(FILTER, names_body(["a"]))
    for path in ("/explain?pod=app/web", "/status"):
        assert "No agent of this profile " in client.get(path, accept="text/html").text


def test_explain_uses_the_demand_of_the_pod() -> None:
    client = Client(profile(DemandAgent()))
    client.engine.on_view(view(VALUES))
    client.post(PRIORITIZE, names_body(["a"], name="one", cpu="3"))
    rows = client.get("/explain?pod=app/one").json["nodes"]
    assert {row["node"]: row["exact"] for row in rows} == {"a": 0.0, "b": 3.0, "c": 6.0}


def test_explain_of_a_pod_without_a_profile_names_the_profiles(client: Client) -> None:
    for accept in ("*/*", "text/html"):
        text = client.get("/explain?pod=app/other", accept=accept).body.decode()
        assert "is no profile of FILE" in text and "The profiles of FILE are " in text


def test_explain_of_an_unknown_pod_names_the_known_ones(client: Client) -> None:
    client.post(PRIORITIZE, names_body(["a"], name="known"))
    answer = client.get("/explain?pod=app/other")
    assert answer.status == 404 and answer.json["recent"] == ["app/known"]
    page = client.get("/explain?pod=app/other", accept="text/html")
    assert page.status == 404 and "explain?pod=app/known" in page.text


def test_explain_without_a_pod_says_so(client: Client) -> None:
    client.post(PRIORITIZE, names_body(["a"], name="known"))
    answer, page = (client.get("/explain", accept=accept) for accept in ("*/*", "text/html"))
    assert (answer.status, page.status) == (404, 404)
    assert answer.json["error"].startswith("the address names no pod: use /explain?pod=NAMESPACE/NAME.")
    assert "The address names no pod: use" in page.text and "explain?pod=app/known" in page.text


@pytest.mark.parametrize(
    ("unknown", "text"),
    [
        ("median", "counts as the median"),
        ("low", "counts as 0."),
        ("filter", "counts as 0, and the node"),
    ],
)
def test_the_pages_say_what_an_unknown_node_gets(unknown: str, text: str) -> None:
    client = Client(profile(ScoreAgent(), unknown=unknown))
    client.post(PRIORITIZE, names_body(["a"]))
    for values, is_shown in (({"a": 5.0, "b": None}, True), ({"a": 5.0, "b": 6.0}, False), ({"a": None, "b": None}, False)):
        client.engine.on_view(view(values))
        for path in ("/status", "/explain?pod=app/web"):
            assert (f"score is unknown, it {text}" in client.get(path, accept="text/html").text) == is_shown, (
                values,
                path,
            )


def test_the_pages_name_the_offset_of_the_pod(client: Client) -> None:
    client.post(PRIORITIZE, names_body(["a"]))
    assert "offset of the pod, here 0.031" in client.get("/status", accept="text/html").text
    assert "which is the offset of this pod" in client.get("/explain?pod=app/web", accept="text/html").text


def test_a_pod_has_one_entry_with_its_last_request(client: Client) -> None:
    client.post(FILTER, names_body(["a", "b", "c"], name="one"))
    client.post(PRIORITIZE, names_body(["a"], name="other", uid="u2"))
    client.post(PRIORITIZE, names_body(["b", "c"], name="one"))
    found = client.get("/status").json["recent"]
    assert [(pod["name"], pod["nodes_asked"]) for pod in found] == [("one", 2), ("other", 1)]


def test_explain_names_the_errors_of_the_sources(client: Client) -> None:
    error = "node <b> has no values of load: it has more than 1024 series"
    client.engine.on_view(view({"a": 5.0, "<b>": None}, version=3, errors={"prometheus": error}))
    client.post(PRIORITIZE, names_body(["a"]))
    assert client.get("/explain?pod=app/web").json["errors"] == {"prometheus": error}
    assert "prometheus: node &lt;b&gt; has no values of load" in client.get("/explain?pod=app/web", accept="text/html").text
