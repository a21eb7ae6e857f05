# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limits of a connection that uvicorn does not have: their number, and the size and time of a request's header."""

from __future__ import annotations

import asyncio
import time
import typing as t
from collections import Counter
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .....plugins.module_utils.model.codec import encode_json

MAX_CONNECTIONS, MAX_OF_ADDRESS = 512, 256
"""Open connections in sum, and of one client address. The next one replaces an idle one. kube-scheduler has at most 100 idle ones."""

MAX_HEAD_BYTES = 64 * 1024
"""The size limit of the URL with all headers."""

HEAD_S = 10.0
"""Seconds from the first byte of a header to its end."""

UNUSED_S = 120.0
"""Seconds until a connection is closed that has sent nothing. Clients open connections in advance, and use them later."""


class Refusal(t.NamedTuple):
    """The answer to a request that the parser must not continue to read."""

    status: bytes
    text: str


HEAD_TOO_LARGE = Refusal(b"431 Request Header Fields Too Large", f"the URL and the headers have more than {MAX_HEAD_BYTES} bytes")
UPGRADE_WITH_BODY = Refusal(b"400 Bad Request", "a request with a body must not have the header Upgrade: this server has only HTTP/1.1")
NOT_HTTP = Refusal(b"400 Bad Request", "the request is not valid HTTP/1.1: check its first line, its headers and the form of its body")
BODY_HEADERS = (b"content-length", b"transfer-encoding")


class HeadTooLargeError(Exception):
    """The URL and the headers have more than MAX_HEAD_BYTES."""


class UpgradeWithBodyError(Exception):
    """A request has a body and asks for another protocol. The parser does not read the body of such a request."""


class Limited(t.Protocol):
    """A connection that another one can replace, that of the lowest ``precedence`` first. ``address``: that of the client."""

    active_at_s: float

    @property
    def address(self) -> str:
        """Return the address of the client."""

    @property
    def precedence(self) -> int:
        """Return 0 before the end of the TLS handshake."""

    def drop(self) -> None:
        """End the connection."""


def replace_another(new: Limited, connections: set[t.Any]) -> None:
    """Drop a connection if there are too many: the one that was idle for the longest time, of the address with most connections.

    A machine that opens many connections displaces only its own, so that the scheduler's stay. A TLS handshake that is not complete is
    dropped first, so that many machines without a certificate displace no client that has one.
    """
    if len(connections) <= min(MAX_OF_ADDRESS, MAX_CONNECTIONS):
        return
    others: list[Limited] = [one for one in connections if one is not new]
    count = Counter(one.address for one in others)
    if count[new.address] >= MAX_OF_ADDRESS:
        crowded = new.address
    elif len(others) >= MAX_CONNECTIONS:
        handshakes = Counter(one.address for one in others if one.precedence == 0)
        crowded = (handshakes or count).most_common(1)[0][0]
    else:
        return
    dropped = min((one for one in others if one.address == crowded), key=lambda one: (one.precedence, one.active_at_s))
    # It may take a while until the transport calls connection_lost.
    connections.discard(dropped)
    dropped.drop()


def do_nothing() -> None:
    """Do nothing."""


class LimitedProtocol(HttpToolsProtocol):
    """A connection with limits. ``head_s``: as HEAD_S."""

    def __init__(self, *arguments: t.Any, head_s: float = HEAD_S, **options: t.Any) -> None:
        super().__init__(*arguments, **options)
        self._head_s = head_s
        self._head_bytes: int | None = 0
        """The bytes of an incomplete header, 0 between two requests, and None while a body is received."""
        self._deadline: asyncio.TimerHandle | None = None
        self._has_completed = False
        self._refusal = NOT_HTTP
        """The answer if the parser stops."""
        self.active_at_s = 0.0
        self.on_made: Callable[[], None] = do_nothing
        """Is called at the beginning of ``connection_made``."""

    @property
    def address(self) -> str:
        """Return the address of the client."""
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Return whether no request is answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def precedence(self) -> int:
        """Return 1 or 2 for an idle connection and for one with a request. The lowest is replaced first."""
        return 1 if self.is_idle else 2

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the limits of the number of connections, and begin to wait for the first byte."""
        self.on_made()
        self.active_at_s = time.monotonic()
        super().connection_made(transport)
        replace_another(self, self.connections)
        self._deadline = self.loop.call_later(UNUSED_S, self.drop)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on, and count those of an incomplete header."""
        before, self._has_completed = self._head_bytes, False
        super().data_received(data)
        if self._head_bytes is None or (self._has_completed and not self._head_bytes):
            return
        if not self._has_completed:
            self._head_bytes = (before or 0) + len(data)
        if self._has_completed or not before:
            self._forget_deadline()
            self._deadline = self.loop.call_later(self._head_s, self.drop)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Note the first byte of a header. After another request in the same data the number of bytes is not known."""
        self._head_bytes = max(1, self._head_bytes or 0)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin to answer the request. An error of it calls ``send_400_response``. Raises HeadTooLargeError and UpgradeWithBodyError.

        A request to use another protocol, such as HTTP/2, is answered as one of HTTP/1.1, and the connection ends (RFC 9110, section 7.8).
        """
        self._forget_deadline()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES:
            self._refusal = HEAD_TOO_LARGE
            raise HeadTooLargeError
        is_upgrade = self.parser.should_upgrade()
        if is_upgrade and any(name in BODY_HEADERS and value != b"0" for name, value in self.headers):
            self._refusal = UPGRADE_WITH_BODY
            raise UpgradeWithBodyError
        self._head_bytes = None
        super().on_headers_complete()
        if is_upgrade:
            # The parser reads no further request.
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._head_bytes, self._has_completed = 0, True
        self.note_request()
        super().on_message_complete()

    def note_request(self) -> None:
        """Note that a whole request was received."""
        self._forget_deadline()
        self.active_at_s = time.monotonic()

    def note_answer(self) -> None:
        """Note a whole request that was answered without uvicorn. It needs no new timer, because ``timeout_keep_alive_handler`` has one."""
        if self._deadline is not None:
            self._forget_deadline()
        self.active_at_s = time.monotonic()
        self.server_state.total_requests += 1
        if self.timeout_keep_alive_task is None:
            self._keep_alive(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, or wait for the rest of the time after the last request."""
        rest_s = self.active_at_s + self.timeout_keep_alive - time.monotonic()
        if rest_s > 0:
            self._keep_alive(rest_s)
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, _msg: str) -> None:
        """Answer a request that cannot be parsed. uvicorn's text names no reason, and is not sent."""
        self._refuse(self._refusal)

    def drop(self) -> None:
        """End the connection."""
        self.transport.abort()

    def _refuse(self, refusal: Refusal) -> None:
        body = encode_json({"error": refusal.text})
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nconnection: close\r\n" % refusal.status
        self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        self.transport.close()

    def _keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
