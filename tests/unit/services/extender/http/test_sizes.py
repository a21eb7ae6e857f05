# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters and bodies of every size: no node, one node, 5,000 nodes, and bodies of 10 MB."""

from __future__ import annotations

import json
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
