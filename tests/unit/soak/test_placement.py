# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulation of placements, on a small case, and its parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Rate

from tests.soak.placement import report
from tests.soak.placement.__main__ import OTHERS, REFERENCE, makers
from tests.soak.placement.own_extender import OWN
from tests.soak.placement.query_server import QueryServer
from tests.soak.placement.simulation import Outcome, Simulation, run
from tests.soak.placement.stock_scores import FIT, SPREAD, StockScores
from tests.soak.placement.virtual_prometheus import VirtualPrometheus, rate
from tests.soak.placement.workload import BURSTY, HOT_NODE, PATTERNS, STEADY, burst_deviation, draw

NODES, PODS, BURST = 10, 40, 10


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Outcome]]:
    """One run of each contender with the same few pods."""
    server = QueryServer()
    scenario = draw(STEADY, 1, nodes=NODES, pods=PODS, burst=BURST)
    yield {name: run(scenario, make, 1) for name, make in makers(server).items()}
    server.stop()


def test_each_contender_places_all_pods(outcomes: dict[str, Outcome]) -> None:
    assert list(outcomes) == [kind.name for kind in (*OTHERS, *OWN, REFERENCE)]
    assert all(0 < one.variation < 1 and 0.1 < one.maximum < 1 for one in outcomes.values()), outcomes


def test_the_extender_avoids_the_hot_node() -> None:
    scenario, server = draw(HOT_NODE, 2, nodes=NODES, pods=PODS, burst=BURST), QueryServer()
    on_hot = {}
    for name, make in makers(server).items():
        simulation = Simulation(scenario, make, 2)
        for pod in scenario.pods:
            simulation.place(pod)
        on_hot[name] = sum(node == 0 for _pod, node in simulation.placed)
    server.stop()
    assert all(on_hot[kind.name] < on_hot[OTHERS[0].name] for kind in OWN), on_hot


def test_a_burst_is_not_sent_to_one_node(outcomes: dict[str, Outcome]) -> None:
    assert all(1 / BURST <= outcomes[kind.name].herding <= 0.4 for kind in OWN), outcomes


def test_the_page_compares_all_contenders(outcomes: dict[str, Outcome]) -> None:
    page = report.page(
        {pattern: {name: [one, one._replace(maximum=one.maximum + 0.1)] for name, one in outcomes.items()} for pattern in PATTERNS}
    )
    assert all(page.count(f"| {name} |") == len(PATTERNS) + (name not in {kind.name for kind in (*OWN, REFERENCE)}) for name in outcomes)
    assert "{" not in page


@pytest.mark.parametrize(("pattern", "tolerance"), [(STEADY, 1e-9), (BURSTY, 0.1)])
def test_pods_have_their_mean_traffic_with_and_without_bursts(pattern: str, tolerance: float) -> None:
    scenario = draw(pattern, 3)
    assert scenario.rates.mean() == pytest.approx(np.mean([pod.traffic for pod in scenario.pods]), rel=tolerance)


def test_the_noise_of_a_rate_is_that_of_the_drawn_bursts() -> None:
    scenario, window_s = draw(BURSTY, 3), 900
    parts = scenario.rates[:, : scenario.rates.shape[1] // window_s * window_s].reshape(len(scenario.pods), -1, window_s).mean(axis=2)
    shares = parts / np.array([pod.traffic for pod in scenario.pods])[:, None]
    assert shares.std() == pytest.approx(burst_deviation(window_s), rel=0.1)


def test_the_rate_is_extrapolated_to_the_window_and_survives_a_reset() -> None:
    # 100 each 10 s. The edges of the window are nearer than one interval.
    samples = [(10.0 * number, 1000.0 + 100.0 * number) for number in range(1, 7)]
    assert rate(samples, 60, 62) == pytest.approx(10.0)
    reset = [*samples[:3], *((at_s, value - 1300) for at_s, value in samples[3:])]
    assert rate(reset, 60, 62) == pytest.approx(10.0)
    # An edge that is farther adds half an interval.
    assert rate(samples, 100, 62) == pytest.approx((500 + 50 + 20) / 100)
    assert rate(samples[:1], 60, 62) is None


def test_an_edge_is_compared_in_milliseconds() -> None:
    # 0.3 s between two samples, so the threshold is 0.33 s. Prometheus extrapolates by half an interval at exactly this distance.
    for now_ms in range(5000, 6000, 7):
        first_ms, now_s = now_ms - 4000 + 330, now_ms / 1000
        samples = [((first_ms + 300 * number) / 1000, 1e6 + 300.0 * number) for number in range(13)]
        assert rate(samples, 4, now_s) == pytest.approx(1000 * (3.6 + 0.15 + 0.07) / 4), now_ms
        # A sample at the start of the window does not belong to it, and one at its end does.
        prometheus = VirtualPrometheus([Rate("bytes", 4)])
        for second in (now_s - 4, now_s - 2, now_s):
            prometheus.add("bytes", {}, round(second, 3), 1e6 + 10 * second)
        assert prometheus.samples("bytes", {}, 4, now_s) == [
            (round(now_s - 2, 3), pytest.approx(1e6 + 10 * (now_s - 2))),
            (now_s, pytest.approx(1e6 + 10 * now_s)),
        ]


def test_a_series_without_a_new_sample_ends() -> None:
    prometheus = VirtualPrometheus([Rate("bytes", 60)])
    for second in (0, 15, 30):
        prometheus.add("bytes", {"instance": "a"}, second, 100.0 * second)
    values, times = prometheus.texts
    assert [row.labels for text in (values, times) for row in prometheus.answer(text, 40)] == [{"instance": "a"}] * 2
    assert prometheus.answer(values, 80) == [] and prometheus.answer(times, 80)[0].value == 30
    assert prometheus.answer(times, 331) == []


def test_replicas_cost_points_and_requests_too() -> None:
    stock = StockScores([(1000, 1000)] * 3, [(0, 0), (500, 500), (0, 0)])
    stock.bind("a", (100, 100), 0)
    nodes = stock.feasible((100, 100))
    found = stock.scores("a", (100, 100), nodes)
    assert found[FIT].tolist() == [80, 40, 90] and found[SPREAD].tolist()[0] < found[SPREAD].tolist()[1] == 200
    assert stock.feasible((600, 100)).tolist() == [0, 2]
    assert len(set(stock.scores("b", (100, 100), nodes)[SPREAD].tolist())) == 1
