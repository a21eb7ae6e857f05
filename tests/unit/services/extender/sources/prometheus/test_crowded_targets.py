# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One exporter with too many series, or with too long labels, takes nothing from the other nodes."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.memory_limits import answer_bytes
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NodeIdentity
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import PrometheusSettings

from tests.unit.services.extender.sources.cluster_nodes import nodes_of
from tests.unit.services.extender.sources.prometheus_server import Handler, Server, answer_data

RECEIVED = Rate("received", 60)
NODES = nodes_of(NodeIdentity("a"), NodeIdentity("hostile"), NodeIdentity("z"))
QUERIES = ("rate(received[60s])", "timestamp(received)")
TOO_MANY = "node hostile has no values of received: it has more than 1024 series"


def source_of(server: Server, **changes: int) -> PrometheusSource:
    return PrometheusSource(PrometheusSettings((server.url,), timeout_s=60.0, **changes))


def expose(server: Server, devices: range, *, start: str = "eth", **labels: str) -> None:
    """Replace all series: one of the nodes a and z, and one for each of the devices of the node hostile."""
    server.vectors.clear()
    server.put("received", "1", 3, instance="a", device="eth0")
    for number in devices:
        server.put("received", "2", 3, instance="hostile", device=f"{start}{number}", **labels)
    server.put("received", "3", 3, instance="z", device="eth0")


def test_a_node_may_have_1024_series_and_is_unknown_with_more(server: Server) -> None:
    source = source_of(server)
    expose(server, range(1024))
    known = source.read([RECEIVED], NODES)
    assert len(known.values[RECEIVED]["hostile"]) == 1024 and not known.problems
    expose(server, range(1025))
    crowded = source.read([RECEIVED], NODES)
    assert list(crowded.values[RECEIVED]) == ["a", "z"] and crowded.error == TOO_MANY
    expose(server, range(3))
    again = source.read([RECEIVED], NODES)
    assert len(again.values[RECEIVED]["hostile"]) == 3 and not again.problems


def test_rows_of_the_last_answer_count_too(server: Server) -> None:
    """The parts of an answer that have not changed are not decoded again."""
    source = source_of(server)
    expose(server, range(1000))
    assert not source.read([RECEIVED], NODES).problems
    expose(server, range(1100))
    assert source.read([RECEIVED], NODES).error == TOO_MANY


def test_label_sets_beyond_the_limit_are_not_kept(server: Server) -> None:
    source = source_of(server)
    for refresh in range(8):
        expose(server, range(3000), start=f"e{refresh}x")
        source.read([RECEIVED], NODES)
    assert len(source._label_sets.known) <= 5 * 1024 + 2 and len(source._label_sets._parts) <= 5 * 1024 + 8


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"alias": "x" * 513}, "a value of the label alias has more than 512 characters"),
        ({f"alias{number}": "x" * 500 for number in range(9)}, "the labels of a series have more than 4096 bytes"),
    ],
)
def test_a_node_with_too_long_labels_is_unknown(server: Server, labels: dict[str, str], why: str) -> None:
    expose(server, range(1), **labels)
    readings = source_of(server).read([RECEIVED], NODES)
    assert list(readings.values[RECEIVED]) == ["a", "z"] and readings.error == f"node hostile has no values of received: {why}"


def test_series_without_a_node_are_limited_too(server: Server) -> None:
    server.vectors["load"] = [({"instance": "a"}, "1"), *(({"device": f"eth{number}"}, "1") for number in range(2000))]
    readings = source_of(server).read([Expression("load")], NODES)
    assert list(readings.values[Expression("load")]) == ["a"]
    assert readings.error == "instance '' has no values of load: it has more than 1024 series"


def test_the_limit_of_an_answer_grows_with_the_nodes() -> None:
    assert [answer_bytes(nodes) / 2**20 for nodes in (0, 16, 160, 10_000, None)] == [1, 2, 11, 32, 32]


def prometheus(handler: Handler) -> None:
    """Answer also the queries about targets. ``tests/integration/extender/test_large_answers.py`` asks the real Prometheus."""
    server, query = handler.server, handler.server.asked[-1]
    counted = re.fullmatch(r"count by \(instance\) \((.*)\)", query)
    part = re.fullmatch(r"\((.*?)\) unless on .*, (\".*\")\)", query)
    if counted:
        numbers = Counter(labels["instance"] for labels, _value in server.vectors[counted[1]])
        server.vectors[query] = [({"instance": instance}, str(number)) for instance, number in numbers.items()]
    if part:
        wanted = re.compile(json.loads(part[2]))
        server.vectors[query] = [row for row in server.vectors[part[1]] if wanted.fullmatch(row[0]["instance"])]
    answer_data(handler)


def expose_pods(server: Server, number: int) -> None:
    """Add pods of a tenant with 1,000 series each."""
    expose(server, range(1))
    for pod, device in itertools.product(range(number), range(1000)):
        server.put("received", "2", 3, instance=f"10.244.1.{pod}:8080", device=f"eth{device}", pod="x" * 150)


@pytest.mark.parametrize(
    ("devices", "labels", "why"),
    [
        (20_000, {}, "it has more than 1024 series"),
        (1000, {f"label{number}": "x" * 500 for number in range(6)}, "an answer with its series is larger than the limit"),
        (3, {"alias": "x" * 2_000_000}, "an answer with its series is larger than the limit"),
    ],
)
@pytest.mark.parametrize("others", [2, 50])
def test_a_target_that_makes_an_answer_too_large_takes_no_values(
    server: Server, devices: int, labels: dict[str, str], why: str, others: int
) -> None:
    server.fault = prometheus
    expose(server, range(devices), **labels)
    names = ["a", "z", *(f"n{number}" for number in range(others - 2))]
    for name in names[2:]:
        server.put("received", "4", 3, instance=name, device="eth0")
    source, nodes = source_of(server, max_answer_bytes=80_000), nodes_of(*map(NodeIdentity, (*names, "hostile")))
    readings = source.read([RECEIVED], nodes)
    assert sorted(readings.values[RECEIVED]) == sorted(names)
    assert set(readings.problems) == {f"node hostile has no values of received: {why}"}
    asked = len(server.asked)
    assert source.read([RECEIVED], nodes).values[RECEIVED].keys() == readings.values[RECEIVED].keys()
    assert len(server.asked) - asked <= 8  # the query, the number of series, the others, and the suspect; and again for the times


@pytest.mark.parametrize("pods", [8, 40])
def test_pods_of_a_tenant_take_no_values_of_nodes(server: Server, pods: int) -> None:
    server.fault = prometheus
    expose_pods(server, pods)
    readings = source_of(server).read([RECEIVED], NODES)
    assert sorted(readings.values[RECEIVED]) == ["a", "hostile", "z"]
    texts = "an answer with its series is larger than the limit", "instance '10.244.1."
    assert all(text in problem for problem in readings.problems for text in texts) and readings.problems


def test_a_larger_answer_is_read_if_the_settings_permit_it(server: Server) -> None:
    expose(server, range(20_000))
    readings = source_of(server, max_answer_bytes=2**24).read([RECEIVED], NODES)
    assert list(readings.values[RECEIVED]) == ["a", "z"] and server.asked == list(QUERIES)


def test_a_large_answer_without_a_crowded_target_is_an_error(server: Server) -> None:
    def fault(handler: Handler) -> None:
        if handler.server.asked[-1].startswith("count by"):
            return handler.reply_json(400, {"status": "error", "error": "expected an instant vector"})
        return answer_data(handler)

    expose(server, range(20_000))
    for fault_of in (answer_data, fault):
        server.fault = fault_of
        readings = source_of(server).read([RECEIVED], NODES)
        assert not readings.values and "has more than 1245184 bytes: raise max_answer_bytes, or select less" in readings.error
