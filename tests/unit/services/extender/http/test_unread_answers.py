# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that nobody reads take neither the memory nor the connections of the server."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.common import cgroup
from ansible_collections.onprem.kube_scheduling.services.common.http import connection, limits
from ansible_collections.onprem.kube_scheduling.services.common.http import server as http_server
from ansible_collections.onprem.kube_scheduling.services.common.http.limits import Limits, most_waiting_bytes
from ansible_collections.onprem.kube_scheduling.services.common.http.messages import Response, text_response
from ansible_collections.onprem.kube_scheduling.services.extender.http.tls import make_context

from tests.unit.services.extender.extender_objects import pod
from tests.unit.services.extender.http.running_server import ANSWER, HEAD, REQUEST, Running, ask, receive, running
from tests.unit.services.extender.http.test_server_tls import Certificates

MB = 1_000_000
LARGE = json.dumps({"Pod": pod(), "Nodes": {"items": [{"metadata": {"name": f"n{n}", "x": "x" * MB}} for n in range(10)]}}).encode()
"""Nodes as a whole. The answer of filter has about as many bytes."""

Context = ssl.SSLContext | None


@pytest.fixture(params=["plain", "TLS"])
def contexts(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Context, Context]:
    """The contexts of the server and of its client."""
    if request.param == "plain":
        return None, None
    certificates = Certificates(tmp_path)
    return make_context(certificates.files), certificates.client(certificates.client_ca)


def ask_without_reading(client: socket.socket) -> None:
    client.sendall(HEAD.replace(b"prioritize", b"filter") % len(LARGE) + LARGE)


def wait_until(is_true: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def waiting_bytes(server: Running) -> int:
    return sum(one.waiting_bytes for one in list(server.main._limits.connections))


def test_a_client_that_reads_nothing_is_disconnected_and_one_that_reads_slowly_is_not(
    monkeypatch: pytest.MonkeyPatch, contexts: tuple[Context, Context]
) -> None:
    monkeypatch.setattr(http_server, "SWEEP_S", 0.1)
    monkeypatch.setattr(connection, "UNREAD_S", 1.0)
    with running(contexts[0]) as server, contextlib.ExitStack() as stack:
        # Otherwise the kernel takes over megabytes, and the server does not see for seconds that the client reads.
        server.main._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        silent, slow = (stack.enter_context(server.connect(contexts[1])) for _ in range(2))
        ask_without_reading(silent)
        ask_without_reading(slow)
        received = 0
        while received < 10 * MB:
            part = slow.recv(256 * 1024)
            assert part, received
            received += len(part)
            time.sleep(0.003)
        wait_until(lambda: len(server.main._limits.connections) == 1)
        assert ask_small(server, contexts[1])


def ask_small(server: Running, context: Context) -> bool:
    with server.connect(context) as client:
        return ask(client) == ANSWER


def test_answers_that_wait_have_a_limit_together(contexts: tuple[Context, Context]) -> None:
    with running(contexts[0]) as server, contextlib.ExitStack() as stack:
        server.main._limits._most_waiting_bytes = 15 * MB
        for number in range(6):
            ask_without_reading(stack.enter_context(server.connect(contexts[1])))
            wait_until(lambda: waiting_bytes(server) > 5 * MB)
            assert ask_small(server, contexts[1]), number
            assert waiting_bytes(server) <= 26 * MB
        assert len(server.main._limits.connections) < 6


def ask_for(size: int, server: Running, client: socket.socket) -> None:
    """Ask for an answer with so many bytes."""
    server.client.api._handlers["/scheduler/prioritize"] = lambda _body: b" " * size
    client.sendall(REQUEST)


def test_nothing_is_read_from_a_client_that_does_not_read_its_answer(contexts: tuple[Context, Context]) -> None:
    with running(contexts[0]) as server, server.connect(contexts[1]) as client, server.connect(contexts[1]) as reading:
        client.settimeout(0.5)
        # TLS passes the first answer on to the socket, and waits with the second one.
        for one in (client, client, reading):
            ask_for(10 * MB, server, one)
        wait_until(lambda: waiting_bytes(server) > 10 * MB)
        with pytest.raises(TimeoutError):
            client.sendall(HEAD % (20 * MB) + b" " * 20 * MB)
        readers = [one._reader for one in list(server.main._limits.connections)]
        assert sum(reader._body_bytes + sum(len(request.body) for request in reader.unanswered) for reader in readers) < MB
        for _ in range(2):
            assert len(receive(reading)[1]) == 10 * MB
            reading.sendall(REQUEST)


def test_small_requests_that_are_sent_together_are_not_all_kept() -> None:
    handled = threading.Event()

    def slow(*_arguments: object) -> Response:
        handled.wait(10)
        return text_response(200, "")

    with running() as server, server.connect() as client:
        server.client.app._status_api._handlers["/status"] = slow
        client.sendall(b"GET /status HTTP/1.1\r\n\r\n" + b"GET /healthz HTTP/1.1\r\n\r\n" * 1000)
        wait_until(lambda: [len(one._unanswered) for one in list(server.main._limits.connections)] == [connection.MOST_PIPELINED])
        handled.set()
        client.settimeout(10)
        answers = b"".join(iter(lambda: client.recv(65536), b""))
        assert answers.count(b"HTTP/1.1 200 OK") == 1 + connection.MOST_PIPELINED


def test_small_answers_in_many_connections_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SWEEP_S", 0.1)
    monkeypatch.setattr(connection, "FEW_WAITING_BYTES", 10 * MB)  # such answers count as small here
    with running() as server, contextlib.ExitStack() as stack:
        server.main._limits._most_waiting_bytes = MB
        for _ in range(4):
            ask_for(9 * MB, server, stack.enter_context(server.connect()))
        wait_until(lambda: len(server.main._limits.connections) == 1)


@dataclass(eq=False)
class Waiting:
    """A connection of which only what the limit reads exists."""

    waiting_bytes: int
    address: str = "10.0.0.1"
    active_at_s: float = 0.0
    precedence: int = 1
    dropped: bool = False

    def drop(self) -> None:
        self.dropped = True


def test_the_connection_with_most_waiting_bytes_is_ended_but_not_the_one_with_the_newest_answer() -> None:
    connections = [Waiting(size) for size in (3, 8, 5, 90, 0)]
    together = Limits(0, 10.0)
    together._most_waiting_bytes = 95
    for one in connections:
        together.add(one)
    together.limit_waiting_bytes(connections[3])
    assert [one.dropped for one in connections] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("memory_max", "most"), [("max", 64), (str(192 * cgroup.MIB), 12), (str(64 * cgroup.MIB), 8), (str(8192 * cgroup.MIB), 64), (None, 64)]
)
def test_the_limit_follows_the_memory_of_the_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, memory_max: str | None, most: int
) -> None:
    if memory_max is not None:
        (tmp_path / "memory.max").write_text(memory_max)
    monkeypatch.setattr(limits, "memory_limit", lambda: cgroup.memory_limit(tmp_path))
    assert most_waiting_bytes() == most * cgroup.MIB
