# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain requests are answered without ASGI. All other requests get the same answers through ASGI."""

from __future__ import annotations

import json

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.http.direct_answers import MAX_HEADS, DirectAnswers
from ansible_collections.onprem.kube_scheduling.services.extender.http.messages.request_parts import BadRequestError
from ansible_collections.onprem.kube_scheduling.services.extender.http.pages.status_api import Response
from ansible_collections.onprem.kube_scheduling.services.extender.http.scheduler_api import NoSuchPathError

from tests.unit.services.extender.extender_objects import scores_in
from tests.unit.services.extender.http.running_server import ANSWER, BODY, HEAD, REQUEST, ask, receive, running

PATH = "/scheduler/prioritize"
GO_HEAD = (
    b"POST /scheduler/prioritize HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n"
    b"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
)


def reversed_body(body: bytes) -> bytes:
    if body == b"bad":
        raise ValueError("bad")
    return body[::-1]


def refused(path: str, error: Exception) -> Response:
    return Response(404, "text/plain", f"{path}: {error}".encode())


@pytest.fixture
def direct() -> DirectAnswers:
    return DirectAnswers({PATH: reversed_body}, refused, max_body_bytes=100)


def test_a_request_as_go_writes_it_is_answered_directly(direct: DirectAnswers) -> None:
    for body in (b"abc", b"", b"abc", b"abcd"):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        assert direct.answer(GO_HEAD % len(body) + body) == head + body[::-1]


WHOLE = GO_HEAD % 3 + b"abc"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(WHOLE[:50], id="half a head"),
        pytest.param(WHOLE[:-1], id="a body that is not complete"),
        pytest.param(WHOLE + WHOLE, id="two requests"),
        pytest.param(WHOLE.replace(b"POST", b"PUT"), id="another method"),
        pytest.param(WHOLE.replace(b"prioritize", b"other"), id="another path"),
        pytest.param(WHOLE.replace(b"prioritize", b"prioritize?x=1"), id="a query"),
        pytest.param(WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"), id="HTTP 1.0"),
        pytest.param(WHOLE.replace(b"application/json", b"text/plain"), id="another type"),
        pytest.param(WHOLE.replace(b"Host", b"Hose"), id="no host"),
        pytest.param(WHOLE.replace(b"User-Agent: Go-http-client/1.1", b"Transfer-Encoding: chunked"), id="chunks"),
        pytest.param(WHOLE.replace(b"User-Agent: Go-http-client/1.1", b"Content-Length: 3"), id="two lengths"),
        pytest.param(WHOLE.replace(b"User-Agent: Go-http-client/1.1", b"Connection: close"), id="the last request"),
        pytest.param(WHOLE.replace(b"User-Agent: Go-http-client/1.1", b"Expect: 100-continue"), id="a client that waits"),
        pytest.param(WHOLE.replace(b"Content-Length: 3", b"Content-Length: +3"), id="a length with a sign"),
        pytest.param(WHOLE.replace(b"Content-Length:", b"Content-Length :"), id="a space in a name"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\nTransfer-Encoding: chunked"), id="a line feed alone, with chunks"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\nContent-Length: 4"), id="a line feed alone, with a length"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\r1.1"), id="a carriage return alone"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\0"), id="a NUL"),
        pytest.param(WHOLE.replace(b"client/1.1", b"client\x7f"), id="a DEL"),
        pytest.param(WHOLE.replace(b"Accept-Encoding: gzip", b"Accept-Encoding"), id="no colon"),
        pytest.param(WHOLE.replace(b"User-Agent", b" User-Agent"), id="a continued line"),
        pytest.param(WHOLE.replace(b"10.0.0.1", b"10.0.0.1\n"), id="a line feed in the host"),
        pytest.param(GO_HEAD % 101 + b"x" * 101, id="too large"),
    ],
)
def test_other_requests_are_left_to_asgi(direct: DirectAnswers, data: bytes) -> None:
    assert direct.answer(data) is None
    assert direct.answer(WHOLE) is not None


def test_an_error_of_the_handler_is_answered_directly(direct: DirectAnswers) -> None:
    head = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 26\r\n\r\n"
    assert direct.answer(GO_HEAD % 3 + b"bad") == head + b"/scheduler/prioritize: bad"


def test_a_handler_is_called_once_for_a_request_that_it_refuses() -> None:
    errors = [BadRequestError("no"), NoSuchPathError("none"), RuntimeError("half a surrogate pair: \ud800")]
    called: list[bytes] = []

    def failing(body: bytes) -> bytes:
        called.append(body)
        raise errors[len(called) - 1]

    with running() as server, server.connect() as connection:
        assert server.app._scheduler is not None
        server.app._scheduler._handlers[PATH] = failing
        for status, text in ((400, "no"), (404, "none"), (500, "RuntimeError: half a surrogate pair: ?")):
            connection.sendall(REQUEST)
            head, body = receive(connection)
            assert head.startswith(b"HTTP/1.1 %d " % status) and json.loads(body) == {"error": text}
        assert called == [BODY] * 3
        assert [server.app._metrics.refused.labels(code)._value.get() for code in ("400", "404", "500")] == [1, 1, 1]


def test_the_missing_bytes_of_a_plain_request_are_counted(direct: DirectAnswers) -> None:
    for data, missing in ((WHOLE[:-2], 2), (WHOLE, 0), (WHOLE + b"x", 0), (WHOLE[:50], 0), (b"", 0), (b"x" * 5000, 0)):
        direct.answer(data)
        assert direct.missing_bytes(data) == missing


def test_a_client_that_sends_half_a_request_gets_the_time_limit_of_the_settings() -> None:
    with running(request_timeout_s=0.1) as server, server.connect() as connection:
        connection.sendall(REQUEST[:-1])
        assert receive(connection)[0].startswith(b"HTTP/1.1 408")
        with server.connect() as other:
            other.sendall(REQUEST[:-1])
        with server.connect() as other:
            assert ask(other) == ANSWER


def test_the_number_of_known_heads_is_limited() -> None:
    direct = DirectAnswers({PATH: reversed_body}, refused, max_body_bytes=10_000)
    for length in range(MAX_HEADS + 10):
        assert direct.answer(GO_HEAD % length + b"x" * length) is not None
    assert len(direct._heads) <= MAX_HEADS


def test_the_server_answers_whole_requests_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as server, server.connect() as connection:
        monkeypatch.setattr(server.app, "_scheduler", None)
        assert ask(connection) == ANSWER
        connection.sendall(REQUEST.replace(b"Host: x", b"Host: x\r\nX-Other: y"))
        assert receive(connection)[0].startswith(b"HTTP/1.1 405"), "all others go through ASGI"


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
