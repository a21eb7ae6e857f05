# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One exporter with too many series, or with too long labels, takes nothing from the other nodes."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.memory_limits import answer_bytes
from ansible_collections.onprem.kube_scheduling.services.extender.sources.node_mapping import NodeIdentity, NodeTable
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import PrometheusSettings

from tests.unit.services.extender.sources.prometheus_server import Handler, Server, answer_data

RECEIVED = Rate("received", 60)
NODES = NodeTable([NodeIdentity("a"), NodeIdentity("hostile"), NodeIdentity("z")])
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
    assert len(source._label_sets) <= 5 * 1024 + 2 and len(source._label_sets._texts) <= 5 * 1024 + 8


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


def crowded_of(query: str) -> str:
    return f"count by (instance) ({query}) > 1024"


def test_a_server_leaves_out_the_targets_with_too_many_series_if_its_answer_is_too_large(server: Server) -> None:
    expose(server, range(20_000))
    for query in QUERIES:
        rows = server.vectors[query]
        server.vectors[crowded_of(query)] = [({"instance": "hostile"}, "20000")]
        server.vectors[f"({query}) unless on (instance) ({crowded_of(query)})"] = [rows[0], rows[-1]]
    readings = source_of(server).read([RECEIVED], NODES)
    assert list(readings.values[RECEIVED]) == ["a", "z"] and readings.error == TOO_MANY


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
