# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A small cluster is scraped directly, with rates from the samples of earlier scrapes."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Gauge, LabelMatch, Query, Rate, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.http_reader import HttpReader
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import Identity, NodeIdentity, NodeRecord
from ansible_collections.onprem.kube_scheduling.services.extender.sources.node_exporter.counters import MAX_SAMPLES, CounterHistory
from ansible_collections.onprem.kube_scheduling.services.extender.sources.node_exporter.exposition import (
    ExpositionError,
    Measurement,
    collectors_of,
    parse_exposition,
)
from ansible_collections.onprem.kube_scheduling.services.extender.sources.node_exporter.node_exporter import NodeExporterSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import LoginSettings, NodeExporterSettings
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import Readings
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.sources import prometheus_server as faults
from tests.unit.services.extender.sources.prometheus_server import Server, path_of

NOT_VIRTUAL = (LabelMatch("device", "lo|veth.*", negative=True),)
RECEIVED = Rate("node_network_receive_bytes_total", 60, NOT_VIRTUAL)
SPEED = Gauge("node_network_speed_bytes", NOT_VIRTUAL)


def metrics(received: float, speed: str = "1.25e+08") -> str:
    return f"""# HELP node_network_receive_bytes_total Network device statistic receive_bytes.
# TYPE node_network_receive_bytes_total counter
node_network_receive_bytes_total{{device="eth0"}} {received}
node_network_receive_bytes_total{{device="veth12"}} 99
# TYPE node_network_speed_bytes gauge
node_network_speed_bytes{{device="eth0"}} {speed}
# TYPE node_load1 gauge
node_load1 0.21
"""


def record(name: str, address: str = "127.0.0.1") -> NodeRecord:
    return NodeRecord(Identity(name), {}, {}, {}, NodeIdentity(name), address)


def exposed(body: bytes) -> faults.Fault:
    """Return an exporter with this body."""
    return lambda handler: handler.reply(200, "text/plain", body + b"\n")


def devices(number: int, kind: str = "eth") -> bytes:
    """Return the speeds of this number of devices."""
    return b"\n".join(b'node_network_speed_bytes{device="%b%d"} 1.25e+08' % (kind.encode(), index) for index in range(number))


class Scraper:
    """A source with a clock that a test moves."""

    def __init__(self, port: int, **changes: t.Any) -> None:
        self.now_s = 1000.0
        self.source = NodeExporterSource(NodeExporterSettings(port=port, **{"timeout_s": 2.0, **changes}), clock=lambda: self.now_s)

    def read(self, *queries: Query, nodes: tuple[str, ...] = ("a",)) -> Readings:
        return self.source.read(queries, {name: record(name) for name in nodes})


@pytest.fixture
def scraper(server: Server) -> Iterator[Scraper]:
    made = Scraper(server.port)
    yield made
    made.source.close()


def test_a_rate_is_the_increase_between_scrapes(server: Server, scraper: Scraper) -> None:
    server.metrics = metrics(1000)
    assert scraper.read(RECEIVED, SPEED).values == {RECEIVED: {}, SPEED: {"a": [Series({"device": "eth0"}, 1.25e8, 1000.0)]}}
    scraper.now_s += 15
    server.metrics = metrics(4000)
    assert scraper.read(RECEIVED).values == {RECEIVED: {"a": [Series({"device": "eth0"}, 200.0, 1015.0)]}}


def test_only_the_collectors_of_the_queries_are_asked(server: Server, scraper: Scraper) -> None:
    scraper.read(RECEIVED, SPEED)
    assert path_of(server.asked[0]) == ("/metrics", {"collect[]": ["netclass", "netdev"]})
    server.asked.clear()
    scraper.read(RECEIVED, Gauge("own_metric"))
    assert path_of(server.asked[0]) == ("/metrics", {})


def test_all_nodes_are_scraped_and_those_without_an_answer_are_named(server: Server, scraper: Scraper) -> None:
    server.metrics = metrics(1)
    nodes = {**{f"n{number}": record(f"n{number}") for number in range(20)}, "no-address": record("no-address", "")}
    readings = scraper.source.read([SPEED], nodes)
    assert len(readings.values[SPEED]) == 20
    assert readings.problems == ["the node no-address has no InternalIP"]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (faults.status(400, "disabled collector: netclass"), "status 400: disabled collector: netclass"),
        (faults.html, "is an HTML page"),
        (faults.truncated, "no answer from"),
        (faults.DRIPPING["header"], "the whole answer must arrive within timeout_s"),
        (exposed(b'node_network_speed_bytes{device="} 1'), "cannot be read"),
        (exposed(b'node_network_speed_bytes{device="eth0"} ' + b"9" * 400), "cannot be read"),
        (exposed(devices(1025)), "has more than 1024 series of node_network_speed_bytes"),
        (exposed(b'node_network_speed_bytes{device="%b"} 1' % (b"e" * 513)), "a value of the label device has more than 512 characters"),
        (exposed(b"node_network_speed_bytes{%b} 1" % (b" " * 4096)), "a line of node_network_speed_bytes has more than 4096 bytes"),
        (exposed(devices(20_000, "veth")), "its lines of node_network_speed_bytes have more than 1048576 bytes"),
    ],
)
def test_a_scrape_that_fails_is_a_problem_of_its_node(server: Server, scraper: Scraper, fault: t.Any, text: str) -> None:
    server.fault = fault
    readings = scraper.read(SPEED)
    assert readings.values == {SPEED: {}}
    (problem,) = readings.problems
    assert problem.startswith("node a: ") and text in problem


def test_many_errors_are_counted(server: Server, scraper: Scraper) -> None:
    server.fault = faults.status(500)
    problems = scraper.read(SPEED, nodes=tuple(f"n{number}" for number in range(9))).problems
    assert len(problems) == 6 and problems[-1] == "4 more nodes cannot be scraped"


def test_a_larger_cluster_is_refused(server: Server) -> None:
    scraper = Scraper(server.port, max_nodes=2)
    problems = scraper.read(SPEED, nodes=("a", "b", "c")).problems
    scraper.source.close()
    assert problems == ["the cluster has 3 nodes, and at most 2 are scraped directly: use sources.prometheus"] and not server.asked


def test_an_expression_needs_prometheus(scraper: Scraper) -> None:
    assert scraper.read(Expression("sum(x)")).problems == ["only Prometheus can answer sum(x): use sources.prometheus"]


def test_the_counters_of_a_vanished_node_are_removed(server: Server, scraper: Scraper) -> None:
    server.metrics = metrics(1)
    scraper.read(RECEIVED, nodes=("a", "b"))
    scraper.now_s += 61
    scraper.read(RECEIVED, nodes=("a",))
    assert {node for node, _name, _labels in scraper.source._counters} == {"a"}


@pytest.mark.parametrize(
    ("samples", "window_s", "rate"),
    [
        ([(0, 100)], 60, None),
        ([(0, 100), (10, 300)], 60, 20.0),
        ([(0, 100), (10, 300), (20, 300)], 60, 10.0),
        ([(0, 100), (10, 50), (20, 150)], 60, 7.5),  # a reset to 0, and 50 after it
        ([(0, 0), (100, 1000), (110, 1100)], 60, 10.0),
        ([(0, 0), (10, 1000), (20, 1100)], 10, 10.0),
        ([(5, 1), (5, 2)], 60, None),
    ],
)
def test_rate_of_a_counter(samples: list[tuple[float, float]], window_s: float, rate: float | None) -> None:
    history = CounterHistory()
    for at_s, value in samples:
        history.add(at_s, value, 60)
    assert history.rate(window_s) == rate


def test_the_samples_of_a_counter_are_bounded() -> None:
    history = CounterHistory()
    for number in range(1000):
        history.add(float(number), number * 3.0, 10_000)
    assert history.rate(10_000) == 3.0 and len(history._times) == MAX_SAMPLES


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0, 1e6)), min_size=2, max_size=10))
def test_a_rate_is_never_negative(steps: list[tuple[float, float]]) -> None:
    history, at_s = CounterHistory(), 0.0
    for step_s, value in steps:
        at_s += step_s
        history.add(at_s, value, 1e9)
    rate = history.rate(1e9)
    assert rate is not None and rate >= 0


def test_only_finite_values_of_the_wanted_metrics_are_read() -> None:
    body = b'a{x="1"} 5\na{x="2"} NaN\na_other 7\nb 6 1700000000000\n# a comment\nc{d="{"} 8\n'
    assert parse_exposition(body, dict.fromkeys("abc", lambda _labels: True)) == {
        "a": [Measurement({"x": "1"}, 5.0)],
        "b": [Measurement({}, 6.0)],
        "c": [Measurement({"d": "{"}, 8.0)],
    }


def test_collectors() -> None:
    assert collectors_of(["node_cpu_seconds_total", "node_memory_MemTotal_bytes"]) == ["cpu", "meminfo"]
    assert collectors_of(["node_cpu_seconds_total", "other"]) == []


@settings(max_examples=50, deadline=None)
@given(st.text(st.sampled_from('ab{}="\\ 1.,\n#'), max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_exposition(text.encode(), dict.fromkeys("ab", lambda _labels: True))
    except ExpositionError as error:
        assert str(error)


def test_a_node_with_too_many_series_takes_nothing_from_the_others(server: Server, new_server: t.Callable[[], Server]) -> None:
    server.metrics = metrics(1)
    hostile = new_server()
    hostile.metrics = devices(5000).decode()
    scraper = Scraper(server.port)
    scraper.source._reader = lambda node, address: HttpReader(  # type: ignore[method-assign]
        hostile.url if node == "hostile" else server.url, LoginSettings(), timeout_s=2.0
    )
    readings = scraper.read(SPEED, nodes=("a", "hostile"))
    scraper.source.close()
    assert list(readings.values[SPEED]) == ["a"]
    (problem,) = readings.problems
    assert problem.startswith("node hostile: ")


def test_excluded_devices_do_not_count_as_series(server: Server, scraper: Scraper) -> None:
    server.metrics = metrics(1) + devices(3000, "veth").decode() + "\n"
    assert scraper.read(SPEED).values == {SPEED: {"a": [Series({"device": "eth0"}, 1.25e8, 1000.0)]}}


def test_the_counters_of_a_node_that_names_other_devices_at_each_scrape_are_bounded(server: Server, scraper: Scraper) -> None:
    window_s = 300
    received = Rate("node_network_receive_bytes_total", window_s, NOT_VIRTUAL)
    for scrape in range(6):
        lines = [f'node_network_receive_bytes_total{{device="e{scrape}x{number}"}} 1\n' for number in range(1000)]
        server.metrics = metrics(1000.0 * scrape) + "".join(lines)
        readings = scraper.read(received, nodes=("a", "b"))
        scraper.now_s += 15
    assert len(scraper.source._counters) == 2 * 1001
    (of_a,), (of_b,) = readings.values[received].values()
    assert of_a == of_b == Series({"device": "eth0"}, 1000 / 15, 1075.0)
