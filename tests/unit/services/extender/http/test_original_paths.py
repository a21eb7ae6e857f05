# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of kube-safe-scheduler answer with its scores: ten nodes whose risk was calculated with the original's formula."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Annotation, NodeView, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView

from tests.unit.services.extender.extender_objects import names_body, profile, scores_in
from tests.unit.services.extender.http.client import Client
from tests.unit.services.extender.original_vectors import VECTORS

CAPACITY = {"cpu": 1_000_000, "memory": 1_000_000_000}
NAMES = [f"node-{number}" for number in range(len(VECTORS))]


def series(value: float) -> tuple[Series, ...]:
    return (Series({}, value, None),)


def safe_node(name: str, mean: float, deviation: float) -> NodeView:
    found = {}
    for resource, amount in CAPACITY.items():
        found[Annotation(f"mean-free-{resource}")] = series((1 - mean) * amount)
        found[Annotation(f"std-free-{resource}")] = series(deviation * amount)
    return NodeView(name, {}, CAPACITY, found)


def client_with(nodes: list[NodeView], *agents: Agent) -> Client:
    client = Client(profile(*agents))
    client.engine.on_view(ClusterView(1, {node.name: node for node in nodes}))
    return client


def ask(client: Client, path: str, names: list[str]) -> t.Any:
    return client.post(f"/scheduler/{path}", names_body(names, scheduler="my-scheduler"))


def test_safe_overload_and_safe_balance() -> None:
    nodes = [safe_node(name, mean, deviation) for name, (mean, deviation, *_wanted) in zip(NAMES, VECTORS, strict=True)]
    client = client_with(nodes, *(build_agent(name, {"source": "annotations"}) for name in ("safe_overload", "safe_balance")))
    for path, column in (("priorities/safe-overload", 3), ("priorities/safe-balance", 4)):
        found = scores_in(ask(client, path, NAMES).body)
        assert found == {name: vector[column] for name, vector in zip(NAMES, VECTORS, strict=True)}, path
    answer = ask(client, "predicates/safe-overload", NAMES).json
    assert answer["NodeNames"] == [name for name, vector in zip(NAMES, VECTORS, strict=True) if vector[2]]
    assert all(answer["FailedNodes"][name] for name, vector in zip(NAMES, VECTORS, strict=True) if not vector[2])


@pytest.mark.parametrize(("factor", "score"), [(0, 10), (4, 10), (5, 10), (6, 9), (50, 5), (94, 1), (96, 0), (100, 0), (500, 0)])
def test_congestion(factor: int, score: int) -> None:
    node = NodeView("a", series={Annotation("congestion-factor"): series(factor)})
    assert scores_in(ask(client_with([node], build_agent("congestion")), "priorities/congestion", ["a"]).body) == {"a": score}


def test_a_node_without_the_annotation_has_the_score_of_the_original() -> None:
    client = client_with([NodeView("a")], build_agent("congestion"), build_agent("safe_balance", {"source": "annotations"}))
    assert scores_in(ask(client, "priorities/congestion", ["a", "unknown"]).body) == {"a": 10, "unknown": 10}
    assert scores_in(ask(client, "priorities/safe-balance", ["a", "unknown"]).body) == {"a": 0, "unknown": 0}


def test_foo() -> None:
    client = client_with([NodeView("a")], build_agent("template"))
    assert scores_in(ask(client, "priorities/foo", ["a"]).body) == {"a": 1}
    assert ask(client, "predicates/foo", ["a"]).json["NodeNames"] == ["a"]
