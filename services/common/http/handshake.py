# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A connection with TLS until its handshake is complete. Then a Connection takes its place."""

from __future__ import annotations

import asyncio
import ssl
import time
import typing as t

from .connection import Connection, client_address
from .limits import Limits
from .messages import App

HANDSHAKE_S = 10.0
"""Seconds for the TLS handshake."""


class Handshake(asyncio.Protocol):
    """The protocol of the socket until TLS reads it, and then the one behind TLS until the handshake is complete."""

    precedence = 0

    def __init__(self, app: App, limits: Limits, context: ssl.SSLContext) -> None:
        self._app, self._limits, self._context = app, limits, context
        self._socket: asyncio.Transport
        self._task: asyncio.Task[None]
        self._early = b""
        """The bytes that came before TLS reads the socket, and after that those of a request that came before the Connection."""

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes of the handshake that wait until the client reads."""
        return self._socket.get_write_buffer_size()

    def end_if_late(self, now_s: float) -> None:
        """Do nothing. TLS keeps the time limit."""

    def drop(self) -> None:
        """End the connection. TLS does not call ``connection_lost`` before the end of the handshake."""
        self._socket.abort()
        self._limits.connections.discard(self)

    def shutdown(self) -> None:
        """End the connection, which has no request."""
        self.drop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the limits of the number of connections, and begin with TLS."""
        self._socket = t.cast(asyncio.Transport, transport)
        self.address, self.active_at_s = client_address(transport), time.monotonic()
        self._limits.add(self)
        self._task = asyncio.create_task(self._shake_hands())

    def data_received(self, data: bytes) -> None:
        """Keep the bytes."""
        self._early += data

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget the connection."""
        self._limits.connections.discard(self)

    async def _shake_hands(self) -> None:
        if self._socket.is_closing():
            return
        loop = asyncio.get_running_loop()
        # ``start_tls`` gives the socket to TLS before the event loop continues.
        loop.call_soon(self._pass_to_tls)
        try:
            transport = await loop.start_tls(self._socket, self, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S)
        # The client is told by an alert of TLS. A log line for each would fill the log.
        except OSError:
            self._limits.connections.discard(self)
            return
        # It may have been dropped meanwhile.
        if not self._socket.is_closing():
            self._complete(t.cast(asyncio.Transport, transport))

    def _pass_to_tls(self) -> None:
        tls, data = t.cast(asyncio.BufferedProtocol, self._socket.get_protocol()), self._take_early()
        if data:
            t.cast(memoryview, tls.get_buffer(len(data)))[: len(data)] = data
            tls.buffer_updated(len(data))

    def _complete(self, transport: asyncio.Transport) -> None:
        connection = Connection(self._app, self._limits)
        connection.begin(self.address, self._socket, transport)
        transport.set_protocol(connection)
        self._limits.connections.discard(self)
        self._limits.connections.add(connection)
        connection.data_received(self._take_early())

    def _take_early(self) -> bytes:
        early, self._early = self._early, b""
        return early
