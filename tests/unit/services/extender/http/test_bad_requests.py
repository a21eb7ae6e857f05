# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every request that cannot be answered gets a status and a reason, and no input stops the next request."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.extender_objects import (
    DemandAgent,
    KeepBudgets,
    ScoreAgent,
    names_body,
    profile,
    scores_in,
    view,
)
from tests.unit.services.extender.http.client import FILTER, JSON_TYPE, PREEMPT, PRIORITIZE, VALUES, Client


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
        ("POST", "/metrics", (), b"", 405, "GET and HEAD"),
        ("GET", "/nothing", (), b"", 404, "/explain"),
        ("POST", "/prioritize", JSON_TYPE, b"{}", 404, "/prioritize: urlPrefix .* /scheduler$"),
    ],
)
def test_a_bad_request_has_its_status_and_a_reason_as_json(
    method: str, path: str, headers: t.Any, body: bytes, status: int, complaint: str
) -> None:
    client = Client(profile(ScoreAgent()))
    answer = client.call(method, path, body, headers)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert re.search(complaint, answer.json["error"])


@pytest.mark.parametrize("content_type", [b"application/json; charset=utf-8", b"Application/JSON"])
def test_every_form_of_the_content_type(client: Client, content_type: bytes) -> None:
    assert client.post(PRIORITIZE, names_body(["a"]), [(b"content-type", content_type)]).status == 200
    assert client.post(PRIORITIZE, names_body(["a"]), []).status == 200


def test_an_error_of_the_program_is_answered_and_the_next_request_works(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(client.engine, "state_for", lambda name: 1 / 0)
        answer = client.post(PRIORITIZE, names_body(["a"]))
    assert answer.status == 500 and "ZeroDivisionError" in answer.json["error"]
    assert client.post(PRIORITIZE, names_body(["a"])).status == 200


def test_the_same_refusal_is_logged_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[str] = []
    monkeypatch.setattr(client.app._log, "warning", lambda _message, **fields: errors.append(fields["error"]))
    for path in ("/prioritize", "/prioritize", "/filter", *(f"/{number}" for number in range(50))):
        assert client.post(path, b"{}").status == 404
    assert [error.split(":")[0] for error in errors[:2]] == ["there is no path /prioritize", "there is no path /filter"]
    assert len(errors) == 20
    client.get("/nothing")  # a person
    assert len(errors) == 20


def test_a_request_with_too_many_names_is_answered_with_413(client: Client) -> None:
    answer = client.post(PRIORITIZE, names_body(["a"] * 20_001))
    assert answer.status == 413 and "more than 20000 nodes" in answer.json["error"]


class Template(ScoreAgent):
    """The agent of the path foo."""

    name = "template"


KEYS_INSIDE = st.sampled_from(["metadata", "items", "name", "Pods", "UID"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS_INSIDE, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["Pod", "pod", "Nodes", "NodeNames", "nodenames", "NodeNameToVictims", "NodeNameToMetaVictims"])
JSON_BODIES = st.dictionaries(KEYS, JSON_VALUES, max_size=4).map(lambda value: json.dumps(value).encode())
BODIES = st.binary(max_size=80) | JSON_BODIES
SHARED = Client(profile(ConfiguredAgent(DemandAgent(), 1, True), KeepBudgets(), Template(), name="*"))
SHARED.engine.on_view(view(VALUES))
PATHS = [FILTER, PRIORITIZE, PREEMPT, "/scheduler/predicates/foo", "/scheduler/priorities/foo", "/explain", "/status", "/metrics", "/x"]


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(PATHS), st.sampled_from(["POST", "GET", "PUT"]), BODIES)
def test_every_input_gets_an_answer_in_json_and_the_next_request_works(path: str, method: str, body: bytes) -> None:
    answer = SHARED.call(method, path, body, JSON_TYPE)
    assert answer.status in (200, 400, 404, 405)
    if path.startswith("/scheduler/"):
        json.loads(answer.body)
    assert scores_in(SHARED.post(PRIORITIZE, names_body(["b"])).body) == {"b": 6}
