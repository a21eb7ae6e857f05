# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objectives follow their definitions, and a pod goes to the node that improves them most."""

from __future__ import annotations

import numpy as np
import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.arrays import Floats
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.packing.objectives import (
    Shares,
    binpack,
    consolidate,
    load_balance,
    variation_of_demands,
)
from ansible_collections.onprem.kube_scheduling.services.extender.interface import NodeView
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.agents.views import GIB, NOW_S, agent, judgements, node, on_path, pod, scores

ALLOCATABLE = {"cpu": 1000, "memory": 10 * GIB, "pods": 10, "nvidia.com/gpu": 2, "ephemeral-storage": 100 * GIB}
OBJECTIVES = ("A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE")
SHARES = st.lists(st.floats(0, 0.9), min_size=2, max_size=8)


def loaded(name: str, *millicores: int, memory: int = GIB) -> NodeView:
    """A node of one core with pods of these requests."""
    pods = [pod(f"{name}-{number}", requests={"cpu": cpu, "memory": memory}, bound_s_ago=60) for number, cpu in enumerate(millicores)]
    return node(name, pods=pods, allocatable=ALLOCATABLE)


def placed(shares: list[float], number: int, demand: float) -> list[float]:
    return [share + demand * (other == number) for other, share in enumerate(shares)]


def defined_consolidation(shares: list[float]) -> float:
    """1 − √(mean of d²) as the original computes it."""
    mean = sum(shares) / len(shares)
    distances = [((mean - x) / mean if mean > 0 else 0.0) if x < mean else ((x - mean) / (1 - mean) if mean < 1 else 0.0) for x in shares]
    return float(1 - np.sqrt(np.mean(np.square(distances))))


def defined_variation(points: Floats) -> float:
    """√(m'Sm) / (m'm) of points in rows."""
    mean = points.mean(axis=0)
    covariance = (points - mean).T @ (points - mean) / len(points)
    length = mean @ mean
    return float(np.sqrt(max(0.0, mean @ covariance @ mean)) / length) if length > 0 else 0.0


@given(shares=SHARES, demand=st.floats(0.001, 0.1))
@settings(max_examples=50, deadline=None)
def test_load_balance_is_the_deviation_after_the_placement(shares: list[float], demand: float) -> None:
    before = np.array(shares)[:, None]
    expected = [float(np.std(placed(shares, number, demand))) for number in range(len(shares))]
    assert load_balance(Shares.of(before, 0), before, before + demand) == pytest.approx(expected, abs=1e-9)


@given(shares=SHARES, demand=st.floats(0.001, 0.1))
@settings(max_examples=50, deadline=None)
def test_consolidate_is_the_distance_from_the_mean_after_the_placement(shares: list[float], demand: float) -> None:
    before = np.array(shares)[:, None]
    expected = [defined_consolidation(placed(shares, number, demand)) for number in range(len(shares))]
    assert consolidate(Shares.of(before, 0), before, before + demand) == pytest.approx(expected, abs=1e-6)


@given(shares=st.lists(st.tuples(st.floats(0, 0.9), st.floats(0, 0.9)), min_size=2, max_size=8), variation=st.floats(0, 3))
@settings(max_examples=50, deadline=None)
def test_binpack_is_the_distance_of_variations_after_the_placement(shares: list[tuple[float, float]], variation: float) -> None:
    before, demand = np.array(shares), np.array([0.05, 0.02])
    expected = []
    for number in range(len(shares)):
        points = before.copy()
        points[number] += demand
        expected.append(abs(defined_variation(points) - variation))
    assert binpack(Shares.of(before, 0), before, before + demand, variation) == pytest.approx(expected, abs=1e-6)


def test_variation_of_demands_follows_from_their_sums() -> None:
    demands = np.random.default_rng(5).uniform(0, 1, (40, 3))
    found = variation_of_demands(40, demands.sum(axis=0), demands.T @ demands)
    assert found == pytest.approx(defined_variation(demands))


def test_load_balance_prefers_the_emptiest_node_and_consolidate_the_fullest() -> None:
    nodes = [loaded("empty"), loaded("half", 500), loaded("full", 800)]
    waiting = pod(requests={"cpu": 100, "memory": GIB})
    balanced = scores(agent("pigeon", policy_objective="LOAD_BALANCE"), nodes, waiting)
    assert balanced["empty"] == 10.0 and balanced["full"] == 1.0
    consolidated = scores(agent("pigeon", policy_objective="CONSOLIDATE"), nodes, waiting)
    assert consolidated["full"] == 10.0 and consolidated["empty"] == 1.0


def test_binpack_prefers_the_node_that_brings_the_variations_together() -> None:
    of = agent("pigeon")
    # The demands are all equal, so that their variation is 0, and the nodes should be equal.
    nodes = [loaded("a", 100), loaded("b", 100, 100), loaded("c", 100, 100)]
    found = judgements(of, nodes, pod(requests={"cpu": 100, "memory": GIB}))
    assert found["a"].score == 10.0 and found["b"].score == found["c"].score == 1.0
    assert found["a"].value == pytest.approx(0.0, abs=1e-7)


def test_a_node_on_which_the_pod_does_not_fit_has_the_score_zero() -> None:
    found = judgements(agent("pigeon"), [loaded("full", 950), loaded("free", 100)], pod(requests={"cpu": 100, "memory": GIB}))
    assert found["full"].score == 0.0 and found["full"].explanation == "the requests do not fit"
    assert found["free"].score == 10.0
    assert scores(agent("pigeon"), [loaded("full", 950)], pod(requests={"cpu": 100})) == {"full": 0.0}


def test_equal_nodes_have_the_best_score() -> None:
    for objective in OBJECTIVES:
        nodes = [loaded(str(number), 300, 300, 300) for number in range(7)]
        assert set(scores(agent("pigeon", policy_objective=objective), nodes, pod(requests={"cpu": 70})).values()) == {10.0}


def test_a_pod_without_requests_counts_with_ten_millicores() -> None:
    of = agent("pigeon", policy_objective="LOAD_BALANCE")
    nodes = [loaded("a", 300), loaded("b", 500)]
    with_ten = judgements(of, nodes, pod(requests={"cpu": 10, "memory": 16 * 2**20}))
    assert judgements(of, nodes, pod()) == with_ten
    assert with_ten["a"].value == pytest.approx(float(np.std([0.31, 0.5])))


def test_ended_pods_do_not_count() -> None:
    of = agent("pigeon", policy_objective="LOAD_BALANCE")
    ended = node("a", pods=[pod("x", requests={"cpu": 900}, bound_s_ago=60, ended_s_ago=5)], allocatable=ALLOCATABLE)
    found = scores(of, [ended, loaded("b", 500)], pod(requests={"cpu": 100}))
    assert found["a"] == 10.0


def test_five_resources_count() -> None:
    of = agent("pigeon", num_resources=5, policy_objective="LOAD_BALANCE", policy_resource_index=3)
    gpu = {"cpu": 10, "nvidia.com/gpu": 1}
    busy = node("busy", pods=[pod("x", requests=gpu, bound_s_ago=60)], allocatable=ALLOCATABLE)
    without = node("without", allocatable={**ALLOCATABLE, "nvidia.com/gpu": 0})
    crowded = node("crowded", pods=[pod(str(number), bound_s_ago=60) for number in range(10)], allocatable=ALLOCATABLE)
    found = scores(of, [busy, node("idle", allocatable=ALLOCATABLE), without, crowded], pod(requests=gpu))
    assert found == {"busy": 1.0, "idle": 10.0, "without": 0.0, "crowded": 0.0}


def test_a_node_without_allocatable_resources_is_unknown() -> None:
    of = agent("pigeon")
    found = scores(of, [node("n"), loaded("a", 100)], pod(requests={"cpu": 100}))
    assert found == {"n": None, "a": 10.0}
    assert scores(of, [node("n")], pod()) == {"n": None}


def test_a_changed_node_is_read_again_without_a_refresh() -> None:
    of = agent("pigeon", policy_objective="LOAD_BALANCE")
    nodes = [loaded("a", 100), loaded("b", 300), loaded("c", 300)]
    prepared = of.prepare(nodes, NOW_S)
    changed = [loaded("a", 100, 400), *nodes[1:]]
    waiting = pod(requests={"cpu": 100})
    expected = list(judgements(of, changed, waiting).values())
    assert of.score_all(prepared, changed, waiting, NOW_S) == expected
    assert list(of.score_all(prepared, nodes, waiting, NOW_S)) == list(judgements(of, nodes, waiting).values())
    assert of.score_all(prepared, changed[1:], waiting, NOW_S)[0].score is not None


def test_a_node_that_becomes_known_is_judged() -> None:
    of = agent("pigeon", policy_objective="LOAD_BALANCE")
    nodes = [loaded("a", 100), node("b"), loaded("c", 300)]
    prepared = of.prepare(nodes, NOW_S)
    changed = [nodes[0], loaded("b", 200), node("c")]
    found = of.scores(prepared, changed, pod(requests={"cpu": 100}), NOW_S)
    assert found is not None and list(found.scores[:2]) == [10.0, 1.0] and np.isnan(found.scores[2])


@given(changes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12), objective=st.sampled_from(OBJECTIVES))
@settings(max_examples=50, deadline=None)
def test_the_scores_do_not_depend_on_the_nodes_that_were_judged_before(changes: list[tuple[int, int]], objective: str) -> None:
    of = agent("pigeon", policy_objective=objective, num_resources=5)
    nodes = [loaded(str(number), *[10 + number] * (1 + number)) for number in range(5)]
    prepared, waiting = of.prepare(nodes, NOW_S), pod(requests={"cpu": 20, "memory": GIB // 4})
    for row, pods in changes:
        nodes[row] = loaded(str(row), *[30 + row] * pods)
        of.scores(prepared, nodes, waiting, NOW_S)
    assert of.scores(prepared, nodes, waiting, NOW_S) == of.scores(of.prepare(nodes, NOW_S), nodes, waiting, NOW_S)


@pytest.mark.parametrize(("score", "original"), [(None, 0), (0.0, 0), (1.0, 1), (5.5, 6), (10.0, 10)])
def test_the_original_rounds_to_the_nearest_integer(score: float | None, original: int) -> None:
    of = agent("pigeon")
    judgement = judgements(of, [node("n")], pod())["n"]._replace(score=score)
    assert on_path("pigeon-holing", judgement) == original


def test_pods_with_equal_requests_have_one_key() -> None:
    of = agent("pigeon")
    assert of.demand_key(pod("a", requests={"cpu": 1, "x": 2})) == of.demand_key(pod("b", requests={"cpu": 1, "x": 3}))
    assert of.demand_key(pod("a", requests={"cpu": 1})) != of.demand_key(pod("a", requests={"cpu": 2}))
