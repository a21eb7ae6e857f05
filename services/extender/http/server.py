# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The HTTP server: uvicorn with uvloop and httptools, on one or two addresses in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import ssl
import sys
import typing as t
from collections.abc import Awaitable, Callable

import uvicorn
import uvloop

from ...common.addresses import Address
from ...common.endpoints import listen
from .connection.connections import HEAD_S
from .connection.handshakes import TlsServer
from .connection.protocol import Protocol

KEEP_ALIVE_S = 120
"""kube-scheduler keeps idle connections for 90 s (Go's http.DefaultTransport). The server must not be the first that closes them.

If both sides close a connection at the same moment, a request on it is lost, and the scheduler ignores a lost prioritize without a retry.
"""

SWITCH_INTERVAL_S = 0.0005
"""The time after which a thread that calculates yields to one that answers. Python's default is 0.005 s, which a request would notice."""

GRACE_S = 10
"""Seconds for the requests that are running when the program is stopped."""

TICK_S = 0.2
"""The longest time in seconds until a signal is noticed."""


class Listener:
    """One address of the server. ``head_s``: the seconds for a request's header. Raises OSError if it cannot listen on the address."""

    def __init__(self, address: Address, app: t.Any, *, head_s: float = HEAD_S) -> None:
        self._socket = listen(address)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(str(host), port)
        """The address that it listens on. If port 0 was given, it has the port that the system selected."""
        config = uvicorn.Config(
            app,
            http=t.cast(type[asyncio.Protocol], functools.partial(Protocol, head_s=head_s)),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._config = config

    async def start(self, context: ssl.SSLContext | None) -> None:
        """Begin to accept connections."""
        # A copy of the socket, so that the next context can get another one.
        listener = self._socket.dup()
        if context is None:
            await self._server.startup(sockets=[listener])
            return
        state = self._server.server_state
        make = functools.partial(t.cast(t.Any, self._config.http_protocol_class), config=self._config, server_state=state, app_state={})
        self._server.servers = [t.cast(asyncio.Server, TlsServer(listener, make, context, state.connections))]

    async def replace_context(self, context: ssl.SSLContext) -> None:
        """Use another context for new connections. Open connections end after their request, because the old authority admitted them."""
        old = self._server.servers
        connections = list(self._server.server_state.connections)
        await self.start(context)
        for server in old:
            server.close()
        for connection in connections:
            connection.shutdown()

    async def stop(self) -> None:
        """Finish the running requests and close all connections."""
        await self._server.shutdown()
        self._socket.close()

    def force_stop(self) -> None:
        """End the wait of ``stop``."""
        self._server.force_exit = True


class Stopping(t.Protocol):
    """The state of the signals. ``ShutdownSignal`` has it."""

    stopping: bool
    force: bool


class HttpServer:
    """The addresses of the program. ``status`` is None if there is no second one. ``stopping``: a signal that ends ``run``."""

    def __init__(self, main: Listener, context: ssl.SSLContext | None, status: Listener | None, stopping: Stopping) -> None:
        self._main, self._context, self._status, self._stopping = main, context, status, stopping

    async def replace_context(self, context: ssl.SSLContext) -> None:
        """Use another TLS context on the main address."""
        self._context = context
        await self._main.replace_context(context)

    @property
    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the main address."""
        return self._context

    def run(self, background: Callable[[], Awaitable[None]], on_started: Callable[[], None]) -> None:
        """Serve until a signal requests the end. ``background`` runs in the event loop meanwhile."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(background, on_started))

    async def _serve(self, background: Callable[[], Awaitable[None]], on_started: Callable[[], None]) -> None:
        await self._main.start(self._context)
        if self._status is not None:
            await self._status.start(None)
        task = asyncio.ensure_future(background())
        gc.collect()
        # The objects of the start live as long as the program. The collector need not visit them again.
        gc.freeze()
        on_started()
        try:
            while not self._stopping.stopping:
                if task.done():
                    task.result()
                await asyncio.sleep(TICK_S)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._stop()

    async def _stop(self) -> None:
        listeners = [listener for listener in (self._main, self._status) if listener is not None]
        ending = asyncio.gather(*(listener.stop() for listener in listeners))
        while not ending.done():
            if self._stopping.force:
                for listener in listeners:
                    listener.force_stop()
            await asyncio.wait([ending], timeout=TICK_S)
        ending.result()
