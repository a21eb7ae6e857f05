# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Values, ages and nodes from Prometheus' answers. ``test_prometheus_faults.py`` has the answers that cannot be used."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Gauge, Query, Rate, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NodeIdentity, NodeRecord
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import BasicAuth, PrometheusSettings
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import Readings

from tests.unit.services.extender.sources.cluster_nodes import nodes_of
from tests.unit.services.extender.sources.prometheus_server import Server, redirect_to, status

RECEIVED = Rate("received", 60)
NODES = nodes_of(NodeIdentity("a", ("10.0.0.1",)), NodeIdentity("b", ("10.0.0.2",)))
NOW_S = 5000.0


def source_of(*servers: Server, **settings: t.Any) -> PrometheusSource:
    return PrometheusSource(
        PrometheusSettings(tuple(server.url for server in servers), **{"timeout_s": 2.0, **settings}), clock=lambda: NOW_S
    )


def read(server: Server, *queries: Query, nodes: dict[str, NodeRecord] | None = NODES) -> Readings:
    return source_of(server).read(queries, nodes)


def test_a_rate_has_its_value_its_labels_and_the_age_of_its_newest_sample(server: Server) -> None:
    server.put("received", "1500.5", 7, instance="10.0.0.1:9100", device="eth0")
    readings = read(server, RECEIVED)
    labels = {"instance": "10.0.0.1:9100", "device": "eth0"}
    assert readings.values == {RECEIVED: {"a": (Series(labels, 1500.5, NOW_S - 7),)}}
    assert server.asked == ["rate(received[60s])", "timestamp(received)"]
    assert not readings.problems and not readings.unmapped_count


def test_a_node_label_that_no_series_has_is_named_with_the_labels_that_they_have(server: Server) -> None:
    server.put("received", "1", 7, instance="10.0.0.1:9100", device="eth0")
    source = source_of(server, node_label="node", node_rules=("name",))
    text = "sources.prometheus.node_label is node, and no series has this label: they have device, instance"
    assert source.read([RECEIVED], NODES).problems == [text]
    server.put("received", "1", 7, instance="10.0.0.1:9100", device="eth0", node="a")
    assert source.read([RECEIVED], NODES).problems == []


def test_a_query_that_removes_all_labels_is_told_how_to_keep_one(server: Server) -> None:
    server.vectors["sum(load)"] = [({}, "1")]
    wanted = "sources.prometheus.node_label is instance, and no series has this label: sum by (instance) in a query keeps it"
    assert read(server, Expression("sum(load)")).problems == [wanted]


def test_a_missing_node_label_is_named_also_if_another_label_tells_the_node(server: Server) -> None:
    server.put("received", "1", 7, instance="10.9.9.9:9100")
    server.vectors["node_uname_info"] = [({"instance": "10.9.9.9:9100", "nodename": "a"}, "1")]
    readings = source_of(server, node_label="node").read([RECEIVED], NODES)
    assert list(readings.values[RECEIVED]) == ["a"]
    assert readings.problems == ["sources.prometheus.node_label is node, and no series has this label: they have instance, nodename"]


def test_the_age_does_not_depend_on_the_clock_of_this_machine(server: Server) -> None:
    server.now_s = 1_000.0  # decades before this machine's clock
    server.put("received", "1", 30, instance="a")
    assert read(server, RECEIVED).values[RECEIVED]["a"][0].measured_at_s == NOW_S - 30


def test_a_sample_from_the_future_is_used_only_if_it_is_less_than_a_minute_early(server: Server) -> None:
    expression = Expression("free", "received")
    server.put("received", "1", -3, instance="a")
    server.put("received", "1", -61, instance="b")
    server.vectors["free"] = [({"instance": "a"}, "1"), ({"instance": "b"}, "1")]
    server.vectors["max by (instance) (timestamp(received))"] = server.vectors["timestamp(received)"]
    readings = read(server, RECEIVED, expression)
    for query in (RECEIVED, expression):
        assert {node: [one.measured_at_s for one in found] for node, found in readings.values[query].items()} == {"a": [NOW_S]}
    assert len(readings.problems) == 2 and "1 series of timestamp(received) are not used" in readings.problems[1]


def test_a_rate_whose_raw_series_has_ended_is_not_used(server: Server) -> None:
    """The exporter is down: its rate has a value until the end of the window."""
    server.put("received", "1", 5, instance="a")
    server.put("received", "2", 5, instance="b")
    server.vectors["timestamp(received)"].pop()
    assert list(read(server, RECEIVED).values[RECEIVED]) == ["a"]


def test_series_of_several_devices_stay_separate(server: Server) -> None:
    for device in ("eth0", "eth1"):
        server.put("received", "1", 5, instance="a", device=device)
    assert [series.labels["device"] for series in read(server, RECEIVED).values[RECEIVED]["a"]] == ["eth0", "eth1"]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "none"])
def test_a_value_that_is_no_finite_number_is_unknown(server: Server, value: str) -> None:
    server.put("received", value, 5, instance="a")
    server.put("received", "2", 5, instance="b")
    assert list(read(server, RECEIVED).values[RECEIVED]) == ["b"]


def test_of_two_series_that_measure_the_same_one_is_used_and_the_other_is_listed(server: Server) -> None:
    server.put("received", "1", 5, instance="10.0.0.1:9100", job="node", device="eth0")
    server.put("received", "9", 5, instance="10.0.0.1:9100", job="second", device="eth0")
    readings = read(server, RECEIVED)
    assert [series.value for series in readings.values[RECEIVED]["a"]] == [1.0]
    (listed,) = readings.unmapped
    assert listed.labels["job"] == "second" and "another series of the node a measures the same" in listed.why


def test_of_two_series_that_measure_the_same_a_much_newer_one_is_used(server: Server) -> None:
    server.put("received", "1", 200, instance="a", job="node")
    server.put("received", "9", 5, instance="a", job="second")
    assert [series.value for series in read(server, RECEIVED).values[RECEIVED]["a"]] == [9.0]


@pytest.mark.parametrize("weak_first", [False, True])
@pytest.mark.parametrize("device", ["eth0", "eth7"])
def test_a_scraped_pod_that_names_a_node_does_not_change_its_values(server: Server, device: str, weak_first: bool) -> None:
    genuine, forged = ("1", 200, "10.0.0.1:9100", "eth0"), ("9", 0, "10.244.1.7:9100", device)
    for value, age_s, instance, name in (forged, genuine) if weak_first else (genuine, forged):
        server.put("received", value, age_s, instance=instance, device=name)
    server.vectors["node_uname_info"] = [({"instance": "10.244.1.7:9100", "nodename": "a"}, "1")]
    query = Expression("x", "received")
    server.vectors["x"] = [({"instance": "10.0.0.1:9100"}, "1")]
    server.vectors["max by (instance) (timestamp(received))"] = server.vectors["timestamp(received)"]
    readings = read(server, RECEIVED, query)
    for asked in (RECEIVED, query):
        assert [(one.value, one.measured_at_s) for one in readings.values[asked]["a"]] == [(1.0, NOW_S - 200)]
    (listed,) = readings.unmapped
    assert listed.labels["instance"] == "10.244.1.7:9100" and "the node a in its own label " in listed.why


def test_the_selector_of_the_settings_is_asked_for(server: Server) -> None:
    server.vectors['rate(received{job="node"}[60s])'] = [({"instance": "10.9.9.9:9100"}, "1")]
    source_of(server, selector='job="node"').read([RECEIVED], NODES)
    assert server.asked == ['rate(received{job="node"}[60s])', 'timestamp(received{job="node"})', 'node_uname_info{job="node"}']


def test_a_series_of_no_node_is_counted_and_listed(server: Server) -> None:
    server.put("received", "1", 5, instance="10.0.0.9:9100")
    server.put("received", "1", 5, device="eth0")
    readings = read(server, RECEIVED)
    assert readings.unmapped_count == 2
    assert [(one.source, one.query) for one in readings.unmapped] == [("prometheus", RECEIVED)] * 2
    first, second = (one.why for one in readings.unmapped)
    assert first.endswith("instance '10.0.0.9:9100'") and "no label instance" in second


def test_the_list_of_unmapped_series_is_bounded_and_the_count_is_not(server: Server) -> None:
    for number in range(600):
        server.put("received", "1", 5, instance=f"other-{number}")
    readings = read(server, RECEIVED)
    assert (len(readings.unmapped), readings.unmapped_count) == (500, 600)


def test_a_gauge_is_asked_without_its_name_so_that_its_labels_equal_those_of_its_time(server: Server) -> None:
    server.vectors["speed + 0"] = [({"instance": "a"}, "125000000")]
    server.vectors["timestamp(speed)"] = [({"instance": "a"}, str(server.now_s - 4))]
    assert read(server, Gauge("speed")).values[Gauge("speed")]["a"] == (Series({"instance": "a"}, 125e6, NOW_S - 4),)


def test_an_expression_has_the_newest_time_of_the_raw_series_of_its_node(server: Server) -> None:
    query = Expression("avg by (instance) (x)", "x")
    server.vectors[query.promql] = [({"instance": "10.0.0.1:9100"}, "0.5"), ({"instance": "b"}, "0.6")]
    times = [({"instance": "10.0.0.1:9100"}, str(server.now_s - 9)), ({"instance": "a"}, str(server.now_s - 6))]
    server.vectors["max by (instance) (timestamp(x))"] = times
    # The node b has no raw series any more.
    assert read(server, query).values == {query: {"a": (Series({"instance": "10.0.0.1:9100"}, 0.5, NOW_S - 6),)}}


def test_an_expression_without_a_selector_has_no_age(server: Server) -> None:
    server.vectors["x"] = [({"instance": "a"}, "1")]
    assert read(server, Expression("x")).values[Expression("x")]["a"][0].measured_at_s is None
    assert server.asked == ["x"]


def test_queries_with_the_same_metric_ask_for_its_times_once(server: Server) -> None:
    server.put("received", "1", 5, instance="a")
    read(server, RECEIVED, Rate("received", 300))
    assert server.asked == ["rate(received[60s])", "timestamp(received)", "rate(received[300s])"]


def test_host_names_of_node_uname_info_map_the_instances_that_no_other_rule_maps(server: Server) -> None:
    server.put("received", "1", 5, instance="10.9.9.9:9100")
    server.vectors["node_uname_info"] = [({"instance": "10.9.9.9:9100", "nodename": "b.example.com"}, "1")]
    source = source_of(server)
    for _refresh in range(2):
        assert list(source.read([RECEIVED], NODES).values[RECEIVED]) == ["b"]
    assert server.asked.count("node_uname_info") == 1


@pytest.mark.parametrize(
    ("instance", "selector", "warns"),
    [("10.9.9.9:9100", "", True), ("10.9.9.9:9100", 'job="node"', False), ("10.0.0.2:9100", "", False)],
    ids=["any pod", "selected", "own address"],
)
def test_without_a_selector_a_node_that_only_node_uname_info_names_is_a_warning(
    server: Server, instance: str, selector: str, warns: bool
) -> None:
    matchers = f"{{{selector}}}" if selector else ""
    server.put("received", "1", 5, instance=instance)
    server.put("received", "1", 5, instance="10.9.9.8:9100")
    for name in list(server.vectors):
        server.vectors[name.replace("received", f"received{matchers}")] = server.vectors[name]
    server.vectors[f"node_uname_info{matchers}"] = [({"instance": instance, "nodename": "b"}, "1")]
    found: list[str] = []
    settings = PrometheusSettings((server.url,), timeout_s=2.0, selector=selector)
    source = PrometheusSource(settings, on_warning=found.append, clock=lambda: NOW_S)
    assert list(source.read([RECEIVED], NODES).values[RECEIVED]) == ["b"]
    assert [text.partition(",")[0] for text in found] == (["sources.prometheus has no selector"] if warns else [])


def test_without_a_list_of_nodes_an_ip_address_is_replaced_by_the_host_name(server: Server) -> None:
    server.put("received", "1", 5, instance="10.0.0.7:9100")
    server.put("received", "1", 5, instance="worker-8:9100")
    server.vectors["node_uname_info"] = [
        ({"instance": "10.0.0.7:9100", "nodename": "worker-7"}, "1"),
        ({"instance": "worker-8:9100", "nodename": "worker-8.example.com"}, "1"),
    ]
    assert sorted(read(server, RECEIVED, nodes=None).values[RECEIVED]) == ["worker-7", "worker-8"]


def test_label_sets_that_are_no_longer_used_are_removed(server: Server) -> None:
    source = source_of(server)
    for number in range(10):
        server.vectors.clear()
        server.put("received", "1", 5, instance=f"pod-{number}")
        source.read([RECEIVED], NODES)
    assert len(source._label_sets.known) <= 5


def test_the_second_server_is_asked_when_the_first_fails_and_stays_the_first(new_server: Callable[[], Server]) -> None:
    one, two = new_server(), new_server()
    for server in (one, two):
        server.put("received", "1", 5, instance="a")
    one.fault = status(503)
    source = source_of(one, two)
    assert source.read([RECEIVED], NODES).values[RECEIVED]
    one.asked.clear()
    assert source.read([RECEIVED], NODES).values[RECEIVED]
    assert not one.asked


def test_a_server_that_is_down_is_replaced_by_the_other_one(new_server: Callable[[], Server]) -> None:
    one, two = new_server(), new_server()
    two.put("received", "1", 5, instance="a")
    one.stop()
    readings = source_of(one, two).read([RECEIVED], NODES)
    assert list(readings.values[RECEIVED]) == ["a"] and not readings.problems


def test_a_server_without_data_is_replaced_by_one_that_has_them(new_server: Callable[[], Server]) -> None:
    empty, full = new_server(), new_server()
    full.put("received", "1", 5, instance="a")
    source = source_of(empty, full)
    assert list(source.read([RECEIVED], NODES).values[RECEIVED]) == ["a"]
    empty.asked.clear()
    assert list(source.read([RECEIVED], NODES).values[RECEIVED]) == ["a"]
    assert not empty.asked


@pytest.mark.parametrize("second_is_down", [False, True])
def test_without_data_on_any_server_the_values_are_empty(new_server: Callable[[], Server], second_is_down: bool) -> None:
    one, two = new_server(), new_server()
    if second_is_down:
        two.fault = status(503)
    readings = source_of(one, two).read([RECEIVED], NODES)
    assert readings.values == {RECEIVED: {}} and not readings.problems


def test_a_token_is_sent_and_not_shown(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("very-secret-token\n")
    source = source_of(server, bearer_token_file=str(token))
    server.fault = status(500, "the token very-secret-token is odd")
    (problem,) = source.read([RECEIVED], NODES).problems
    assert server.credentials == ["Bearer very-secret-token"] and "very-secret-token" not in problem


def test_basic_auth_is_sent_and_a_missing_file_is_a_problem_of_one_refresh(server: Server, tmp_path: Path) -> None:
    password = tmp_path / "password"
    source = source_of(server, basic_auth=BasicAuth("user", str(password)))
    (problem,) = source.read([RECEIVED], NODES).problems
    assert str(password) in problem and not server.asked
    password.write_text("pass\n")
    assert not source.read([RECEIVED], NODES).problems
    assert server.credentials[0] == "Basic dXNlcjpwYXNz"


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://user:secret@login.example:8443/secret?token=secret#secret", "redirects to https://login.example:8443:"),
        ("/secret?token=secret", "redirects to another path:"),
        ("https://login.example:secret/", "redirects to a location that is not valid:"),
        ("//[secret", "redirects to a location that is not valid:"),
    ],
)
def test_a_redirect_shows_no_secret(server: Server, location: str, shown: str) -> None:
    server.fault = redirect_to(location)
    (problem,) = read(server, RECEIVED).problems
    assert shown in problem and "secret" not in problem


def test_a_redirect_is_not_followed(server: Server, tmp_path: Path) -> None:
    """A login page would get the token."""
    server.fault = redirect_to("https://login.example/")
    (problem,) = read(server, RECEIVED).problems
    assert "redirects to https://login.example:" in problem
