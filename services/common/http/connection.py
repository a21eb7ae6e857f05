# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One connection: from the bytes of a client through the parser httptools to the application, and back.

There are two reasons against an ASGI server. It limits neither slow headers nor unread answers. And ASGI needs a task, a dictionary and two
writes for each request: with uvicorn, a request with 100 names takes as long as in an extender in Go.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import typing as t
from collections import deque
from collections.abc import Awaitable
from http import HTTPStatus
from urllib.parse import unquote

import httptools

from .limits import Limits
from .messages import App, Request, Response

MAX_HEAD_BYTES = 64 * 1024
"""The size limit of the URL with all headers."""

HANDSHAKE_S = 10.0
"""Seconds for the TLS handshake."""

UNREAD_S = 30.0
"""Seconds in which a part of an answer that waits must be sent. The kernel first sends what it has, which can be some megabytes."""

IDLE_S = 120.0
"""Seconds until a connection without a request is closed. kube-scheduler keeps idle connections for 90 s (Go's http.DefaultTransport).

The server must not be the first that closes them. If both sides close a connection at the same moment, a request on it is lost, and the
scheduler ignores a lost prioritize without a retry.
"""

FEW_WAITING_BYTES = 64 * 1024
"""For an answer of this size, the bytes of all connections are not added up. They are added up once a second."""

SMALL_PART_BYTES = 1024

MOST_PIPELINED = 100
"""Requests of one connection that wait for their answer. The kernel can deliver ten thousand small ones together."""

OTHER_BYTES = len(b": \r\n")
"""The bytes of a header beside its name and its value."""

STATUS_LINES = {int(status): f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}

HEAD_TOO_LARGE = 431, f"the URL and the headers have more than {MAX_HEAD_BYTES} bytes"
UPGRADE_WITH_BODY = 400, "a request with a body must not have the header Upgrade: this server has only HTTP/1.1"
NOT_HTTP = 400, "the request is not valid HTTP/1.1: check its first line, its headers and the form of its body"


class RefusedError(Exception):
    """The parser must stop, and ``_refusal`` is the answer."""


class Connection(asyncio.Protocol):
    """A connection with limits. With ``context`` it begins with a TLS handshake."""

    def __init__(self, app: App, limits: Limits[Connection], context: ssl.SSLContext | None) -> None:
        self._app, self._limits, self._context = app, limits, context
        self._loop = asyncio.get_running_loop()
        self._parser: t.Any = httptools.HttpRequestParser(self)
        self.address = ""
        self._socket: asyncio.Transport
        self._transport: asyncio.Transport | None = None
        """The transport of TLS after the handshake, or the socket without TLS."""
        self._handshake: asyncio.Task[None] | None = None
        self._early = b""
        """The bytes that have come before TLS reads the socket, or after the handshake before the parser is used."""
        self._head_bytes = 0
        """The bytes of an incomplete header, or those after the last part of a body, which are chunk sizes and trailers."""
        self._is_in_body = False
        self._body: list[bytes | bytearray] = []
        self._body_bytes = 0
        self._refusal = NOT_HTTP
        self._requests: deque[tuple[Request, bool]] = deque()
        """The requests that wait for their answer, and whether the connection stays open after it."""
        self._answering: asyncio.Task[None] | None = None
        self._is_ending = self._is_write_paused = self._is_read_paused = False
        self._deadline_s = self._read_at_s = self.active_at_s = time.monotonic()
        self._last_waiting_bytes = 0

    # --- limits ---

    @property
    def _is_idle(self) -> bool:
        return not self._is_in_body and not self._requests and self._answering is None

    @property
    def precedence(self) -> int:
        """Return 0 before the end of the TLS handshake, 1 for an idle connection, and 2 for one with a request."""
        return 0 if self._transport is None else 1 if self._is_idle else 2

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes that wait until the client reads: those of TLS, and those behind it that are encrypted."""
        waiting = self._socket.get_write_buffer_size()
        return waiting if self._transport in (None, self._socket) else waiting + self._transport.get_write_buffer_size()

    def end_if_late(self, now_s: float) -> None:
        """End the connection if a part of a request, the next one, or the reading of an answer takes too long. Is called each second."""
        waiting = self.waiting_bytes
        if not waiting or waiting < self._last_waiting_bytes:
            self._read_at_s = now_s
        self._last_waiting_bytes = waiting
        if now_s > max(self._read_at_s, self.active_at_s) + UNREAD_S:
            self.drop()
        elif now_s > self._deadline_s and self._answering is None:
            if self._is_in_body:
                self._refuse(408, f"the body was not complete after {self._limits.head_s:g} s")
            else:
                self.drop()

    def drop(self) -> None:
        """End the connection. Bytes that wait are lost."""
        self._socket.abort()
        if self._transport is None:
            self.connection_lost(None)  # TLS does not call it before the end of the handshake.

    def shutdown(self) -> None:
        """End the connection after its request."""
        self._is_ending = True
        if self._transport is None:
            self.drop()
        elif self._is_idle:
            self._transport.close()

    # --- events of the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the limits of the number of connections, and begin with TLS or to wait for the first byte."""
        self._socket = t.cast(asyncio.Transport, transport)
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._wait_for(IDLE_S)
        self._limits.add(self)
        if self._context is None:
            self._transport = self._socket
        else:
            self._handshake = self._loop.create_task(self._shake_hands(self._context))

    async def _shake_hands(self, context: ssl.SSLContext) -> None:
        if self._socket.is_closing():
            return
        # ``start_tls`` gives the socket to TLS before the event loop continues.
        self._loop.call_soon(self._pass_to_tls)
        try:
            transport = await self._loop.start_tls(self._socket, self, context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S)
        # The client is told by an alert of TLS. A log line for each would fill the log.
        except OSError:
            self._limits.connections.discard(self)
            return
        if self._parser is not None:  # The connection was not lost meanwhile.
            self._transport = t.cast(asyncio.Transport, transport)
            self.data_received(self._take_early())

    def _pass_to_tls(self) -> None:
        tls, data = t.cast(asyncio.BufferedProtocol, self._socket.get_protocol()), self._take_early()
        if data:
            t.cast(memoryview, tls.get_buffer(len(data)))[: len(data)] = data
            tls.buffer_updated(len(data))

    def _take_early(self) -> bytes:
        early, self._early = self._early, b""
        return early

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget the connection."""
        self._limits.connections.discard(self)
        self._forget_body()
        self._requests.clear()
        self._parser = None  # It refers to the connection.

    def pause_writing(self) -> None:
        """Answer and read no further request until the client has read."""
        self._is_write_paused = True
        self._answer_requests()

    def resume_writing(self) -> None:
        """Continue to answer."""
        self._is_write_paused = False
        self._answer_requests()

    def data_received(self, data: bytes) -> None:
        """Pass the bytes to the parser, and count those of an incomplete header or trailer.

        If a header begins in the same data after another request, its first bytes do not count.
        """
        if self._transport is None:
            self._early += data
            return
        if self._is_ending and self._is_idle:
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # The request was answered as one of HTTP/1.1.
        except httptools.HttpParserError:
            self._refuse(*self._refusal)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(*HEAD_TOO_LARGE)

    # --- events of the parser ---

    def on_message_begin(self) -> None:
        """Begin to wait for the end of the header. Raises RefusedError if too many requests wait."""
        if len(self._requests) >= MOST_PIPELINED:
            raise RefusedError
        self._url, self._headers = b"", dict[bytes, bytes]()
        self._counted_bytes = 0
        self._wait_for(self._limits.head_s)

    def on_url(self, part: bytes) -> None:
        """Keep a part of the URL."""
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Of two with the same name the last one counts."""
        self._counted_bytes += len(name) + len(value) + OTHER_BYTES
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Begin to receive the body. Raises RefusedError if the header is too large, or if there is a body that cannot be read.

        A request to use another protocol, such as HTTP/2, is answered as one of HTTP/1.1, and the connection ends (RFC 9110, section 7.8).
        The parser does not read the body of such a request.
        """
        headers = self._headers
        if len(self._url) + self._counted_bytes > MAX_HEAD_BYTES:
            self._raise(HEAD_TOO_LARGE)
        self._is_upgrade = self._parser.should_upgrade()
        length = headers.get(b"content-length", b"0")
        if self._is_upgrade and (length != b"0" or b"transfer-encoding" in headers):
            self._raise(UPGRADE_WITH_BODY)
        self._is_in_body, self._head_bytes = True, 0
        if length != b"0":
            self._check_body(int(length))
        if headers.get(b"expect", b"").lower() == b"100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._wait_for(self._limits.head_s)

    def on_body(self, part: bytes) -> None:
        """Keep a part of the body. The bytes are counted as they come, because a client can omit Content-Length.

        Small parts are joined. If a client sends chunks of two bytes, the parts would need 27 times their memory.
        """
        if len(part) >= SMALL_PART_BYTES:
            self._body.append(part)
        elif self._body and isinstance(self._body[-1], bytearray):
            self._body[-1] += part
        else:
            self._body.append(bytearray(part))
        self._body_bytes += len(part)
        self._head_bytes = 0
        self._limits.body_bytes += len(part)
        self._check_body(self._body_bytes)

    def on_message_complete(self) -> None:
        """Answer the request, and begin to wait for the next one."""
        if t.cast(asyncio.Transport, self._transport).is_closing():
            return
        url = httptools.parse_url(self._url)
        path = url.path.decode("latin-1")
        request = Request(
            self._parser.get_method().decode(),
            unquote(path) if "%" in path else path,
            url.query or b"",
            self._headers,
            b"".join(self._body),
        )
        self._forget_body()
        self._is_in_body, self._head_bytes = False, 0
        self._wait_for(IDLE_S)
        stays_open = self._parser.should_keep_alive() and self._parser.get_http_version() != "1.0" and not self._is_upgrade
        self._requests.append((request, stays_open))
        self._answer_requests()

    def _check_body(self, size: int) -> None:
        refusal = self._limits.body_refusal(size)
        if refusal is not None:
            self._raise(refusal)

    def _forget_body(self) -> None:
        self._limits.body_bytes -= self._body_bytes
        self._body, self._body_bytes = [], 0

    def _raise(self, refusal: tuple[int, str]) -> None:
        self._refusal = refusal
        raise RefusedError

    # --- answers ---

    def _answer_requests(self) -> None:
        """Answer the requests that wait, in their order. Read no further ones while one of them or an answer must wait.

        A request that is read waits with its whole body, which does not count any more.
        """
        transport = t.cast(asyncio.Transport, self._transport)
        while self._requests and self._answering is None and not self._is_write_paused:
            request, stays_open = self._requests.popleft()
            answer, with_body = self._app.answer(request), request.method != "HEAD"
            if isinstance(answer, Response):
                self._send(answer, with_body=with_body, stays_open=stays_open)
            else:
                self._answering = self._loop.create_task(self._answer_later(answer, with_body=with_body, stays_open=stays_open))
        must_wait = bool(self._requests) or self._answering is not None or self._is_write_paused
        if must_wait != self._is_read_paused and not transport.is_closing():
            self._is_read_paused = must_wait
            if must_wait:
                transport.pause_reading()
            else:
                transport.resume_reading()

    async def _answer_later(self, answer: Awaitable[Response], *, with_body: bool, stays_open: bool) -> None:
        response = await answer
        self._answering = None
        self._wait_for(IDLE_S)
        self._send(response, with_body=with_body, stays_open=stays_open)
        self._answer_requests()

    def _send(self, response: Response, *, with_body: bool = True, stays_open: bool) -> None:
        """Send an answer by one system call. Otherwise its head would wake up the client before the body is there."""
        if self._is_ending and not self._requests:
            stays_open = False
        head = [
            STATUS_LINES[response.status],
            b"content-type: %b\r\ncontent-length: %d\r\n" % (response.content_type.encode(), len(response.body)),
            *(b"%b: %b\r\n" % header for header in response.headers),
            b"\r\n" if stays_open else b"connection: close\r\n\r\n",
        ]
        self._write(b"".join(head), response.body if with_body else b"")
        if not stays_open:
            self._end()

    def _write(self, head: bytes, body: bytes = b"") -> None:
        transport = t.cast(asyncio.Transport, self._transport)
        if transport.is_closing():
            return
        if len(body) < FEW_WAITING_BYTES:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        if self.waiting_bytes > FEW_WAITING_BYTES:
            self._limits.limit_waiting_bytes(self)

    def _refuse(self, status: int, text: str) -> None:
        """End the connection, with an answer unless an earlier request still waits for its own."""
        if t.cast(asyncio.Transport, self._transport).is_closing():
            return
        if self._answering is None and not self._requests:
            self._send(self._app.refusal(status, text), stays_open=False)
        self._forget_body()
        self._is_ending, self._is_in_body, self._head_bytes = True, False, 0

    def _end(self) -> None:
        self._is_ending = True
        self._requests.clear()
        t.cast(asyncio.Transport, self._transport).close()

    def _wait_for(self, seconds: float) -> None:
        self.active_at_s = time.monotonic()
        self._deadline_s = self.active_at_s + seconds
