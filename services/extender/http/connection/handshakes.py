# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A server for TLS that counts a connection from the moment when it is accepted.

uvicorn sees a connection only after its TLS handshake. A client that connects and sends nothing would have no limit but a minute of time.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
import typing as t
from collections.abc import Callable

from .connections import LimitedProtocol, replace_another

HANDSHAKE_S = 10.0
"""Seconds for the TLS handshake."""

PAUSE_S = 0.5
"""Seconds until the next attempt if the process has too many open files."""


class Handshake:
    """A connection until the end of its TLS handshake. It is the first that another one replaces."""

    precedence = 0

    def __init__(self, address: str, task: asyncio.Task[t.Any]) -> None:
        self.address, self._task = address, task
        self.active_at_s = time.monotonic()

    def drop(self) -> None:
        """End the connection."""
        self._task.cancel()

    def shutdown(self) -> None:
        """End the connection. It has no request. uvicorn calls it at its end."""
        self.drop()


class TlsServer:
    """Accepts connections of a listening socket. ``make`` makes the protocol of each. ``connections`` are those of the whole server."""

    def __init__(
        self, listener: socket.socket, make: Callable[[], LimitedProtocol], context: ssl.SSLContext, connections: set[t.Any]
    ) -> None:
        self._listener, self._make, self._context, self._connections = listener, make, context, connections
        self._handshakes: set[Handshake] = set()
        listener.setblocking(False)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())
        self._accepting.add_done_callback(lambda _task: listener.close())

    def close(self) -> None:
        """Accept no more connections, and end those without a complete handshake."""
        self._accepting.cancel()
        for handshake in self._handshakes:
            handshake.drop()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        await asyncio.wait([self._accepting])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(PAUSE_S)
            else:
                self._begin(connection, str(address[0]))

    def _begin(self, connection: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol = self._make()
        task = loop.create_task(self._shake_hands(connection, protocol))
        handshake = Handshake(address, task)
        # The connection counts from then on. Both together would count as two, and the protocol could replace its own handshake.
        protocol.on_made = lambda: self._end(handshake)
        self._handshakes.add(handshake)
        self._connections.add(handshake)
        task.add_done_callback(lambda _task: self._end(handshake))
        replace_another(handshake, self._connections)

    async def _shake_hands(self, connection: socket.socket, protocol: LimitedProtocol) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S)
        # The client is told by an alert of TLS. A log line for each would fill the log.
        except OSError:
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise

    def _end(self, handshake: Handshake) -> None:
        self._handshakes.discard(handshake)
        self._connections.discard(handshake)
