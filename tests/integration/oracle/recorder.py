# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A scheduler extender that writes down which nodes passed the scheduler's own filters, and then refuses them all.

So nothing is ever bound, and the same cluster can be asked about any number of pods.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REFUSAL = "refused by the recorder"


class Recorder:
    """Pod UID to the nodes that passed, of the last time the scheduler asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._passed: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def record(self, uid: str, nodes: frozenset[str]) -> None:
        """The scheduler has asked."""
        with self._lock:
            self._passed[uid] = nodes

    def passed(self, uid: str) -> frozenset[str]:
        """The nodes that passed; none where the scheduler never asked, because none did."""
        with self._lock:
            return self._passed.get(uid, frozenset())

    def forget(self) -> None:
        """Drop all that was recorded."""
        with self._lock:
            self._passed.clear()


@contextmanager
def recording() -> Iterator[Recorder]:
    """Serve the filter verb of an extender on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    recorder = Recorder(f"http://127.0.0.1:{server.server_address[1]}")
    _Handler.recorder = recorder
    thread = threading.Thread(target=server.serve_forever, name="recorder", daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the scheduler's connection
    # Otherwise headers and body go out as two packets, and the second waits for the first to be acknowledged.
    wbufsize = -1
    disable_nagle_algorithm = True
    recorder: Recorder

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        question = {key.lower(): value for key, value in json.loads(self.rfile.read(length)).items()}
        nodes = question["nodenames"] or []
        self.recorder.record(question["pod"]["metadata"]["uid"], frozenset(nodes))
        answer = json.dumps({"nodeNames": [], "failedNodes": dict.fromkeys(nodes, REFUSAL)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep the test's output clean."""
