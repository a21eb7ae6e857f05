# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""/healthz, /readyz and /metrics over HTTP."""

from __future__ import annotations

import socket
import socketserver
import threading
import typing as t
from collections.abc import Iterable
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from .address import Address
from .watchdog import Watchdog

SILENT_CLIENT_S = 10.0

App = t.Callable[[dict[str, t.Any], t.Callable[..., t.Any]], Iterable[bytes]]


class Endpoints:
    """Serves in a thread of its own, one more for each request. Raises OSError where the address cannot be listened on."""

    def __init__(self, address: Address, registry: CollectorRegistry, watchdog: Watchdog) -> None:
        server_class = _Server6 if ":" in address.host or (not address.host and socket.has_dualstack_ipv6()) else _Server
        self._server = server_class((address.host, address.port), _Handler)
        self._server.set_app(make_app(registry, watchdog))
        self._thread = threading.Thread(target=self._server.serve_forever, name="endpoints", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        """Where it listens: the port is a real one also where 0 was asked for."""
        host, port = self._server.server_address[:2]
        return Address(str(host), port)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def make_app(registry: CollectorRegistry, watchdog: Watchdog) -> App:
    """The WSGI application."""
    metrics: App = make_wsgi_app(registry)

    def app(environ: dict[str, t.Any], start_response: t.Callable[..., t.Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _answer(start_response, "405 Method Not Allowed", "only GET and HEAD")
        if path == "/metrics":
            return metrics(environ, start_response)
        if path not in ("/healthz", "/readyz"):
            return _answer(start_response, "404 Not Found", "there are /healthz, /readyz and /metrics")
        wrong = watchdog.unhealthy if path == "/healthz" else watchdog.unready
        return _answer(start_response, "503 Service Unavailable" if wrong else "200 OK", wrong or "ok")

    return app


def _answer(start_response: t.Callable[..., t.Any], status: str, text: str) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Without the look-up of the machine's name, which takes long where DNS is broken."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """A client that has gone away is nobody's trouble."""


class _Server6(_Server):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        """All addresses are those of both families."""
        if not self.server_address[0]:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(WSGIRequestHandler):
    timeout = SILENT_CLIENT_S

    def log_message(self, format: str, *args: t.Any) -> None:
        """Probes and scrapes are no news."""

    def address_string(self) -> str:
        """Without a look-up of the client's name."""
        return str(self.client_address[0])
