# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server in a thread of the test, and a client with plain sockets."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
import ssl
import threading
import typing as t
from collections.abc import Awaitable, Callable, Iterator

from ansible_collections.onprem.kube_scheduling.services.common.addresses import Address
from ansible_collections.onprem.kube_scheduling.services.common.http.server import HttpServer
from ansible_collections.onprem.kube_scheduling.services.common.signals import ShutdownSignal
from ansible_collections.onprem.kube_scheduling.services.extender.config.settings import MAX_BODY_BYTES
from ansible_collections.onprem.kube_scheduling.services.extender.http.server import run_servers

from tests.unit.services.extender.extender_objects import ScoreAgent, names_body, profile, scores_in, view
from tests.unit.services.extender.http.client import Client

HEAD = b"POST /scheduler/prioritize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
BODY = names_body(["a", "b"])
REQUEST = HEAD % len(BODY) + BODY
ANSWER = {"a": 1, "b": 6}


class Running:
    """A server in a thread."""

    def __init__(self, context: ssl.SSLContext | None = None, *, head_s: float = 10.0, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.client = client = Client(profile(ScoreAgent()))
        client.engine.on_view(view({"a": 1.0, "b": 6.0}))
        self.main = HttpServer(Address("127.0.0.1", 0), client.app, context, max_body_bytes=max_body_bytes, head_s=head_s)
        status = Client(profile(ScoreAgent()), scheduler=False)
        self.status = HttpServer(Address("127.0.0.1", 0), status.app)
        self.signal = ShutdownSignal()
        self._started, self._in_loop, self._loop = threading.Event(), threading.Event(), asyncio.AbstractEventLoop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self._started.wait(10) and self._in_loop.wait(10)

    def _run(self) -> None:
        run_servers((self.main, self.status), self.signal, self._background, self._started.set)

    async def _background(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._in_loop.set()
        await asyncio.Event().wait()

    def in_loop(self, call: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await call()

        future: concurrent.futures.Future[None] = asyncio.run_coroutine_threadsafe(run(), self._loop)
        future.result(10)

    def connect(self, context: ssl.SSLContext | None = None, *, status: bool = False) -> socket.socket:
        address = (self.status if status else self.main).address
        raw = socket.create_connection((address.host, address.port), timeout=10)
        return context.wrap_socket(raw, server_hostname="localhost") if context is not None else raw


@contextlib.contextmanager
def running(context: ssl.SSLContext | None = None, **limits: t.Any) -> Iterator[Running]:
    server = Running(context, **limits)
    try:
        yield server
    finally:
        server.signal.request_stop()
        server.thread.join(15)
        assert not server.thread.is_alive()


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """The head and the body of one answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        assert part, "the server has closed the connection"
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head, body


def ask(connection: socket.socket, request: bytes = REQUEST) -> dict[str, int]:
    connection.sendall(request)
    head, body = receive(connection)
    assert head.startswith(b"HTTP/1.1 200")
    return scores_in(body)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
