# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The endpoints /healthz, /readyz and /metrics of a program that has no other ones, in a thread."""

from __future__ import annotations

import asyncio
import threading

import uvloop
from prometheus_client import CollectorRegistry

from ..addresses import Address
from ..health import Health
from .limits import HEAD_S
from .messages import Request, Response, metrics_response, probe_response, text_response
from .server import HttpServer


class Endpoints:
    """Serves the endpoints in a background thread. Raises OSError if it cannot listen on the address. ``head_s``: as in HttpServer."""

    def __init__(self, address: Address, registry: CollectorRegistry, health: Health, *, head_s: float = HEAD_S) -> None:
        self._registry, self._health = registry, health
        self._server = HttpServer(address, self, head_s=head_s)
        self.address = self._server.address
        self._loop = uvloop.new_event_loop()
        self._loop.run_until_complete(self._server.start())
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections and the address."""
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def answer(self, request: Request) -> Response:
        """Return an answer. It needs no time to compute."""
        path = request.path
        if request.method not in ("GET", "HEAD"):
            return text_response(405, "only GET and HEAD")
        if path in ("/healthz", "/readyz"):
            return probe_response(self._health.unhealthy_reason if path == "/healthz" else self._health.unready_reason)
        if path != "/metrics":
            return text_response(404, "there are /healthz, /readyz and /metrics")
        try:
            return metrics_response(self._registry, request.query, request.headers)
        except Exception as error:  # of a metric
            return text_response(500, f"{type(error).__name__}: {error}")

    def refusal(self, status: int, text: str) -> Response:
        """Return the answer to a request that breaks a limit."""
        return text_response(status, text)
