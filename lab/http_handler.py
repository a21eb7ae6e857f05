# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handler of the small HTTP servers of the lab and of the tests."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections open, sends each answer in one packet, and prints no line for a request."""

    protocol_version = "HTTP/1.1"
    # Otherwise headers and body go out as two packets, and the second waits for the first to be acknowledged.
    wbufsize = -1
    disable_nagle_algorithm = True

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, status: int, body: bytes, content_type: str = "text/plain") -> None:
        """Send the answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""
