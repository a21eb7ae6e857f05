# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests of all forms, whole and in pieces, one after the other and together."""

from __future__ import annotations

import contextlib
import json

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.http.scheduler_api import NoSuchPathError
from ansible_collections.onprem.kube_scheduling.services.extender.http.wire import BadRequestError

from tests.unit.services.extender.extender_objects import scores_in
from tests.unit.services.extender.http.running_server import ANSWER, BODY, HEAD, REQUEST, ask, is_closed, receive, running

PATH = "/scheduler/prioritize"
WHOLE = (
    b"POST /scheduler/prioritize HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n"
    b"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
) % len(BODY) + BODY
AGENT, LENGTH = b"User-Agent: Go-http-client/1.1", b"Content-Length: %d" % len(BODY)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(WHOLE, b"200", id="as Go writes it"),
        pytest.param(WHOLE.replace(b"POST", b"PUT"), b"405", id="another method"),
        pytest.param(WHOLE.replace(b"prioritize", b"other"), b"404", id="another path"),
        pytest.param(WHOLE.replace(b"prioritize", b"prioritize?x=1"), b"200", id="a query"),
        pytest.param(WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"), b"200", id="HTTP 1.0"),
        pytest.param(WHOLE.replace(b"application/json", b"text/plain"), b"415", id="another type"),
        pytest.param(WHOLE.replace(AGENT, b"Transfer-Encoding: chunked"), b"400", id="chunks and a length"),
        pytest.param(WHOLE.replace(AGENT, LENGTH), b"400", id="two lengths"),
        pytest.param(WHOLE.replace(AGENT, b"Connection: close"), b"200", id="the last request"),
        pytest.param(WHOLE.replace(LENGTH, b"Content-Length: +3"), b"400", id="a length with a sign"),
        pytest.param(WHOLE.replace(b"Content-Length:", b"Content-Length :"), b"400", id="a space in a name"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\nTransfer-Encoding: chunked"), b"400", id="a line feed alone, with chunks"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\nContent-Length: 4"), b"400", id="a line feed alone, with a length"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\r1.1"), b"400", id="a carriage return alone"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\0"), b"400", id="a NUL"),
        pytest.param(WHOLE.replace(b"Accept-Encoding: gzip", b"Accept-Encoding"), b"400", id="no colon"),
        pytest.param(WHOLE.replace(b"User-Agent", b" User-Agent"), b"400", id="a continued line"),
        pytest.param(WHOLE.replace(b"10.0.0.1", b"10.0.0.1\n"), b"400", id="a line feed in the host"),
    ],
)
def test_the_form_of_a_request_is_checked(data: bytes, status: bytes) -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(data)
        head, body = receive(connection)
        assert head.startswith(b"HTTP/1.1 " + status)
        assert status != b"200" or scores_in(body) == ANSWER


def test_a_client_that_waits_before_it_sends_the_body_may_continue() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(WHOLE.removesuffix(BODY).replace(AGENT, b"Expect: 100-continue"))
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
        assert ask(connection, BODY) == ANSWER


def test_a_handler_is_called_once_for_a_request_that_it_refuses() -> None:
    errors = [BadRequestError("no"), NoSuchPathError("none"), RuntimeError("half a surrogate pair: \ud800")]
    called: list[bytes] = []

    def failing(body: bytes) -> bytes:
        called.append(body)
        raise errors[len(called) - 1]

    with running() as server, server.connect() as connection:
        server.client.api._handlers[PATH] = failing
        for status, text in ((400, "no"), (404, "none"), (500, "RuntimeError: half a surrogate pair: ?")):
            connection.sendall(REQUEST)
            head, body = receive(connection)
            assert head.startswith(b"HTTP/1.1 %d " % status) and json.loads(body) == {"error": text}
        assert called == [BODY] * 3
        assert [server.client.metrics.refused.labels(code)._value.get() for code in ("400", "404", "500")] == [1, 1, 1]


def test_a_client_that_sends_half_a_request_gets_the_time_limit_of_the_settings() -> None:
    with running(head_s=0.1) as server, server.connect() as connection:
        connection.sendall(REQUEST[:-1])
        assert receive(connection)[0].startswith(b"HTTP/1.1 408")
        with server.connect() as other:
            other.sendall(REQUEST[:-1])
        with server.connect() as other:
            assert ask(other) == ANSWER


def test_pieces_and_pipelined_requests_get_the_same_answers() -> None:
    with running() as server, server.connect() as connection:
        for first in (10, len(REQUEST) - len(BODY), len(REQUEST) - 1):
            connection.sendall(REQUEST[:first])
            assert ask(connection, REQUEST[first:]) == ANSWER
            assert ask(connection) == ANSWER
        connection.sendall(REQUEST + REQUEST)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 2 or not answers.endswith(b"]"):
            answers += connection.recv(65536)
        assert [scores_in(part.split(b"\r\n\r\n")[1]) for part in answers.split(b"HTTP/1.1 200 OK")[1:]] == [ANSWER] * 2


def test_a_body_that_looks_like_a_request_is_no_request() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(HEAD % len(REQUEST))
        connection.sendall(REQUEST)
        assert receive(connection)[0].startswith(b"HTTP/1.1 400")
        assert ask(connection) == ANSWER


def test_a_refused_request_has_its_reason_and_the_next_is_answered() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(HEAD % 2 + b"{}")
        head, body = receive(connection)
        assert head.startswith(b"HTTP/1.1 400") and b"error" in body
        assert ask(connection) == ANSWER


def test_an_answer_without_a_body_is_sent() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "line", [b"User-Agent: a\nContent-Length: 3", b"User-Agent: a\nX: y", b"User-Agent: a\0", b"User-Agent: a\rb", b"User-Agent"]
)
def test_a_head_that_the_parser_refuses_is_refused(line: bytes) -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(REQUEST.replace(b"Host: x", b"Host: x\r\n" + line))
        assert receive(connection)[0].startswith(b"HTTP/1.1 400")


STATUS_PAGE = b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n"


def test_requests_behind_one_that_takes_long_are_answered_in_their_order() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(STATUS_PAGE + REQUEST + STATUS_PAGE + REQUEST[:30])
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 3 or not answers.endswith(b"}"):
            answers += connection.recv(65536)
        bodies = [json.loads(part.split(b"\r\n\r\n")[1]) for part in answers.split(b"HTTP/1.1 200 OK")[1:]]
        assert [isinstance(body, list) for body in bodies] == [False, True, False]
        assert ask(connection, REQUEST[30:]) == ANSWER


def test_a_request_behind_the_last_one_is_not_answered() -> None:
    last = REQUEST.replace(b"Host: x", b"Host: x\r\nConnection: close")
    called: list[bytes] = []
    with running() as server, server.connect() as connection:
        handler = server.client.api._handlers[PATH]
        server.client.api._handlers[PATH] = lambda body: called.append(body) or handler(body)
        connection.sendall(last + REQUEST + b"nonsense")
        assert scores_in(receive(connection)[1]) == ANSWER
        assert is_closed(connection) and called == [BODY]


def test_a_client_that_asks_without_reading_gets_no_further_answers() -> None:
    called: list[bytes] = []
    with running() as server, server.connect() as connection:
        server.client.api._handlers[PATH] = lambda body: called.append(body) or b" " * 1_000_000
        connection.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            connection.sendall(REQUEST * 10_000)
        assert len(called) < 50
        with server.connect() as other:
            other.sendall(STATUS_PAGE)
            assert receive(other)[0].startswith(b"HTTP/1.1 200")
        assert len(called) < 50
