# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A source that knows the series of the last refresh returns the same as a new one."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Callable

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Gauge, Query, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NodeIdentity
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus import answer, client
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import PrometheusSettings
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import Readings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.sources.cluster_nodes import nodes_of
from tests.unit.services.extender.sources.prometheus_server import NOW_S, Labels, Server

RECEIVED, SPEED, FREE, AGELESS = Rate("received", 60), Gauge("speed"), Expression("free", "raw"), Expression("load")
QUERIES: tuple[Query, ...] = (RECEIVED, SPEED, FREE, AGELESS)
VALUES = {"rate(received[60s])": "received", "speed + 0": "speed", "free": "free", "load": "free"}
"""The metric behind the values of each query, and behind the times."""
TIMES = {"timestamp(received)": "received", "timestamp(speed)": "speed", "max by (instance) (timestamp(raw))": "free"}

TABLES = [nodes_of(*map(NodeIdentity, names)) for names in ("abc", "cab", "ab")] + [None]

Row = tuple[Labels, str, float]
"""Labels, value, and age in seconds."""
Cluster = dict[str, list[Row]]

ROWS: st.SearchStrategy[Row] = st.tuples(
    # Node d is in no table. Two jobs read the same exporter. The host name of another instance can be that of a node.
    st.fixed_dictionaries({"instance": st.sampled_from(["a:1", "b:1", "c:1", "d:1", "a", "b.example:1"]), "job": st.sampled_from("xxy")})
    | st.fixed_dictionaries({"instance": st.sampled_from(["a:1", "b:1", "c:1"]), "device": st.sampled_from("pq")}),
    st.sampled_from(["1", "2.5", "-3e2", "1e400", "NaN", "+Inf", "0"]),
    st.sampled_from([5.0, 7.5, 100.0, -20.0]),
)


def _distinct(rows: list[Row]) -> list[Row]:
    """Return the rows without those whose labels another one has. Prometheus returns no such rows."""
    return list({str(sorted(row[0].items())): row for row in rows}.values())


CLUSTERS = st.fixed_dictionaries({name: st.lists(ROWS, max_size=12).map(_distinct) for name in ("received", "speed", "free")})
CHANGES = st.sampled_from(["values", "values", "ages", "future", "order", "remove", "add", "labels", "table", "times"])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "PART_BYTES", 100)


def changed(cluster: Cluster, change: str, numbers: random.Random) -> Cluster:
    """Return the cluster with one change in each metric."""
    found = {}
    for name, rows in cluster.items():
        new = list(rows)
        place = numbers.randrange(len(new) + 1)
        if change == "values":
            new = [(labels, str(numbers.uniform(-1e9, 1e9)), age_s) for labels, _value, age_s in new]
        elif change in ("ages", "future"):
            ages = [1.0, 100.0] if change == "ages" else [1.0, -100.0]
            new = [(labels, value, numbers.choice(ages)) for labels, value, _age_s in new]
        elif change == "order":
            numbers.shuffle(new)
        elif change == "remove":
            del new[place : place + 1]
        elif change == "add":
            new.insert(place, ({"instance": f"{numbers.choice('abcd')}:1", "job": "new"}, "4", 5.0))
        elif change == "labels" and new:
            labels, value, age_s = new.pop()
            new.insert(place, ({**labels, "instance": f"{numbers.choice('abcd')}:1"}, value, age_s))
        found[name] = _distinct(new)
    return found


def fill(server: Server, cluster: Cluster, change: str) -> None:
    """Let the server answer with these rows."""
    for text, name in VALUES.items():
        server.vectors[text] = [(labels, value) for labels, value, _age_s in cluster[name]]
    for text, name in TIMES.items():
        times = [(labels, str(NOW_S - age_s)) for labels, _value, age_s in cluster[name]]
        server.vectors[text] = times[1:][::-1] if change == "times" else times
    server.vectors["node_uname_info"] = [({"instance": "d:1", "nodename": "c"}, "1")]


def source_of(server: Server) -> PrometheusSource:
    return PrometheusSource(PrometheusSettings((server.url,), timeout_s=5.0), clock=lambda: 5000.0)


def shown(readings: Readings) -> tuple[t.Any, ...]:
    """Return everything that a refresh has found, with the series of each node in their order."""
    values = {query: {node: tuple(of_node) for node, of_node in by_node.items()} for query, by_node in readings.values.items()}
    return values, readings.unmapped, readings.problems


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CLUSTERS, st.lists(CHANGES, min_size=2, max_size=5), st.integers(0, 10**6))
def test_a_source_that_knows_the_last_refresh_returns_the_same_as_a_new_one(
    server: Server, cluster: Cluster, changes: list[str], seed: int
) -> None:
    numbers, kept, table = random.Random(seed), source_of(server), TABLES[0]
    for change in ("", *changes):
        cluster = changed(cluster, change, numbers)
        table = numbers.choice(TABLES) if change == "table" else table
        fill(server, cluster, change)
        # The second source does not know the host names that the first one has read in the refreshes before.
        found = shown(kept.read(QUERIES, table))
        new = source_of(server)
        new.read(QUERIES, table)
        assert found == shown(new.read(QUERIES, table))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return the number of parts that were decoded as a whole since the last call."""
    calls: list[None] = []
    decode = client.decode_samples

    def counted(part: bytes) -> t.Any:
        calls.append(None)
        return decode(part)

    def number() -> int:
        found = len(calls)
        calls.clear()
        return found

    monkeypatch.setattr(client, "decode_samples", counted)
    return number


ROWS_OF_NODES: list[Row] = [({"instance": f"{node}:1", "device": device}, "1", 5.0) for node in "abcd" for device in "pq"]


def test_only_values_and_times_are_decoded_of_known_series(server: Server, decoded: Callable[[], int]) -> None:
    cluster: Cluster = {"received": ROWS_OF_NODES, "speed": ROWS_OF_NODES, "free": ROWS_OF_NODES[::2]}
    source, numbers = source_of(server), random.Random(1)
    fill(server, cluster, "")
    source.read(QUERIES, TABLES[0])
    decoded()
    for change in ("values", "order", "remove"):
        cluster = changed(cluster, change, numbers)
        fill(server, cluster, "")
        readings = source.read(QUERIES, TABLES[0])
        assert decoded() == 0
        expected = {labels["device"]: float(value) for labels, value, _age_s in cluster["received"] if labels["instance"] == "a:1"}
        assert {one.labels["device"]: one.value for one in readings.values[RECEIVED]["a"]} == expected


def test_queries_and_refreshes_with_the_same_series_share_their_layout(server: Server) -> None:
    other, source = Rate("received", 300), source_of(server)
    fill(server, {"received": ROWS_OF_NODES, "speed": [], "free": []}, "")
    server.vectors["rate(received[300s])"] = server.vectors["rate(received[60s])"]
    layouts = {id(source.read([RECEIVED, other], TABLES[0]).values[query]._labels) for query in (RECEIVED, other) for _refresh in range(2)}
    assert len(layouts) == 1


def test_a_row_that_is_no_number_costs_only_its_part(server: Server, decoded: Callable[[], int]) -> None:
    nan = [(labels, "NaN" if number == 3 else value, age_s) for number, (labels, value, age_s) in enumerate(ROWS_OF_NODES)]
    fill(server, {"received": nan, "speed": ROWS_OF_NODES, "free": []}, "")
    source = source_of(server)
    for _refresh in range(3):
        decoded()
        assert len(source.read([RECEIVED], TABLES[0]).values[RECEIVED]["b"]) == 1
    assert decoded() == 1


def test_the_newer_of_two_series_is_used_also_if_it_was_the_older_one_before(server: Server) -> None:
    jobs = [{"instance": f"a:{number}", "job": "x"} for number in range(2)]
    source = source_of(server)
    for newer in (0, 1, 0):
        rows: list[Row] = [(labels, str(number), 5.0 if number == newer else 90.0) for number, labels in enumerate(jobs)]
        fill(server, {"received": rows, "speed": [], "free": []}, "")
        (found,) = source.read([RECEIVED], TABLES[0]).values[RECEIVED]["a"]
        assert (found.value, found.measured_at_s) == (newer, 4995.0)


def test_a_result_has_the_newest_time_of_its_node_in_each_refresh(server: Server) -> None:
    source = source_of(server)
    for ages_s in ((5.0, 9.0), (9.0, 5.0), (7.0, 5.0)):
        server.vectors["free"] = [({"instance": "a:1"}, "1")]
        server.vectors["max by (instance) (timestamp(raw))"] = [
            ({"instance": f"a:{number}"}, str(NOW_S - age_s)) for number, age_s in enumerate(ages_s)
        ]
        assert source.read([FREE], TABLES[0]).values[FREE]["a"][0].measured_at_s == 4995.0


def test_a_series_without_a_time_is_not_used_any_more(server: Server) -> None:
    source = source_of(server)
    for age_s, nodes in ((5.0, 3), (-100.0, 2), (5.0, 3)):
        rows: list[Row] = [({"instance": f"{node}:1"}, "1", age_s if node == "b" else 5.0) for node in "abc"]
        fill(server, {"received": rows, "speed": [], "free": []}, "")
        assert len(source.read([RECEIVED], TABLES[0]).values[RECEIVED]) == nodes


def test_host_names_that_have_changed_change_the_nodes_of_known_rows(server: Server) -> None:
    source = source_of(server)
    fill(server, {"received": [({"instance": "10.0.0.9:1"}, "1", 5.0)], "speed": [], "free": []}, "")
    for node in "abb":
        server.vectors["node_uname_info"] = [({"instance": "10.0.0.9:1", "nodename": node}, "1")]
        # The second query needs the host name of an instance that no query has had before.
        server.vectors["load"] = [({"instance": f"10.0.0.{ord(node)}:1"}, "1")]
        server.vectors["node_uname_info"].append(({"instance": f"10.0.0.{ord(node)}:1", "nodename": "c"}, "1"))
        source.read([AGELESS, RECEIVED], TABLES[0])
        assert list(source.read([AGELESS, RECEIVED], TABLES[0]).values[RECEIVED]) == [node]


def test_host_names_are_read_for_known_rows_whose_node_has_gone(server: Server) -> None:
    source = source_of(server)
    fill(server, {"received": [], "speed": [], "free": [({"instance": "c:1"}, "1", 5.0)]}, "")
    server.vectors["node_uname_info"] = [({"instance": "c:1", "nodename": "b"}, "1")]
    assert [list(source.read([AGELESS], nodes_of(*map(NodeIdentity, names))).values[AGELESS]) for names in ("abc", "ab")] == [["c"], ["b"]]


def test_host_names_are_read_in_each_refresh_until_the_nodes_of_the_times_are_known(server: Server) -> None:
    source = source_of(server)
    server.vectors["free"] = [({"instance": "a:1"}, "1")]
    server.vectors["max by (instance) (timestamp(raw))"] = [({"instance": "10.0.0.9:1"}, str(NOW_S - 5))]
    assert not source.read([FREE], TABLES[0]).values[FREE]
    server.vectors["node_uname_info"] = [({"instance": "10.0.0.9:1", "nodename": "a"}, "1")]
    assert source.read([FREE], TABLES[0]).values[FREE]["a"][0].measured_at_s == 4995.0


def test_a_series_that_has_ended_is_not_used_because_another_query_has_no_times(server: Server) -> None:
    source = source_of(server)
    server.vectors["free"] = server.vectors["load"] = [({"instance": "a:1"}, "1")]
    for _refresh in range(2):
        found = source.read([AGELESS, FREE], TABLES[0]).values
        assert list(found[AGELESS]) == ["a"] and not found[FREE]
