# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoints serve health and metrics over a real socket, and limit requests and connections."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.addresses import Address, parse_address
from ansible_collections.onprem.kube_scheduling.services.common.health import UNHEALTHY_AFTER_S, Health
from ansible_collections.onprem.kube_scheduling.services.common.http import connection
from ansible_collections.onprem.kube_scheduling.services.common.http.endpoints import Endpoints
from ansible_collections.onprem.kube_scheduling.services.common.http.limits import HEAD_S, MAX_OF_ADDRESS
from ansible_collections.onprem.kube_scheduling.services.rescuer.metrics import Metrics
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tests.unit.services.common.crowd import crowd_of
from tests.unit.support.clock import SetClock


class Served:
    def __init__(self, address: Address, *, head_s: float = HEAD_S) -> None:
        self.clock = SetClock()
        self.health = Health(self.clock)
        self.metrics = Metrics()
        self.endpoints = Endpoints(address, self.metrics.registry, self.health, head_s=head_s)

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


def test_healthy_but_not_ready_before_the_first_check(served: Served) -> None:
    assert served.ask("/healthz") == (200, "ok\n")
    assert served.ask("/readyz") == (503, "it has not started yet\n")


def test_ready_while_nothing_keeps_it_from_its_work(served: Served) -> None:
    served.health.set_unready([])
    assert served.ask("/readyz") == (200, "ok\n")
    served.health.set_unready(["pods: no answer", "nodes: no answer"])
    assert served.ask("/readyz") == (503, "pods: no answer; nodes: no answer\n")
    assert served.ask("/healthz") == (200, "ok\n")


def test_unhealthy_if_the_loop_has_not_run_for_more_than_a_minute(served: Served) -> None:
    served.health.set_unready([])
    served.clock.now_s += UNHEALTHY_AFTER_S
    assert served.ask("/healthz")[0] == 200
    served.clock.now_s += 1
    assert served.ask("/healthz") == (503, "the loop has not run for 61 s\n")
    assert served.ask("/readyz")[0] == 503
    served.health.heartbeat()
    assert served.ask("/healthz")[0] == 200


def test_metrics_can_be_parsed(served: Served) -> None:
    served.metrics.evictions.inc(2)
    status, text = served.ask("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert status == 200
    assert families["kube_scheduling_rescue_evictions"].samples[0].value == 2
    own = {name.removeprefix("kube_scheduling_rescue_") for name in families if name.startswith("kube_scheduling_rescue_")}
    assert own >= {"pending_critical_pods", "rescues", "evictions", "unschedulable_to_bound_seconds", "holds", "leader"}
    assert own >= {"planning_seconds", "errors", "hold_overdue_seconds"}
    others = {name.partition("_")[0] for name in families if not name.startswith("kube_scheduling_rescue_")}
    assert others <= {"process", "python"}


def test_a_metric_with_an_error_is_answered_and_the_next_request_works(served: Served) -> None:
    class Broken(Collector):
        def collect(self) -> Iterator[Metric]:
            raise RuntimeError("out of order")

        def describe(self) -> Iterator[Metric]:
            return iter(())

    served.metrics.registry.register(Broken())
    assert served.ask("/metrics") == (500, "RuntimeError: out of order\n")
    assert served.ask("/healthz")[0] == 200


def test_what_is_not_there(served: Served) -> None:
    assert served.ask("/")[0] == 404
    assert served.ask("/metrics", "POST")[0] == 405
    assert served.ask("/healthz", "HEAD") == (200, "")


def test_a_silent_client_does_not_block_other_clients(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.endpoints.address.port)):
        assert served.ask("/healthz")[0] == 200


def said_to(served: Served, request: bytes) -> str:
    """Return the head of the response to these bytes."""
    with socket.create_connection(("127.0.0.1", served.endpoints.address.port), timeout=10) as client:
        client.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += client.recv(65536)
        return data.decode()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 100_000, "431 ", id="a header without an end"),
        pytest.param(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", "431 ", id="a long request line"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n" + b"X: x\r\n" * 20_000 + b"\r\n", "431 ", id="many headers"),
        pytest.param(b"POST /healthz HTTP/1.1\r\nContent-Length: 9\r\n\r\n" + b"x" * 9, "413 ", id="a body"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", "413 ", id="a large body"),
        pytest.param(b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "413 ", id="a body in chunks"),
        pytest.param(b"hello\r\n\r\n", "400 ", id="no request"),
        pytest.param(b"\x16\x03\x01\x02\x00\r\n\r\n", "400 ", id="TLS"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nno header\r\n\r\n", "400 ", id="a line that is no header"),
        pytest.param(b"GET /healthz?x=%zz HTTP/1.0\r\n\r\n", "200 ", id="HTTP/1.0"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nContent-Length: \xff\r\n\r\n", "400 ", id="a length that is no ASCII"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nAccept: \xff\xfe\r\n\r\n", "200 ", id="a header that is no ASCII"),
        pytest.param(b"GET /metrics?name[]=\xff HTTP/1.1\r\nAccept-Encoding: \xff\r\n\r\n", "400 ", id="a query that is no ASCII"),
        *(
            pytest.param(b"GET /metrics HTTP/1.1\r\nAccept: %s;version=%s\r\n\r\n" % (form, version), "200 ", id=f"version {version[:9]!r}")
            for form in (b"application/openmetrics-text", b"text/plain")
            for version in (b"a", b"1..0", b"9" * 5000, b"99.0.0", b"1.0.0")
        ),
    ],
)
def test_a_request_without_bounds_is_refused(served: Served, request_bytes: bytes, status: str) -> None:
    assert said_to(served, request_bytes).startswith(f"HTTP/1.1 {status}")
    assert served.ask("/healthz")[0] == 200


def is_closed(client: socket.socket) -> bool:
    """Return whether the server ends the connection before the client's own deadline."""
    try:
        while client.recv(65536):
            pass
    except ConnectionError:
        return True
    return True


@pytest.mark.parametrize("sent", [b"", b"GET /healthz", b"GET /metrics HTTP/1.1\r\n\r\n"], ids=["nothing", "a part", "everything"])
def test_a_connection_ends_when_the_time_for_a_request_is_over(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connection, "IDLE_S", 0.5)
    served = Served(Address("127.0.0.1", 0), head_s=0.5)
    try:
        with socket.create_connection(("127.0.0.1", served.endpoints.address.port), timeout=30) as client:
            client.sendall(sent)
            assert is_closed(client)
        assert served.ask("/healthz")[0] == 200
    finally:
        served.endpoints.close()


def test_a_client_that_sends_a_byte_now_and_then_gets_no_more_time() -> None:
    served = Served(Address("127.0.0.1", 0), head_s=1.0)
    try:
        with crowd_of(served.endpoints.address.port, 3) as crowd:
            deadline_s = time.monotonic() + 30
            while crowd.connected and time.monotonic() < deadline_s:
                time.sleep(0.1)
            assert crowd.connected == 0
    finally:
        served.endpoints.close()


def test_many_clients_of_one_address_close_only_connections_of_this_address() -> None:
    served = Served(Address("127.0.0.1", 0))
    threads = threading.active_count()
    try:
        with socket.create_connection(("127.0.0.1", served.endpoints.address.port), timeout=30) as probe:
            probe.sendall(b"GET /healthz HT")
            with crowd_of(served.endpoints.address.port, 1000, source="127.0.0.2") as crowd:
                assert served.ask("/healthz")[0] == 200  # it is served after all of them
                deadline_s = time.monotonic() + 30  # on a busy machine the server has not accepted all of them yet
                while crowd.connected > MAX_OF_ADDRESS and time.monotonic() < deadline_s:
                    time.sleep(0.1)
                assert 0 < crowd.connected <= MAX_OF_ADDRESS
                assert threading.active_count() == threads + 1  # the thread of the clients
                probe.sendall(b"TP/1.1\r\n\r\n")
                assert probe.recv(65536).startswith(b"HTTP/1.1 200 ")
    finally:
        served.endpoints.close()


def test_a_new_client_is_served_beside_many_of_its_own_address() -> None:
    served = Served(Address("127.0.0.1", 0))
    try:
        with crowd_of(served.endpoints.address.port, 1000):
            assert [served.ask("/healthz")[0] for _ in range(20)] == [200] * 20
            assert served.ask("/metrics")[0] == 200
        assert served.ask("/healthz")[0] == 200
    finally:
        served.endpoints.close()


def test_an_address_that_is_taken(served: Served) -> None:
    with pytest.raises(OSError, match="in use"):
        Endpoints(served.endpoints.address, served.metrics.registry, served.health)


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
    with pytest.raises(ValueError, match="write it as HOST:PORT"):
        parse_address(text)
