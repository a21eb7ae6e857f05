# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One connection: it answers the requests that its reader has read.

There are two reasons against an ASGI server. It limits neither slow headers nor unread answers. And ASGI needs a task, a dictionary and two
writes for each request: with uvicorn, a request with 100 names takes as long as in an extender in Go.
"""

from __future__ import annotations

import asyncio
import typing as t
from collections.abc import Awaitable
from http import HTTPStatus

from .limits import Limits
from .messages import App, Refusal, Request, Response
from .request_reader import Phase, RequestReader

UNREAD_S = 30.0
"""Seconds in which a part of an answer that waits must be sent. The kernel first sends what it has, which can be some megabytes."""

IDLE_S = 120.0
"""Seconds until a connection without a request is closed. kube-scheduler keeps idle connections for 90 s (Go's http.DefaultTransport).

The server must not be the first that closes them. If both sides close a connection at the same moment, a request on it is lost, and the
scheduler ignores a lost prioritize without a retry.
"""

FEW_WAITING_BYTES = 64 * 1024
"""For an answer of this size, the bytes of all connections are not added up. They are added up once a second."""

MOST_PIPELINED = 100
"""Requests of one connection that wait for their answer. The kernel can deliver ten thousand small ones together."""

PIECE_BYTES = 16 * 1024
"""Bytes that are read before requests are answered. So not all of ten thousand small ones are read if one of them must wait."""

STATUS_LINES = {int(status): f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Connection(asyncio.Protocol):
    """A connection with limits. ``address``: that of the client.

    Each event changes one fact and then calls ``_answer_requests``, which is correct at any moment. Each fact is in one place:

    | fact                                          | place                   |
    |-----------------------------------------------|-------------------------|
    | the phase of the request that is read         | ``_reader.phase``       |
    | the requests that wait for their answers      | ``_unanswered``         |
    | an answer is being calculated                 | ``_answering``          |
    | the client does not read its answers          | ``_is_write_paused``    |
    | nothing is read, the connection is closing    | the transport           |

    A write can call ``pause_writing`` and ``resume_writing`` before it returns. So it is the last step of an answer.
    """

    address: str
    _socket: asyncio.Transport
    _transport: asyncio.Transport
    """The transport of TLS, or the socket without TLS."""

    def __init__(self, app: App, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._reader = RequestReader(limits)
        self._unanswered = self._reader.unanswered
        self._answering: asyncio.Task[None] | None = None
        self._is_write_paused = False
        self._last_waiting_bytes, self._sent_at_s = 0, 0.0
        """The waiting bytes at the last call of ``end_if_late``, and the time when no byte waited or some were sent."""

    # --- limits ---

    @property
    def active_at_s(self) -> float:
        """Return the time of the last step of a request."""
        return self._reader.since_s

    @property
    def _is_answering(self) -> bool:
        return self._answering is not None or bool(self._unanswered)

    @property
    def precedence(self) -> int:
        """Return 1 for an idle connection, and 2 for one with a request."""
        return 2 if self._reader.phase is Phase.BODY or self._is_answering else 1

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes that wait until the client reads: those of TLS, and those behind it that are encrypted."""
        waiting = self._socket.get_write_buffer_size()
        return waiting if self._transport is self._socket else waiting + self._transport.get_write_buffer_size()

    def end_if_late(self, now_s: float) -> None:
        """End the connection if something takes too long. Is called each second.

        | it waits for                        | seconds    | then                       |
        |-------------------------------------|------------|----------------------------|
        | a request                           | IDLE_S     | it is dropped              |
        | the end of a header                 | ``head_s`` | it is dropped              |
        | the end of a body                   | ``head_s`` | 408 is the last answer     |
        | an answer that is calculated        | no limit   |                            |
        | the client, which reads slowly      | IDLE_S     | it is dropped              |
        | the client, which reads nothing     | UNREAD_S   | it is dropped              |
        """
        waiting = self.waiting_bytes
        if not waiting or waiting < self._last_waiting_bytes:
            self._sent_at_s = now_s
        self._last_waiting_bytes = waiting
        reads = self._reader.phase if self._transport.is_reading() else None
        limit_s = self._limits.head_s if reads in (Phase.HEAD, Phase.BODY) else IDLE_S
        if now_s > max(self._sent_at_s, self.active_at_s) + UNREAD_S:
            self.drop()
        elif now_s > self.active_at_s + limit_s and self._answering is None:
            if reads is Phase.BODY:
                self._reader.refuse(Refusal(408, f"the body was not complete after {limit_s:g} s"))
                self._answer_requests()
            else:
                self.drop()

    def drop(self) -> None:
        """End the connection. Bytes that wait are lost."""
        self._socket.abort()

    def shutdown(self) -> None:
        """End the connection after its request."""
        self._reader.end_after_request()
        self._answer_requests()

    # --- events of the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin without TLS, and keep the limits of the number of connections."""
        socket = t.cast(asyncio.Transport, transport)
        self.begin(client_address(socket), socket, socket)
        self._limits.add(self)

    def begin(self, address: str, socket: asyncio.Transport, transport: asyncio.Transport) -> None:
        """Begin to answer. ``transport``: that of TLS after the handshake, or the socket without TLS."""
        self.address, self._socket, self._transport = address, socket, transport

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget the connection."""
        self._limits.connections.discard(self)
        self._reader.close()

    def pause_writing(self) -> None:
        """Answer and read no further request until the client has read. Is called inside a write."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """Continue to answer."""
        self._is_write_paused = False
        self._answer_requests()

    def data_received(self, data: bytes) -> None:
        """Read requests, and answer those that are complete."""
        for start in range(0, len(data), PIECE_BYTES):
            self._reader.feed(data[start : start + PIECE_BYTES])
            self._answer_requests()

    # --- answers ---

    def _answer_requests(self) -> None:
        """Answer the requests that wait, in their order, and close the connection after the last one.

        Read no further ones while one of them or an answer must wait. A request that is read waits with its whole body.
        """
        transport = self._transport
        if transport.is_closing():
            return
        while self._unanswered and self._answering is None and not self._is_write_paused:
            self._answer(self._unanswered.popleft())
        while len(self._unanswered) > MOST_PIPELINED:
            self._unanswered.pop()
            self._reader.end()
        is_answering = self._is_answering
        if not is_answering and self._reader.phase is Phase.ENDED:
            transport.close()
        elif is_answering or self._is_write_paused:
            transport.pause_reading()
        elif not transport.is_reading():
            self._reader.restart_time()
            transport.resume_reading()

    def _answer(self, one: Request | Refusal | bytes) -> None:
        if isinstance(one, Request):
            answer, with_body = self._app.answer(one), one.method != "HEAD"
            if isinstance(answer, Response):
                self._send(answer, with_body=with_body)
            else:
                self._answering = asyncio.create_task(self._answer_later(answer, with_body=with_body))
        elif isinstance(one, Refusal):
            self._send(self._app.refusal(*one))
        else:
            self._write(one)

    async def _answer_later(self, answer: Awaitable[Response], *, with_body: bool) -> None:
        response = await answer
        self._answering = None
        self._reader.restart_time()
        self._send(response, with_body=with_body)
        self._answer_requests()

    def _send(self, response: Response, *, with_body: bool = True) -> None:
        """Send an answer by one system call. Otherwise its head would wake up the client before the body is there."""
        is_last = self._reader.phase is Phase.ENDED and not self._unanswered
        head = [
            STATUS_LINES[response.status],
            b"content-type: %b\r\ncontent-length: %d\r\n" % (response.content_type.encode(), len(response.body)),
            *(b"%b: %b\r\n" % header for header in response.headers),
            b"connection: close\r\n\r\n" if is_last else b"\r\n",
        ]
        self._write(b"".join(head), response.body if with_body else b"")

    def _write(self, head: bytes, body: bytes = b"") -> None:
        if self._transport.is_closing():
            return
        if len(body) < FEW_WAITING_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        if self.waiting_bytes > FEW_WAITING_BYTES:
            self._limits.limit_waiting_bytes(self)


def client_address(transport: asyncio.BaseTransport) -> str:
    """Return the address of the client without its port."""
    return str((transport.get_extra_info("peername") or ("",))[0])
