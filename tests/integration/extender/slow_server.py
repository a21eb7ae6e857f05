# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server in front of an extender that passes requests on, and answers later."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from urllib.parse import urlsplit

from lab.http_handler import QuietHandler


class SlowServer(ThreadingHTTPServer):
    """Answers as the extender with the URL, ``delay_s`` later. ``requests``: how many there were."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.extender = urlsplit(url).netloc
        self.delay_s = 0.0
        self.requests = 0

    @property
    def url(self) -> str:
        """Return the URL for the scheduler."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def slow_server(url: str) -> Iterator[SlowServer]:
    """Run a server in front of the extender with this URL."""
    with SlowServer(url) as server:
        thread = threading.Thread(target=server.serve_forever, name="slow-server", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(QuietHandler):
    server: SlowServer

    def do_POST(self) -> None:
        self.server.requests += 1
        body = self.body()
        time.sleep(self.server.delay_s)
        connection = http.client.HTTPConnection(self.server.extender, timeout=10)
        try:
            connection.request("POST", self.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        # A client that has ended the request has closed its connection.
        with suppress(OSError):
            self.answer(answer.status, text, "application/json")
            self.wfile.flush()
