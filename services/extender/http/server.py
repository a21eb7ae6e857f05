# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The event loop of the program, with the servers of its one or two addresses."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Awaitable, Callable, Sequence

import uvloop

from ...common.http.server import HttpServer
from ...common.signals import ShutdownSignal

SWITCH_INTERVAL_S = 0.0005
"""The time after which a thread that calculates yields to one that answers. Python's default is 0.005 s, which a request would notice."""

TICK_S = 0.2
"""The longest time in seconds until a signal is noticed."""


def run_servers(
    servers: Sequence[HttpServer], shutdown: ShutdownSignal, background: Callable[[], Awaitable[None]], on_started: Callable[[], None]
) -> None:
    """Serve until a signal requests the end. ``background`` runs in the event loop meanwhile."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(servers, shutdown, background, on_started))


async def _serve(
    servers: Sequence[HttpServer], shutdown: ShutdownSignal, background: Callable[[], Awaitable[None]], on_started: Callable[[], None]
) -> None:
    for server in servers:
        await server.start()
    task = asyncio.ensure_future(background())
    gc.collect()
    # The objects of the start live as long as the program. The collector need not visit them again.
    gc.freeze()
    on_started()
    try:
        while not shutdown.stopping:
            if task.done():
                task.result()
            await asyncio.sleep(TICK_S)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.gather(*(server.stop(lambda: shutdown.force) for server in servers))
