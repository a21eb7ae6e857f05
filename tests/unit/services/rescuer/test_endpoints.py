# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the endpoints say over a real socket."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.rescuer.address import Address, parse_address
from ansible_collections.onprem.kube_scheduling.services.rescuer.endpoints import Endpoints
from ansible_collections.onprem.kube_scheduling.services.rescuer.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.rescuer.watchdog import STANDS_STILL_AFTER_S, Watchdog
from prometheus_client.parser import text_string_to_metric_families


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Served:
    def __init__(self, address: Address) -> None:
        self.clock = Clock()
        self.watchdog = Watchdog(self.clock)
        self.metrics = Metrics()
        self.endpoints = Endpoints(address, self.metrics.registry, self.watchdog)

    def ask(self, path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, str]:
        connection = http.client.HTTPConnection(host, self.endpoints.address.port, timeout=5)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served(Address("127.0.0.1", 0))
    yield found
    found.endpoints.close()


def test_healthy_but_not_ready_before_the_first_look(served: Served) -> None:
    assert served.ask("/healthz") == (200, "ok\n")
    assert served.ask("/readyz") == (503, "it has not started yet\n")


def test_ready_while_nothing_keeps_it_from_its_work(served: Served) -> None:
    served.watchdog.show([])
    assert served.ask("/readyz") == (200, "ok\n")
    served.watchdog.show(["pods: no answer", "nodes: no answer"])
    assert served.ask("/readyz") == (503, "pods: no answer; nodes: no answer\n")
    assert served.ask("/healthz") == (200, "ok\n")


def test_unhealthy_once_the_loop_has_stood_still_for_a_minute(served: Served) -> None:
    served.watchdog.show([])
    served.clock.now_s += STANDS_STILL_AFTER_S
    assert served.ask("/healthz")[0] == 200
    served.clock.now_s += 1
    assert served.ask("/healthz") == (503, "the loop has stood still for 61 s\n")
    assert served.ask("/readyz")[0] == 503
    served.watchdog.beat()
    assert served.ask("/healthz")[0] == 200


def test_metrics_can_be_parsed(served: Served) -> None:
    served.metrics.evictions.inc(2)
    status, text = served.ask("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert status == 200
    assert families["kube_scheduling_rescue_evictions"].samples[0].value == 2
    own = {name.removeprefix("kube_scheduling_rescue_") for name in families if name.startswith("kube_scheduling_rescue_")}
    assert own >= {"pending_critical_pods", "rescues", "evictions", "unschedulable_to_bound_seconds", "holds", "leader"}
    assert own >= {"planning_seconds", "troubles"}


def test_what_is_not_there(served: Served) -> None:
    assert served.ask("/")[0] == 404
    assert served.ask("/metrics", "POST")[0] == 405
    assert served.ask("/healthz", "HEAD") == (200, "")


def test_a_silent_client_keeps_nobody_from_an_answer(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.endpoints.address.port)):
        assert served.ask("/healthz")[0] == 200


def test_an_address_that_is_taken(served: Served) -> None:
    with pytest.raises(OSError, match="in use"):
        Endpoints(served.endpoints.address, served.metrics.registry, served.watchdog)


def test_all_addresses() -> None:
    served = Served(Address("", 0))
    try:
        hosts = ["127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])]
        assert [served.ask("/healthz", host=host)[0] for host in hosts] == [200] * len(hosts)
    finally:
        served.endpoints.close()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:9235", "127.0.0.1", 9235), (":1", "", 1), ("[::1]:80", "::1", 80), ("localhost:0", "localhost", 0)],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)
    assert str(parse_address(text)) == text


@pytest.mark.parametrize("text", ["9235", "host", "host:", "::1:80", "host:65536", "a b:80", "[::1]"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="listen_address"):
        parse_address(text)
