# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handler of the small servers keeps connections, sends an answer in one packet, and prints nothing."""

from __future__ import annotations

import socket
import threading
from http.server import HTTPServer

import pytest

from lab.http_handler import QuietHandler

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"


class Echo(QuietHandler):
    def do_POST(self) -> None:
        self.answer(201, self.body().upper(), "text/x")


def test_two_requests_on_one_connection(capfd: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        with socket.create_connection(server.server_address[:2], timeout=10) as client:
            for _ in range(2):
                client.sendall(REQUEST)
                head, _blank, body = client.recv(65536).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 201 ") and b"Content-Type: text/x" in head
                assert body == b"HELLO"
        server.shutdown()
        thread.join()
    assert capfd.readouterr() == ("", "")
