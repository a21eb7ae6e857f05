# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many clients that never finish a request: they send a byte of a header now and then, or nothing."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import threading
from collections.abc import Iterator

START = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "
FILES_BESIDE_THE_SOCKETS = 500


class Crowd:
    """``clients`` connections to one port of this machine; a thread keeps all of them slow until ``close``."""

    def __init__(self, port: int, clients: int, *, source: str = "127.0.0.1", pause_s: float = 0.5) -> None:
        _allow_files(clients + FILES_BESIDE_THE_SOCKETS)
        self._ended = threading.Event()
        self._pause_s = pause_s
        self.sockets = [_connect(port, source) for _ in range(clients)]
        self._thread = threading.Thread(target=self._drip, daemon=True)
        self._thread.start()

    def _drip(self) -> None:
        while not self._ended.wait(self._pause_s):
            for client in self.sockets:
                with contextlib.suppress(OSError):
                    client.send(b"x")

    @property
    def connected(self) -> int:
        """The clients that the server has not closed."""
        poll = select.poll()
        for client in self.sockets:
            poll.register(client, select.POLLIN)
        return len(self.sockets) - len(poll.poll(0))

    def close(self) -> None:
        """End the thread and all connections."""
        self._ended.set()
        self._thread.join()
        for client in self.sockets:
            client.close()


@contextlib.contextmanager
def crowd_of(port: int, clients: int, *, source: str = "127.0.0.1") -> Iterator[Crowd]:
    """A crowd that is gone when the block ends."""
    crowd = Crowd(port, clients, source=source)
    try:
        yield crowd
    finally:
        crowd.close()


def _connect(port: int, source: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))
    with contextlib.suppress(OSError):  # closed by the server already
        client.sendall(START)
    return client


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
