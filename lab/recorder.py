# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler extender that records which nodes passed the scheduler's own filters, and then rejects all of them.

Therefore nothing is ever bound, and the same cluster can be asked about any number of pods.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lab.http_handler import QuietHandler

REFUSAL = "refused by the recorder"


class Recorder:
    """The nodes that passed by pod UID, as of the scheduler's last request for the pod. ``url`` is the extender's urlPrefix."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._passed: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def record(self, uid: str, nodes: frozenset[str]) -> None:
        """Note a request of the scheduler."""
        with self._lock:
            self._passed[uid] = nodes

    def passed(self, uid: str) -> frozenset[str]:
        """Return the nodes that passed. They are none if the scheduler sent no request, because it sends none if no node passes."""
        with self._lock:
            return self._passed.get(uid, frozenset())

    def forget(self) -> None:
        """Drop all that was recorded."""
        with self._lock:
            self._passed.clear()


@contextmanager
def recording() -> Iterator[Recorder]:
    """Serve the filter verb of an extender on a free port of this machine."""
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, name="recorder", daemon=True)
    thread.start()
    try:
        yield server.recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.recorder = Recorder(f"http://127.0.0.1:{self.server_address[1]}")


class _Handler(QuietHandler):
    server: _Server

    def do_POST(self) -> None:
        question = {key.lower(): value for key, value in json.loads(self.body()).items()}
        nodes = question["nodenames"] or []
        self.server.recorder.record(question["pod"]["metadata"]["uid"], frozenset(nodes))
        answer = json.dumps({"nodeNames": [], "failedNodes": dict.fromkeys(nodes, REFUSAL)}).encode()
        self.answer(200, answer, "application/json")
