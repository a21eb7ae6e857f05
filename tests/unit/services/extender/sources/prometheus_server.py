# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A server that answers instant queries in the form of Prometheus' HTTP API, and exporters, with the faults of real ones."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import typing as t
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NOW_S = 1_800_000_000.0
"""Prometheus' clock: another one than that of this machine."""

Labels = dict[str, str]
Fault = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers one request by the server's fault, or by its data."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        form = parse_qs(body)
        self.server.asked.append(form["query"][0])
        if not re.fullmatch("[0-9]+(ms|s)", form["timeout"][0]):  # Prometheus accepts no fraction with a unit
            return self.reply_json(400, {"status": "error", "errorType": "bad_data", "error": 'invalid parameter "timeout"'})
        return self._answer()

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self._answer()

    def _answer(self) -> None:
        self.server.credentials.append(self.headers.get("Authorization", ""))
        self.server.fault(self)

    def reply(self, status: int, content_type: str, body: bytes, *, missing: int = 0) -> None:
        """Send an answer. ``missing``: bytes at the end that are announced and not sent."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) - missing])
        if missing:
            self.close_connection = True

    def reply_json(self, status: int, answer: t.Any) -> None:
        self.reply(status, "application/json", json.dumps(answer, separators=(",", ":")).encode())

    def log_message(self, *_arguments: t.Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Answers ``vectors`` by query, or the text ``metrics`` to GET. ``asked``: the queries in their order.

    ``fault`` replaces the answer. ``released`` ends the faults that wait.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.vectors: dict[str, list[tuple[Labels, str]]] = {}
        self.metrics = ""
        self.asked: list[str] = []
        self.credentials: list[str] = []
        self.fault: Fault = answer_data
        self.now_s = NOW_S
        self.warnings: list[str] = []
        self.released = threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def put(self, metric: str, value: str, age_s: float, *, window_s: int = 60, **labels: str) -> None:
        """Add a counter's rate and the time of its newest sample."""
        self.vectors.setdefault(f"rate({metric}[{window_s}s])", []).append((labels, value))
        self.vectors.setdefault(f"timestamp({metric})", []).append((labels, str(self.now_s - age_s)))

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Ignore the errors of a connection, which some tests break."""

    def stop(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()


def answer_data(handler: Handler) -> None:
    server = handler.server
    if handler.command == "GET":
        return handler.reply(200, "text/plain; version=0.0.4", server.metrics.encode())
    found = server.vectors.get(server.asked[-1], [])
    result = [{"metric": labels, "value": [server.now_s, value]} for labels, value in found]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return handler.reply_json(200, {**answer, "warnings": server.warnings} if server.warnings else answer)


def status(code: int, text: str = "no") -> Fault:
    return lambda handler: handler.reply(code, "text/plain", text.encode())


def html(handler: Handler) -> None:
    handler.reply(200, "text/html; charset=utf-8", b"<html><body>Log in</body></html>")


def garbage(handler: Handler) -> None:
    handler.reply(200, "application/json", b'{"status": "success", "data": {"resultType": ')


def truncated(handler: Handler) -> None:
    handler.reply(200, "application/json", b'{"status": "success", "data": {"resultType": "vector", "result": []}}', missing=20)


def large(handler: Handler) -> None:
    handler.reply(200, "application/json", b'{"status": "success", "x": "' + b"x" * 10_000_000 + b'"}')


def silent(handler: Handler) -> None:
    handler.server.released.wait(30)
    handler.close_connection = True


def dripping(start: bytes, rest: bytes = b"x") -> Fault:
    """Send the start of an answer, and ``rest`` again and again, each before a timeout for one read would end."""

    def drip(handler: Handler) -> None:
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.wfile.write(start)
            while not handler.server.released.wait(0.02):
                handler.wfile.write(rest)
                handler.wfile.flush()

    return drip


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DRIPPING = {
    "status": dripping(b"HTTP/1.1 200 "),
    "header": dripping(_HEAD + b"X-Long: "),
    "continue": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": dripping(_HEAD + b"Content-Length: 999999\r\n\r\n"),
    "chunk size": dripping(_CHUNKED + b"1;"),
    "chunk": dripping(_CHUNKED + b"fffff\r\n"),
    "trailer": dripping(_CHUNKED + b"0\r\n", b"A: b\r\n"),
}
"""Answers that arrive slowly in one of their parts, and never as a whole."""


def of_type(result_type: str, result: t.Any) -> Fault:
    return lambda handler: handler.reply_json(200, {"status": "success", "data": {"resultType": result_type, "result": result}})


def refused_query(handler: Handler) -> None:
    handler.reply_json(400, {"status": "error", "errorType": "bad_data", "error": "parse error: unexpected end of input"})


def redirect_to(location: str) -> Fault:
    def redirect(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", location)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return redirect


def path_of(asked: str) -> tuple[str, dict[str, list[str]]]:
    """Return the path of a GET request and its parameters."""
    parts = urlsplit(asked)
    return parts.path, parse_qs(parts.query)
