# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server over real connections: the end of the program, requests of odd sizes, and the limits of connections."""

from __future__ import annotations

import contextlib
import json
import time
import tracemalloc
from dataclasses import dataclass

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.http import connection as one_connection
from ansible_collections.onprem.kube_scheduling.services.common.http import limits, request_reader
from ansible_collections.onprem.kube_scheduling.services.common.http.limits import Limits

from tests.unit.services.extender.extender_objects import names_body, scores_in
from tests.unit.services.extender.http.running_server import ANSWER, BODY, HEAD, REQUEST, ask, is_closed, receive, running


def test_one_connection_has_many_requests_and_answers_have_only_two_headers() -> None:
    with running() as server, server.connect() as connection:
        assert [ask(connection) for _ in range(3)] == [ANSWER] * 3
        connection.sendall(REQUEST)
        head, body = receive(connection)
        names = [line.split(b":")[0] for line in head.split(b"\r\n")[1:]]
        assert names == [b"content-type", b"content-length"] and scores_in(body) == ANSWER


def test_a_connection_is_closed_when_it_was_idle_for_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_connection, "IDLE_S", 0.8)
    with running() as server, server.connect() as used, server.connect() as unused, server.connect() as dripping:
        for _ in range(4):
            with contextlib.suppress(OSError):
                dripping.sendall(b"\r\n")
            assert ask(used) == ANSWER, "each request begins the time again"
            time.sleep(0.5)
        assert is_closed(unused) and is_closed(dripping)
        assert ask(used) == ANSWER
        assert is_closed(used)


def test_a_body_that_is_too_large_does_not_stop_the_next_request() -> None:
    with running(max_body_bytes=1_000_000) as server:
        with server.connect() as connection:
            connection.sendall(HEAD % 10_000_000)
            head, _body = receive(connection)
            assert head.startswith(b"HTTP/1.1 413")
        with server.connect() as connection:
            connection.sendall(HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked"))
            with contextlib.suppress(OSError):
                for _ in range(40):
                    connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            assert receive(connection)[0].startswith(b"HTTP/1.1 413")
        with server.connect() as connection:
            assert ask(connection) == ANSWER


def error_in(head: bytes, body: bytes) -> str:
    """Return the text of an answer that refuses a request and closes the connection."""
    assert {b"content-type: application/json", b"connection: close"} <= set(head.split(b"\r\n"))
    answer = json.loads(body)
    assert list(answer) == ["error"]
    return str(answer["error"])


NOT_HTTP = request_reader.NOT_HTTP.text


@pytest.mark.parametrize(
    ("nonsense", "complaint"),
    [
        (b"\x00\xff\r\n\r\n", NOT_HTTP),
        (b"GET \xff\xfe HTTP/1.1\r\n\r\n", NOT_HTTP),
        (b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", NOT_HTTP),
        (HEAD.replace(b"%d", b"ten"), NOT_HTTP),
        (HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked") + b"no length\r\n", NOT_HTTP),
        # A request of HTTP/0.9 has neither a version nor headers.
        (b"POST /scheduler/filter\r\n\r\n", "the body is not ExtenderArgs: Input data was truncated"),
    ],
    ids=["bytes", "URL", "header", "length", "chunk", "version"],
)
def test_a_request_that_is_not_http_is_refused_with_a_json_error_and_does_not_stop_the_next(nonsense: bytes, complaint: str) -> None:
    with running() as server:
        with server.connect() as connection:
            connection.sendall(nonsense)
            head, body = receive(connection)
            assert head.startswith(b"HTTP/1.1 400 ")
            assert error_in(head, body) == complaint
            assert is_closed(connection)
        with server.connect() as connection:
            assert ask(connection) == ANSWER


def test_a_request_in_flight_is_answered_before_the_end() -> None:
    with running() as server, server.connect() as busy, server.connect() as idle:
        assert ask(idle) == ANSWER
        busy.sendall(REQUEST[:-20])
        server.signal.request_stop()
        assert idle.recv(1) == b"", "a connection without a request is closed"
        busy.sendall(REQUEST[-20:])
        assert scores_in(receive(busy)[1]) == ANSWER
        assert busy.recv(1) == b""


def test_a_second_signal_ends_the_wait_for_a_request() -> None:
    with running() as server, server.connect() as busy:
        busy.sendall(REQUEST[:-20])
        server.signal.request_stop()
        server.signal.request_stop()
        server.thread.join(5)
        assert not server.thread.is_alive()


# --- limits of connections ---


@pytest.mark.parametrize("limit", ["MAX_OF_ADDRESS", "MAX_CONNECTIONS"])
def test_a_new_connection_replaces_the_one_that_was_idle_for_the_longest_time(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(limits, limit, 3)
    with running() as server, contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(server.connect()) for _ in range(3))
        assert [ask(one) for one in (second, third, first)] == [ANSWER] * 3
        second.sendall(REQUEST[:-20])
        assert ask(first) == ANSWER, "the server has read what came before"
        fourth = stack.enter_context(server.connect())
        assert ask(fourth) == ANSWER and is_closed(third)
        second.sendall(REQUEST[-20:])
        assert scores_in(receive(second)[1]) == ANSWER, "a request is not interrupted while another connection is idle"
        assert ask(first) == ANSWER


@dataclass(eq=False)
class Connected:
    """A connection, of which only what the limits read exists."""

    address: str
    precedence: int
    active_at_s: float
    waiting_bytes: int = 0
    dropped: bool = False

    def drop(self) -> None:
        self.dropped = True


def test_handshakes_from_many_addresses_displace_no_complete_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 8)
    scheduler = [Connected("10.0.0.1", 1, number) for number in range(3)]
    open_ones = Limits(0, 10.0)
    for number, one in enumerate([*scheduler, *(Connected(f"10.0.1.{number}", 0, 100.0 + number) for number in range(20))]):
        open_ones.add(one)
        assert len(open_ones.connections) == min(number + 1, 8)
    assert open_ones.connections.issuperset(scheduler) and not any(one.dropped for one in scheduler)


def test_a_header_that_is_not_complete_in_time_ends_the_connection() -> None:
    with running(head_s=0.2) as server, server.connect() as slow, server.connect() as usual:
        assert ask(usual) == ANSWER
        slow.sendall(b"POST /scheduler/filter HTTP/1.1\r\nX: ")
        assert is_closed(slow)
        assert ask(usual) == ANSWER
        usual.sendall(b"POST /")
        assert is_closed(usual)


def test_a_header_that_begins_behind_another_request_has_the_same_time_limit() -> None:
    with running(head_s=0.2) as server, server.connect() as connection:
        assert ask(connection, REQUEST + REQUEST[:20]) == ANSWER
        assert is_closed(connection)
    with running() as server, server.connect() as connection:
        for begin in (REQUEST[:20], b"\r\n", REQUEST[:-1]):
            assert ask(connection, REQUEST + begin) == ANSWER
            assert ask(connection, REQUEST.removeprefix(begin)) == ANSWER


LONG = b"x" * request_reader.MAX_HEAD_BYTES


@pytest.mark.parametrize(
    "head",
    [b"GET /healthz HTTP/1.1\r\nX: " + LONG, b"GET /healthz HTTP/1.1\r\nX: " + LONG + b"\r\n\r\n", b"GET /" + LONG + b" HTTP/1.1\r\n\r\n"],
    ids=["incomplete", "header", "URL"],
)
def test_a_header_that_is_too_large_is_refused(head: bytes) -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(head)
        head, body = receive(connection)
        assert head.startswith(b"HTTP/1.1 431 ")
        assert "headers have more than 65536 bytes" in error_in(head, body)


CHUNKED = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize("rest", [b"0\r\n" + b"X: y\r\n" * 100_000, b"2;" + b"x" * 500_000], ids=["trailers", "extension of a chunk"])
def test_what_a_client_sends_beside_the_chunks_of_a_body_has_the_limit_of_a_header(rest: bytes) -> None:
    with running() as server, server.connect() as connection:
        with contextlib.suppress(OSError):
            connection.sendall(CHUNKED + b"2\r\n{}\r\n" + rest)
        assert receive(connection)[0].startswith(b"HTTP/1.1 431 ")


def test_a_body_in_very_small_chunks_needs_no_more_memory_than_another_one() -> None:
    chunks = b"2\r\n  \r\n" * 200_000
    with running() as server, server.connect() as connection:
        tracemalloc.start()
        connection.sendall(CHUNKED + chunks)
        connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))
        assert scores_in(receive(connection)[1]) == ANSWER
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4_000_000


def test_a_large_body_does_not_count_as_the_header_of_the_next_request() -> None:
    body = names_body([f"node-{number:05}" for number in range(18_000)])
    with running() as server, server.connect() as connection:
        for _ in range(2):
            connection.sendall(HEAD % len(body) + body)
            assert receive(connection)[0].startswith(b"HTTP/1.1 200")
            assert ask(connection) == ANSWER
        connection.sendall(REQUEST + REQUEST)
        assert len(receive(connection)[1]) > 0


UPGRADE = b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"


@pytest.mark.parametrize("request_bytes", [REQUEST, HEAD % 10], ids=["with its body", "before its body"])
def test_a_request_with_a_body_that_asks_for_another_protocol_is_refused_with_the_reason(request_bytes: bytes) -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(request_bytes.replace(b"Host: x", UPGRADE))
        head, body = receive(connection)
        assert head.startswith(b"HTTP/1.1 400 ")
        assert "must not have the header Upgrade" in error_in(head, body)
        assert is_closed(connection)


def test_a_request_without_a_body_that_asks_for_another_protocol_is_answered_and_the_connection_ends() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n" + UPGRADE + b"\r\n\r\n")
        head, _body = receive(connection)
        assert head.startswith(b"HTTP/1.1 200") and b"connection: close" in head
        assert is_closed(connection)
