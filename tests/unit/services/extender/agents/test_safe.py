# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agents of kube-safe-scheduler give its scores, from annotations or from Prometheus."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import promql_parser
import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.safe import model
from ansible_collections.onprem.kube_scheduling.services.extender.agents.safe.arguments import SafeArgs, resource_queries
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Annotation, Expression, NodeView, PodView

from tests.unit.services.extender.agents.views import GIB, NOW_S, agent, judgements, node, on_path, pod, scores, series
from tests.unit.services.extender.original_vectors import VECTORS

CORES = 10
MEMORY = 64 * GIB
ALLOCATABLE = {"cpu": CORES * 1000, "memory": MEMORY}


def annotated(name: str, *, pods: tuple[PodView, ...] = (), **values: float) -> NodeView:
    """A node with annotations; the names of the values have underscores in place of hyphens."""
    found = {Annotation(key.replace("_", "-")): [series(value)] for key, value in values.items()}
    return node(name, found, allocatable=ALLOCATABLE, pods=pods)


IDLE = {"mean_free_cpu": CORES * 1000.0, "std_free_cpu": 0.0, "mean_free_memory": float(MEMORY), "std_free_memory": 0.0}


def at(name: str, mean: float, deviation: float, *, resource: str = "cpu", pods: tuple[PodView, ...] = ()) -> NodeView:
    """A node with the mean and deviation of the utilisation of one resource. The other one is idle."""
    capacity = ALLOCATABLE[resource]
    values = {f"mean_free_{resource}": (1 - mean) * capacity, f"std_free_{resource}": deviation * capacity}
    return annotated(name, pods=pods, **{**IDLE, **values})


def safe(name: str, **args: t.Any) -> Agent:
    return agent(name, **{"source": "annotations", **args})


@pytest.fixture(autouse=True, scope="module")
def arrays_for_few_nodes() -> Iterator[None]:
    """Compute few nodes as many nodes are. ``judge`` has the result of the other way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "FEW", 0)
        yield


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize(("mean", "deviation", "accepted", "overload", "balance"), VECTORS)
def test_vectors_of_the_original(mean: float, deviation: float, accepted: bool, overload: int, balance: int, resource: str) -> None:
    nodes = [at("n", mean, deviation, resource=resource)]
    of = safe("safe_overload")
    judgement = judgements(of, nodes, pod())["n"]
    assert (on_path("safe-overload", judgement), not judgement.rejection) == (overload, accepted)
    of = safe("safe_balance")
    assert on_path("safe-balance", judgements(of, nodes, pod())["n"]) == balance


def test_the_demand_of_the_pod_counts() -> None:
    nodes = [at("n", 0.5, 0.1)]
    with_pod = judgements(safe("safe_overload"), nodes, pod(requests={"cpu": 3500}))["n"]
    same = judgements(safe("safe_overload"), [at("n", 0.85, 0.1)], pod())["n"]
    assert with_pod.value == pytest.approx(same.value)
    assert with_pod.rejection == "cpu: the risk to exceed 90% is 37.2%, and percentile is 30%"
    assert with_pod.explanation == "cpu 85% ± 10%, 37.2% risk to exceed 90%"


def test_the_worse_resource_decides() -> None:
    both = annotated("n", mean_free_cpu=5000, std_free_cpu=1000, mean_free_memory=0.15 * MEMORY, std_free_memory=0.05 * MEMORY)
    judgement = judgements(safe("safe_overload"), [both], pod())["n"]
    assert judgement.score == pytest.approx(2.76, abs=0.01) and judgement.explanation.startswith("memory 85%")
    assert judgements(safe("safe_balance"), [both], pod())["n"].explanation.startswith("memory 85%")


def test_a_percentile_counts_for_its_resource() -> None:
    strict = safe("safe_overload", memory={"percentile": 10})
    found = judgements(strict, [at("cpu", 0.8, 0.1), at("memory", 0.8, 0.1, resource="memory")], pod())
    assert not found["cpu"].rejection and found["memory"].rejection.endswith("percentile is 10%")


def test_with_a_percentile_of_zero_any_risk_is_the_worst_and_none_the_best() -> None:
    found = scores(safe("safe_overload", percentile=0), [at("some", 0.7, 0.1), at("none", 0.6, 0.0)], pod())
    assert found == {"some": 0.0, "none": 10.0}


def test_the_forecast_counts_by_its_weight() -> None:
    of = safe("safe_balance", forecast_weight=25)
    free = annotated("n", **{**IDLE, "mean_free_cpu": 4000, "forcasted_free_cpu": 8000})
    assert judgements(of, [free], pod())["n"].value == pytest.approx(0.5)


def without(key: str) -> NodeView:
    """A busy node whose other values are known."""
    busy = at(key, 0.95, 0.3)
    return replace(busy, series={query: values for query, values in busy.series.items() if query != Annotation(key)})


def with_age(key: str) -> NodeView:
    """A busy node of which one value is too old."""
    busy = at(f"old {key}", 0.95, 0.3)
    return replace(busy, series={**busy.series, Annotation(key): [series(0.0, age_s=301)]})


@pytest.mark.parametrize("name", ["safe_overload", "safe_balance"])
def test_a_node_without_one_of_the_values_is_unknown_and_the_value_is_named(name: str) -> None:
    keys = [key.replace("_", "-") for key in IDLE]
    nodes = [*map(without, keys), *map(with_age, [*keys, "forcasted-free-cpu"]), at("known", 0.95, 0.3)]
    of = safe(name)
    found = judgements(of, nodes, pod())
    assert [one for one in found if found[one].score is not None] == ["known"]
    for key in keys:
        resource = key.rpartition("-")[2]
        assert found[key].explanation == f"{resource}: no value of the annotation {key} is known"
        too_old = f"{resource}: the newest value of the annotation {key} is 301 s old, and max_age_s is 300 s"
        assert found[f"old {key}"].explanation == too_old
    assert found["old forcasted-free-cpu"].explanation.startswith("cpu: the newest value of the annotation forcasted-free-cpu is 301 s old")
    prepared = of.prepare(nodes, NOW_S)
    fast = of.scores(prepared, nodes, pod(), NOW_S)
    assert fast is not None and [np.isnan(score) for score in fast.scores] == [*[True] * (len(nodes) - 1), False]
    assert set(fast.rejections) <= {len(nodes) - 1}
    for one in nodes:
        alone = of.judge(prepared, one, pod(), NOW_S)
        assert alone.explanation == found[one.name].explanation
        assert not (alone.rejection and alone.score is None)


def test_a_node_without_capacity_or_with_a_negative_value_is_unknown() -> None:
    busy = at("n", 0.5, 0.1)
    without_capacity = replace(busy, name="capacity", allocatable={"memory": MEMORY})
    negative = replace(busy, name="negative", series={**busy.series, Annotation("mean-free-cpu"): [series(-1.0)]})
    found = judgements(safe("safe_balance"), [without_capacity, negative], pod())
    assert {name: (one.score, one.explanation) for name, one in found.items()} == {
        "capacity": (None, "cpu: no capacity above 0 is known from the allocatable resources"),
        "negative": (None, "cpu: the value of the annotation mean-free-cpu is -1, and at least 0 is expected"),
    }
    assert on_path("safe-balance", found["capacity"]) == 0


def test_new_pods_count_until_the_mean_shows_them() -> None:
    new = (pod("a", requests={"cpu": 2000}, bound_s_ago=1),)
    half = (pod("a", requests={"cpu": 2000}, bound_s_ago=1805),)
    nodes = [at("none", 0.5, 0.1), at("new", 0.5, 0.1, pods=new), at("half", 0.5, 0.1, pods=half)]
    means = {name: one.value for name, one in judgements(safe("safe_balance"), nodes, pod()).items()}
    assert means == {"none": pytest.approx(0.5), "new": pytest.approx(0.7), "half": pytest.approx(0.6)}
    ended = pod("b", requests={"cpu": 2000}, bound_s_ago=4000, ended_s_ago=1)
    found = judgements(safe("safe_balance"), [at("ended", 0.5, 0.1, pods=(ended,)), at("replaced", 0.5, 0.1, pods=(ended, *new))], pod())
    assert [one.value for one in found.values()] == [pytest.approx(0.5, abs=1e-3)] * 2, "never below the mean"
    without = judgements(safe("safe_balance", count_new_pods=False), nodes, pod())
    assert without["new"].value == pytest.approx(0.5)


def test_a_changed_node_is_read_again_without_a_refresh() -> None:
    of = safe("safe_balance")
    nodes = [at("a", 0.5, 0.1), at("b", 0.5, 0.1)]
    prepared = of.prepare(nodes, NOW_S)
    changed = [nodes[0], at("b", 0.5, 0.1, pods=(pod("x", requests={"cpu": 2000}, bound_s_ago=1),))]
    assert [one.value for one in of.score_all(prepared, changed, pod(), NOW_S)] == [pytest.approx(0.5), pytest.approx(0.7)]
    assert of.judge(prepared, changed[1], pod(), NOW_S).value == pytest.approx(0.7)
    nodes[1] = changed[1]  # the engine replaces nodes in the list that it gave to prepare
    assert [one.value for one in of.score_all(prepared, nodes, pod(), NOW_S)] == [pytest.approx(0.5), pytest.approx(0.7)]
    assert of.judge(prepared, changed[1], None, NOW_S).value == pytest.approx(0.7)
    assert of.score_all(prepared, [], pod(), NOW_S) == []
    for some in (nodes, nodes[1:]):
        found = of.scores(prepared, some, pod(), NOW_S)
        assert found is not None
        assert found.scores == pytest.approx([of.judge(prepared, one, pod(), NOW_S).score for one in some])


def test_scores_of_all_nodes_are_those_of_each() -> None:
    random = np.random.default_rng(3)
    nodes = [at(f"n{number}", *random.uniform(0, [1, 0.3])) for number in range(50)]
    for name in ("safe_overload", "safe_balance"):
        of = safe(name)
        prepared = of.prepare(nodes, NOW_S)
        waiting = pod(requests={"cpu": 500, "memory": GIB})
        found = of.scores(prepared, nodes, waiting, NOW_S)
        assert found is not None
        for number, one in enumerate(nodes):
            alone = of.judge(prepared, one, waiting, NOW_S)
            assert found.scores[number] == pytest.approx(alone.score)
            assert found.rejections.get(number, "") == alone.rejection


def from_prometheus(of: Agent, name: str, *, free: float, short_free: float, has_history: bool) -> NodeView:
    """A node with 10 cores and free cores over the long and the short window. Its memory is idle."""
    values: dict[t.Any, list[t.Any]] = {}
    for query in of.queries:
        assert isinstance(query, Expression)
        if "offset" in query.promql:
            values[query] = [series(1.0, age_s=None)] if has_history else []
        elif query.promql.startswith("stddev"):
            values[query] = [series(0.0)]
        elif "node_memory" in query.promql:
            values[query] = [series(float(MEMORY))]
        elif query.promql.startswith("count"):
            values[query] = [series(10.0)]
        elif query.promql.startswith("avg"):
            values[query] = [series(free if "3600s" in query.promql else short_free)]
    return node(name, values)


def test_prometheus_gives_capacity_and_load_and_a_young_node_has_the_short_window() -> None:
    of = agent("safe_balance")
    nodes = [
        from_prometheus(of, "old", free=4.0, short_free=1.0, has_history=True),
        from_prometheus(of, "young", free=4.0, short_free=1.0, has_history=False),
    ]
    assert {name: one.value for name, one in judgements(of, nodes, pod()).items()} == {
        "old": pytest.approx(0.6),
        "young": pytest.approx(0.9),
    }


@pytest.mark.parametrize("metric", ["node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes"])
def test_a_node_without_a_metric_is_unknown_and_the_metric_is_named(metric: str) -> None:
    for name in ("safe_overload", "safe_balance"):
        of = agent(name)
        idle, part = (from_prometheus(of, one, free=9.9, short_free=9.9, has_history=True) for one in ("idle", "part"))
        part = replace(part, series={query: found for query, found in part.series.items() if metric not in query[0]})
        found = judgements(of, [idle, part], pod())
        assert found["idle"].score is not None and found["part"].score is None
        assert metric in found["part"].explanation


@pytest.mark.parametrize("args", [{}, {"window": "2h", "short_window": 0}, {"cpu": {"window": 600}, "memory": {"forecast_free": "f"}}])
def test_every_expression_is_valid_promql(args: dict[str, t.Any]) -> None:
    queries = agent("safe_overload", **args).queries
    assert queries
    for query in queries:
        assert isinstance(query, Expression)
        promql_parser.parse(query.promql)
        if query.timestamp_of:
            promql_parser.parse(query.timestamp_of)


def test_a_window_counts_for_its_resource() -> None:
    queries = [query.promql for query in agent("safe_overload", cpu={"window": 600}).queries if isinstance(query, Expression)]
    for metric, window, other in (("node_cpu_seconds_total", "[600s:", "[3600s"), ("node_memory_MemAvailable_bytes", "[3600s]", "[600s")):
        means = [text for text in queries if text.startswith("avg_over_time") and metric in text]
        assert sum(window in text for text in means) == 1 and not any(other in text for text in means)


def test_own_expressions_replace_the_default_ones() -> None:
    memory = {
        "mean_free": "node:free:mean",
        "deviation": "node:free:std",
        "capacity": "node:total",
        "timestamp_of": "node_memory_MemFree_bytes",
    }
    (queries,) = resource_queries(t.cast(SafeArgs, agent("safe_overload", memory=memory).args), "memory")
    assert queries.mean_free == Expression("node:free:mean", "node_memory_MemFree_bytes")
    assert queries.capacity == Expression("node:total", "node_memory_MemFree_bytes") and queries.history is None
