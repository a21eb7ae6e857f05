# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of kube-safe-scheduler answer with its scores, among them ten nodes whose risk was calculated with its formula."""

from __future__ import annotations

import json
import time
import typing as t
from dataclasses import replace

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Annotation, NodeView, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView

from tests.unit.services.extender.agents.views import reward_agent
from tests.unit.services.extender.extender_objects import names_body, pod, pod_view, profile, scores_in
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


def test_pigeon_holing_places_each_pod_by_its_own_demand() -> None:
    small = NodeView("small", {}, {"cpu": 1000, "memory": 2**30})
    large = NodeView("large", {}, {"cpu": 4000, "memory": 2**30}, pods=[pod_view("here", cpu=1000)])
    client = client_with([small, large], build_agent("pigeon", {"policy_objective": "LOAD_BALANCE"}))
    for cpu, wanted in (("100m", {"small": 10, "large": 1}), ("2", {"small": 0, "large": 10}), ("100m", {"small": 10, "large": 1})):
        body = names_body(["small", "large"], cpu=cpu)
        assert scores_in(client.post("/scheduler/priorities/pigeon-holing", body).body) == wanted, cpu
        assert client.post("/scheduler/predicates/pigeon-holing", body).json["NodeNames"] == ["small", "large"]
    client.engine.on_node(replace(large, pods=[pod_view("here", cpu=3000)]))
    assert scores_in(client.post("/scheduler/priorities/pigeon-holing", names_body(["large"], cpu="2")).body) == {"large": 0}


def test_rl_priority_has_the_rewards_of_the_type_of_the_pod() -> None:
    agent = reward_agent()
    client = client_with([NodeView("a"), NodeView("b")], agent)

    def scores(kind: str) -> dict[str, int]:
        waiting = pod()
        waiting["metadata"]["labels"] = {"podtype": kind}
        body = json.dumps({"Pod": waiting, "NodeNames": ["a", "b"]}).encode()
        assert client.post("/scheduler/predicates/rl-priority", body).json["NodeNames"] == ["a", "b"]
        return scores_in(client.post("/scheduler/priorities/rl-priority", body).body)

    for _failure in range(2):
        agent.observe(replace(pod_view(), labels={"podtype": "batch"}), "a", succeeded=False, at_s=time.monotonic())
    # The reward is 0.9² on the one node, and the original gives 0 to a node without a reward.
    assert scores("batch") == {"a": 8, "b": 0}
    assert scores("web") == {"a": 0, "b": 0}
