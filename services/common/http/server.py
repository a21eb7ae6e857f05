# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The HTTP server of one address."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable

from ..addresses import Address
from .connection import Connection
from .handshake import Handshake
from .limits import HEAD_S, Limits
from .messages import App

BACKLOG = 512
"""Connections that the kernel accepts before the server does."""

SWEEP_S = 1.0
"""Seconds between two searches for connections that take too long."""

GRACE_S = 10
"""Seconds for the requests that are running when the server is stopped."""

TICK_S = 0.1


class HttpServer:
    """Serves ``app`` on one address in an event loop of the caller. Raises OSError if it cannot listen on the address.

    ``context``: the TLS context of new connections. ``max_body_bytes``: 0 for requests without a body. ``head_s``: see HEAD_S.
    """

    def __init__(
        self, address: Address, app: App, context: ssl.SSLContext | None = None, *, max_body_bytes: int = 0, head_s: float = HEAD_S
    ) -> None:
        self._socket = _listen(address)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(str(host), port)
        """The address that it listens on. If port 0 was given, it has the port that the system selected."""
        self._app, self._context = app, context
        self._limits = Limits(max_body_bytes, head_s)

    async def start(self) -> None:
        """Begin to accept connections."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_protocol, sock=self._socket, backlog=BACKLOG)
        self._sweeping = loop.create_task(self._sweep())

    async def stop(self, is_forced: Callable[[], bool] = lambda: False) -> None:
        """Close the idle connections, and the others after their request. After GRACE_S, or if ``is_forced``, close all."""
        self._server.close()
        self._end_connections()
        until_s = time.monotonic() + GRACE_S
        while self._limits.connections and time.monotonic() < until_s and not is_forced():
            await asyncio.sleep(TICK_S)
        self._sweeping.cancel()
        for one in list(self._limits.connections):
            one.drop()

    def replace_context(self, context: ssl.SSLContext, *, end_connections: bool) -> None:
        """Use another TLS context for new connections, and end the open ones after their request if an old authority admitted them."""
        self._context = context
        if end_connections:
            self._end_connections()

    def _new_protocol(self) -> asyncio.Protocol:
        return Connection(self._app, self._limits) if self._context is None else Handshake(self._app, self._limits, self._context)

    def _end_connections(self) -> None:
        for one in list(self._limits.connections):
            one.shutdown()

    async def _sweep(self) -> None:
        """End the connections that take too long, and limit small answers that wait.

        One search for all is cheaper than timers for each request.
        """
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = time.monotonic()
            for one in list(self._limits.connections):
                one.end_if_late(now_s)
            self._limits.limit_waiting_bytes()


def _listen(address: Address) -> socket.socket:
    """Return a listening socket. Without a host it listens on all IPv4 and IPv6 addresses."""
    if not address.host and socket.has_dualstack_ipv6():
        return socket.create_server(("", address.port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
