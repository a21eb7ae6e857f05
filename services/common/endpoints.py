# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The endpoints /healthz, /readyz and /metrics over HTTP."""

from __future__ import annotations

import re
import socket
import typing as t
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, make_wsgi_app

from .addresses import Address
from .health import Health
from .http_server import BACKLOG, REQUEST_S, EndpointServer, WsgiApp

ODD_VERSION = re.compile(r"version=(?![0-9]{1,9}(?:\.[0-9]{1,9})*\s*(?:[;,]|$))")
"""Matches a format version that is not a number. prometheus_client compares it with a number and raises an error."""


class Endpoints:
    """Serves the endpoints in a background thread. Raises OSError if it cannot listen on the address.

    ``request_s`` limits the time for a whole request. Tests shorten it.
    """

    def __init__(self, address: Address, registry: CollectorRegistry, health: Health, *, request_s: float = REQUEST_S) -> None:
        listener = listen(address)
        host, port = listener.getsockname()[:2]
        self.address = Address(str(host), port)
        """The address that it listens on. If port 0 was given, it has the port that the system selected."""
        self._server = EndpointServer(listener, make_app(registry, health), request_s=request_s)

    def close(self) -> None:
        """Stop serving."""
        self._server.close()


def listen(address: Address) -> socket.socket:
    """Return a listening socket. Without a host it listens on all IPv4 and IPv6 addresses."""
    if not address.host and socket.has_dualstack_ipv6():
        return socket.create_server(("", address.port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)


def make_app(registry: CollectorRegistry, health: Health) -> WsgiApp:
    """Return the WSGI application."""
    metrics: WsgiApp = make_wsgi_app(registry)

    def app(environ: dict[str, t.Any], start_response: t.Callable[..., t.Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _answer(start_response, "405 Method Not Allowed", "only GET and HEAD")
        if path == "/metrics":
            odd = ODD_VERSION.search(environ.get("HTTP_ACCEPT", "")) is not None
            return metrics({**environ, "HTTP_ACCEPT": ""} if odd else environ, start_response)
        if path not in ("/healthz", "/readyz"):
            return _answer(start_response, "404 Not Found", "there are /healthz, /readyz and /metrics")
        wrong = health.unhealthy_reason if path == "/healthz" else health.unready_reason
        return _answer(start_response, "503 Service Unavailable" if wrong else "200 OK", wrong or "ok")

    return app


def _answer(start_response: t.Callable[..., t.Any], status: str, text: str) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
