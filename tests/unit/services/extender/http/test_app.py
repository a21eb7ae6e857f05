# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The application answers the scheduler and people, and no input stops the next request."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from ansible_collections.onprem.kube_scheduling.services.extender.http.slow_answers import MAX_WAITING
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.extender_objects import (
    PROFILE,
    DemandAgent,
    KeepBudgets,
    ScoreAgent,
    names_body,
    node,
    pod,
    profile,
    scores_in,
    view,
)
from tests.unit.services.extender.http.client import JSON_TYPE, Client

FILTER, PRIORITIZE, PREEMPT = "/scheduler/filter", "/scheduler/prioritize", "/scheduler/preempt"
VALUES = {"a": 1.0, "b": 6.0, "c": 9.0}


@pytest.fixture
def client() -> Client:
    found = Client(profile(ConfiguredAgent(ScoreAgent(), 1, True), KeepBudgets()))
    found.engine.on_view(view(VALUES))
    return found


def preemption(scheduler: str = PROFILE, **violations: int) -> bytes:
    victims = {name: {"Pods": [{"UID": f"victim on {name}"}], "NumPDBViolations": number} for name, number in violations.items()}
    return json.dumps({"Pod": pod(scheduler=scheduler), "NodeNameToMetaVictims": victims}).encode()


# --- the verbs ---


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


# --- the paths of the original systems ---


class Foo(ScoreAgent):
    """The name that the path foo stands for, with the rounding of the original."""

    name = "template"

    def original_score(self, judgement: t.Any) -> int:
        return 0 if judgement.score is None else round(judgement.score * 2)


def test_the_paths_of_the_original_round_as_it_did_and_filter_without_the_switch() -> None:
    client = Client(profile(ScoreAgent(), name="other"), profile(Foo()))
    client.engine.on_view(view({"a": 1.3, "b": 4.6, "c": 9.0}))
    for scheduler in (PROFILE, "my-scheduler"):
        body = names_body(["a", "b", "c", "unknown"], scheduler=scheduler)
        assert scores_in(client.post("/scheduler/priorities/foo", body).body) == {"a": 3, "b": 9, "c": 10, "unknown": 0}
        answer = client.post("/scheduler/predicates/foo", body).json
        assert answer["NodeNames"] == ["b", "c", "unknown"] and answer["FailedNodes"] == {"a": "score 1.3 is below 2"}
    client.engine.on_node(node("a", 5.0))
    assert scores_in(client.post("/scheduler/priorities/foo", names_body(["a"])).body) == {"a": 10}
    assert client.post("/scheduler/predicates/foo", names_body(["a"])).json["FailedNodes"] == {}


def test_a_path_of_an_agent_that_no_profile_has_is_explained(client: Client) -> None:
    answer = client.post("/scheduler/priorities/safe-overload", names_body(["a"]))
    assert answer.status == 404
    assert "no profile of FILE has the agent safe_overload" in answer.json["error"]


# --- bad requests ---


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "complaint"),
    [
        ("GET", FILTER, JSON_TYPE, b"", 405, "accept only POST"),
        ("POST", "/scheduler/bind", JSON_TYPE, b"{}", 404, "no path /scheduler/bind: the verbs .* are filter, prioritize and preempt"),
        ("POST", "/scheduler/scheduler/filter", JSON_TYPE, b"{}", 404, "urlPrefix ends with /scheduler$"),
        ("POST", "/scheduler/priorities/x", JSON_TYPE, b"{}", 404, "/scheduler/priorities/ is followed by one of safe-overload, .*, foo$"),
        ("POST", "/scheduler/predicates/", JSON_TYPE, b"{}", 404, "/scheduler/predicates/ is followed by one of safe-overload, .*, foo$"),
        ("POST", FILTER, ((b"content-type", b"text/plain"),), b"{}", 415, "application/json"),
        ("POST", FILTER, JSON_TYPE, b"nonsense", 400, "the body is not ExtenderArgs"),
        ("POST", PREEMPT, JSON_TYPE, b"{}", 400, "the body has no Pod"),
        ("POST", FILTER, (*JSON_TYPE, (b"content-length", b"70000")), b"{}", 413, "more than 65536 bytes"),
        ("POST", FILTER, (*JSON_TYPE, (b"content-length", b"-1")), b"{}", 413, "more than"),
        ("POST", FILTER, JSON_TYPE, b" " * 65537, 413, "more than 65536 bytes"),
        ("POST", "/metrics", (), b"", 405, "GET and HEAD"),
        ("GET", "/nothing", (), b"", 404, "/explain"),
        ("POST", "/prioritize", JSON_TYPE, b"{}", 404, "urlPrefix of the scheduler's extender must end with /scheduler"),
    ],
)
def test_a_bad_request_has_its_status_and_a_reason_as_json(
    method: str, path: str, headers: t.Any, body: bytes, status: int, complaint: str
) -> None:
    client = Client(profile(ScoreAgent()), max_body_bytes=65536)
    answer = client.call(method, path, [body], headers)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert re.search(complaint, answer.json["error"])


@pytest.mark.parametrize("content_type", [b"application/json; charset=utf-8", b"Application/JSON"])
def test_every_form_of_the_content_type(client: Client, content_type: bytes) -> None:
    assert client.post(PRIORITIZE, names_body(["a"]), [(b"content-type", content_type)]).status == 200
    assert client.post(PRIORITIZE, names_body(["a"]), []).status == 200


def test_a_body_in_parts_is_counted_and_joined() -> None:
    client = Client(profile(ScoreAgent()), max_body_bytes=65536)
    body = names_body(["a"])
    assert client.call("POST", PRIORITIZE, [body[:7], body[7:9], body[9:]], JSON_TYPE).status == 200
    answer = client.call("POST", PRIORITIZE, [b" " * 40000, b" " * 40000], JSON_TYPE, complete=False)
    assert (answer.status, answer.headers["connection"]) == (413, "close")


def test_a_body_that_does_not_end_is_refused_and_a_client_that_is_gone_gets_no_answer() -> None:
    client = Client(profile(ScoreAgent()), request_timeout_s=0.01)
    assert client.call("POST", PRIORITIZE, [b"{"], JSON_TYPE, complete=False).status == 408
    assert client.call("POST", PRIORITIZE, [b"{"], JSON_TYPE, complete=False, gone=True).status == 0


def test_an_error_of_the_program_is_answered_and_the_next_request_works(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(client.engine, "state_for", lambda name: 1 / 0)
        answer = client.post(PRIORITIZE, names_body(["a"]))
    assert answer.status == 500 and "ZeroDivisionError" in answer.json["error"]
    assert client.post(PRIORITIZE, names_body(["a"])).status == 200


KEYS_INSIDE = st.sampled_from(["metadata", "items", "name", "Pods", "UID"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS_INSIDE, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["Pod", "pod", "Nodes", "NodeNames", "nodenames", "NodeNameToVictims", "NodeNameToMetaVictims"])
JSON_BODIES = st.dictionaries(KEYS, JSON_VALUES, max_size=4).map(lambda value: json.dumps(value).encode())
BODIES = st.binary(max_size=80) | JSON_BODIES
SHARED = Client(profile(ConfiguredAgent(DemandAgent(), 1, True), KeepBudgets(), Foo(), name="*"))
SHARED.engine.on_view(view(VALUES))
PATHS = [FILTER, PRIORITIZE, PREEMPT, "/scheduler/predicates/foo", "/scheduler/priorities/foo", "/explain", "/status", "/metrics", "/x"]


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(PATHS), st.sampled_from(["POST", "GET", "PUT"]), BODIES)
def test_every_input_gets_an_answer_in_json_and_the_next_request_works(path: str, method: str, body: bytes) -> None:
    answer = SHARED.call(method, path, [body], JSON_TYPE)
    assert answer.status in (200, 400, 404, 405)
    if path.startswith("/scheduler/"):
        json.loads(answer.body)
    assert scores_in(SHARED.post(PRIORITIZE, names_body(["b"])).body) == {"b": 6}


# --- people ---


def test_liveness_and_readiness(client: Client) -> None:
    assert client.get("/healthz").text == "ok\n"
    assert client.get("/readyz").status == 503
    client.health.set_unready(())
    assert client.get("/readyz").text == "ok\n"
    client.engine.on_view(view(dict.fromkeys(VALUES), version=2))
    answer = client.get("/readyz")
    assert answer.status == 200 and "no value is known for the profiles quiet" in answer.text


def test_the_version(client: Client) -> None:
    assert client.get("/version").json == {"version": "1.2.3"}


def test_metrics_count_requests_by_profile_and_verb(client: Client) -> None:
    client.post(PRIORITIZE, names_body(["a"]))
    client.post(PRIORITIZE, names_body(["a"], scheduler="foreign"))
    client.post(FILTER, b"{")
    text = client.get("/metrics").text
    assert 'kube_scheduling_extender_requests_total{profile="quiet",verb="prioritize"} 1.0' in text
    assert 'kube_scheduling_extender_requests_total{profile="",verb="prioritize"} 1.0' in text
    assert 'kube_scheduling_extender_refused_requests_total{code="400"} 1.0' in text
    assert "foreign" not in text
    assert "openmetrics" in client.get("/metrics", accept="application/openmetrics-text;version=1.0.0").headers["content-type"]
    assert client.get("/metrics", accept="text/plain;version=x").status == 200


def test_neutral_answers_are_counted() -> None:
    client = Client(profile(ScoreAgent()))
    client.post(PRIORITIZE, names_body(["a", "b"]))
    assert client.metrics.registry.get_sample_value("kube_scheduling_extender_neutral_answers_total", {"profile": PROFILE}) == 1


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
    assert "a whole number from 1 to 999999" in answer.json["error"] and len(answer.body) < 300
    assert "whole number from 1 to 999999" in page.text and "<b>" not in page.text


def test_nodes_without_a_value_are_rejected_only_if_a_node_of_the_request_has_one() -> None:
    client = Client(profile(ScoreAgent(), unknown="filter"))
    client.engine.on_view(view({**VALUES, "d": None, "e": None}))
    reason = "no fresh value is known for the node (score)"
    assert client.post(FILTER, names_body(["a", "d", "x"])).json["FailedNodes"] == {"d": reason, "x": reason}
    answer = client.post(FILTER, names_body(["d", "e", "x"])).json
    assert (answer["NodeNames"], answer["FailedNodes"]) == (["d", "e", "x"], {})
    assert set(client.post(PREEMPT, preemption(a=0, d=0)).json["NodeNameToMetaVictims"]) == {"a"}
    assert set(client.post(PREEMPT, preemption(d=0, e=0)).json["NodeNameToMetaVictims"]) == {"d", "e"}


@pytest.mark.parametrize("path", [FILTER, "/scheduler/predicates/foo", "/scheduler/priorities/foo"])
def test_a_pod_is_explained_that_no_prioritize_followed(path: str) -> None:
    class Foo(ScoreAgent):
        name = "template"

    client = Client(profile(ConfiguredAgent(Foo(), 1, True)))
    client.engine.on_view(view({"a": 1.0, "b": 1.5}))
    client.post(path, names_body(["a", "b"], name="nowhere"))
    rows = client.get("/explain?pod=app/nowhere").json["nodes"]
    assert {row["node"]: row["rejection"] for row in rows} == {"a": "score 1 is below 2", "b": "score 1.5 is below 2"}


def test_a_pod_has_one_entry_with_its_last_request(client: Client) -> None:
    client.post(FILTER, names_body(["a", "b", "c"], name="one"))
    client.post(PRIORITIZE, names_body(["a"], name="other", uid="u2"))
    client.post(PRIORITIZE, names_body(["b", "c"], name="one"))
    found = client.get("/status").json["recent"]
    assert [(pod["name"], pod["nodes_asked"]) for pod in found] == [("one", 2), ("other", 1)]


def test_explain_uses_the_demand_of_the_pod() -> None:
    client = Client(profile(DemandAgent()))
    client.engine.on_view(view(VALUES))
    client.post(PRIORITIZE, names_body(["a"], name="one", cpu="3"))
    rows = client.get("/explain?pod=app/one").json["nodes"]
    assert {row["node"]: row["exact"] for row in rows} == {"a": 0.0, "b": 3.0, "c": 6.0}


def test_the_same_refusal_is_logged_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[str] = []
    monkeypatch.setattr(client.app._log, "warning", lambda _message, **fields: errors.append(fields["error"]))
    for path in ("/prioritize", "/prioritize", "/filter", *(f"/{number}" for number in range(50))):
        assert client.post(path, b"{}").status == 404
    assert [error.split(":")[0] for error in errors[:2]] == ["there is no path /prioritize", "there is no path /filter"]
    assert len(errors) == 20
    client.get("/nothing")  # a person
    assert len(errors) == 20


def test_explain_of_a_pod_without_a_profile_names_the_profiles(client: Client) -> None:
    for accept in ("*/*", "text/html"):
        text = client.get("/explain?pod=app/other", accept=accept).body.decode()
        assert "the schedulerName of the pod is no profile of FILE" in text and "The profiles of FILE are " in text


def test_explain_of_an_unknown_pod_names_the_known_ones(client: Client) -> None:
    client.post(PRIORITIZE, names_body(["a"], name="known"))
    answer = client.get("/explain?pod=app/other")
    assert answer.status == 404 and answer.json["recent"] == ["app/known"]
    page = client.get("/explain?pod=app/other", accept="text/html")
    assert page.status == 404 and "explain?pod=app/known" in page.text


def test_pages_escape_every_text_and_have_no_script(client: Client) -> None:
    name = "<script>alert(1)</script>"
    client.engine.on_view(view({name: 5.0, "b": None}, version=3, errors={"prometheus": name}))
    client.post(PRIORITIZE, names_body(["a"], name=name))
    for target in ("/status", "/", f"/explain?pod=app/{name}"):
        page = client.get(target, accept="text/html,*/*")
        assert page.status == 200 and "<script" not in page.text and "&lt;script&gt;" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert 'http-equiv="refresh"' in client.get("/status", accept="text/html").text


def test_the_status_as_json(client: Client) -> None:
    found = client.get("/status").json
    assert [row["node"] for row in found["profiles"][0]["nodes"]] == ["c", "b", "a"]
    assert found["errors"] == {} and found["unmapped_series"] == 0


def test_the_bytes_of_all_bodies_together_are_limited() -> None:
    client = Client(profile(ScoreAgent()), max_body_bytes=1000, request_timeout_s=0.05)

    async def all_of_them() -> list[int]:
        unfinished = [client.ask("POST", FILTER, [b" " * 900, b" "], JSON_TYPE, complete=False) for _ in range(6)]
        return [answer.status for answer in await asyncio.gather(*unfinished)]

    assert asyncio.run(all_of_them()) == [408, 408, 408, 408, 503, 503]
    assert client.call("POST", PRIORITIZE, [names_body(["a"])[:100], names_body(["a"])[100:]], JSON_TYPE).status == 200


def test_a_request_with_too_many_names_is_answered_with_413(client: Client) -> None:
    answer = client.post(PRIORITIZE, names_body(["a"] * 20_001))
    assert answer.status == 413 and "more than 20000 nodes" in answer.json["error"]


def test_pages_that_wait_are_limited_and_do_not_delay_a_scrape(client: Client) -> None:
    release, finish = threading.Event(), client.app._people._handlers["/status"]
    client.app._people._handlers["/status"] = lambda query, headers: finish(query, headers) if release.wait(10) else None  # type: ignore[return-value]

    async def ask(path: str) -> int:
        return (await client.ask("GET", path)).status

    async def all_of_them() -> tuple[list[int], int, int]:
        pages = [asyncio.ensure_future(ask("/status")) for _ in range(MAX_WAITING + 1)]
        await asyncio.sleep(0)
        one_more, scrape = await ask("/status"), await ask("/metrics")
        release.set()
        return await asyncio.gather(*pages), one_more, scrape

    assert asyncio.run(all_of_them()) == ([200] * (MAX_WAITING + 1), 503, 200)
    assert client.get("/status").status == 200


def test_the_address_for_people_does_not_answer_the_scheduler() -> None:
    client = Client(profile(ScoreAgent()), scheduler=False)
    assert client.post(PRIORITIZE, names_body(["a"])).status == 405
    assert client.get("/healthz").status == 200


def test_known_names_change_no_answer() -> None:
    client = Client(profile(ConfiguredAgent(ScoreAgent(), filters=True)))
    client.engine.on_view(view(VALUES))
    bodies = [names_body([*VALUES, *more]) for more in ((), ("unknown",), ())]
    expected = [client.post(path, body).body for path in (PRIORITIZE, FILTER) for body in bodies]
    client.api.learn_names()
    assert [client.post(path, body).body for path in (PRIORITIZE, FILTER) for body in bodies] == expected
