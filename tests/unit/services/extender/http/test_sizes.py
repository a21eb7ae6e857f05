# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters and bodies of every size: no node, one node, 5,000 nodes, and bodies of 10 MB."""

from __future__ import annotations

import contextlib
import json
import socket
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent

from tests.unit.services.extender.extender_objects import DemandAgent, KeepBudgets, ScoreAgent, names_body, pod, profile, scores_in, view
from tests.unit.services.extender.http.client import Client
from tests.unit.services.extender.http.running_server import ANSWER, HEAD, ask, receive, running

TEN_MB = 10_000_000


def value_of(number: int) -> float:
    """Return a score. One of eleven nodes is rejected with 0, and one with 1."""
    return float(number % 11)


@pytest.mark.parametrize("agent", [ScoreAgent, DemandAgent])
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_a_cluster_and_a_request_with_this_number_of_nodes(count: int, agent: type[ScoreAgent]) -> None:
    values = {f"node-{number}": value_of(number) for number in range(count)}
    names, kept = list(values), [name for name, value in values.items() if value >= 2]
    client = Client(profile(ConfiguredAgent(agent(), 1, True), KeepBudgets()))
    client.engine.on_view(view(values))
    whole = json.dumps({"Pod": pod(), "Nodes": {"items": [{"metadata": {"name": name}} for name in names]}}).encode()
    for body in (names_body(names), whole):
        assert scores_in(client.post("/scheduler/prioritize", body).body) == values
        answer = client.post("/scheduler/filter", body).json
        assert (answer["NodeNames"] or [node["metadata"]["name"] for node in (answer["Nodes"] or {}).get("items", [])]) == kept
        assert set(answer["FailedNodes"]) == set(names) - set(kept) and all(answer["FailedNodes"].values())
    victims = {name: {"Pods": [{"UID": name}], "NumPDBViolations": 0} for name in names}
    answer = client.post("/scheduler/preempt", json.dumps({"Pod": pod(), "NodeNameToMetaVictims": victims}).encode()).json
    assert set(answer["NodeNameToMetaVictims"]) == set(kept)
    for path in ("/status", "/metrics", "/readyz"):
        assert client.get(path).status in (200, 503)
    assert len(client.get("/status").json["profiles"][0]["nodes"]) == count


@pytest.mark.parametrize(
    ("change", "status"),
    [({"metadata": {**pod()["metadata"], "annotations": {"large": "x" * TEN_MB}}}, b"200"), ({"metadata": ["x" * TEN_MB]}, b"400")],
    ids=["a pod that can be read", "a pod that cannot be read"],
)
def test_a_body_of_ten_megabytes_is_answered_and_so_is_the_next(change: dict[str, t.Any], status: bytes) -> None:
    body = json.dumps({"Pod": {**pod(), **change}, "NodeNames": ["a", "b"]}).encode()
    assert len(body) > TEN_MB
    with running() as server, server.connect() as connection:
        for part in (HEAD % len(body), body):
            connection.sendall(part)
        head, answer = receive(connection)
        assert head.startswith(b"HTTP/1.1 " + status), head
        assert scores_in(answer) == ANSWER if status == b"200" else "the Pod cannot be read" in json.loads(answer)["error"]
        assert ask(connection) == ANSWER


def test_ten_megabytes_that_are_no_json_have_a_short_error() -> None:
    client = Client(profile(ScoreAgent()))
    for body in (b"[" * TEN_MB, b"\x00" * TEN_MB, b'{"Pod":"' + b"x" * TEN_MB, b" " * TEN_MB):
        answer = client.post("/scheduler/filter", body)
        assert answer.status == 400 and "the body is not ExtenderArgs" in answer.json["error"] and len(answer.body) < 1000
    assert client.post("/scheduler/filter", names_body(["a"])).json["NodeNames"] == ["a"]


def error_of(connection: socket.socket, request: bytes) -> tuple[bytes, str]:
    """Return the status and the text of an answer after which the connection is closed."""
    connection.sendall(request)
    head, body = receive(connection)
    assert b"connection: close" in head
    return head.split()[1], json.loads(body)["error"]


CHUNKED = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    "request_bytes",
    [HEAD % 70_000, HEAD % 65_537, HEAD % 10**15, CHUNKED + (b"9c40\r\n" + b" " * 40_000 + b"\r\n") * 2],
    ids=["length", "one byte too many", "very large", "chunks"],
)
def test_a_body_that_is_too_large_is_refused_before_it_is_received(request_bytes: bytes) -> None:
    with running(max_body_bytes=65_536) as server, server.connect() as connection:
        status, text = error_of(connection, request_bytes)
        assert status == b"413" and "more than 65536 bytes" in text


def test_a_body_that_does_not_end_is_refused_and_a_client_that_is_gone_gets_no_answer() -> None:
    with running(head_s=0.2) as server, server.connect() as connection:
        with server.connect() as gone:
            gone.sendall(HEAD % 100 + b"{")
        assert error_of(connection, HEAD % 100 + b"{") == (b"408", "the body was not complete after 0.2 s")
        with server.connect() as other:
            assert ask(other) == ANSWER


def test_the_bytes_of_all_bodies_together_are_limited() -> None:
    with running(max_body_bytes=65_536, head_s=1.0) as server, contextlib.ExitStack() as stack:
        unfinished = [stack.enter_context(server.connect()) for _ in range(6)]
        for one in unfinished:
            one.sendall(HEAD % 65_000 + b" " * 60_000)
        answers = [receive(one)[0].split()[1] for one in unfinished]
        assert sorted(answers) == [b"408"] * 4 + [b"503"] * 2
        with server.connect() as other:
            assert ask(other) == ANSWER
