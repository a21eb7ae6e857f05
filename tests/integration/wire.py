# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wire between a module and the API server, on which answers can be held back in their middle, and then delivered or lost."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from lab.cluster import Cluster
from tests.integration.fault_users import FAULTS

CHUNK_BYTES = 64 * 1024


class Wire:
    """Carries bytes of TLS that it cannot read. ``held`` is set when it holds something back."""

    def __init__(self, address: tuple[str, int], *, hold_after_bytes: float) -> None:
        self.held = threading.Event()
        self._address = address
        self._allowed_bytes = hold_after_bytes
        self._go_on = threading.Event()
        self._cut = self._keeps = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """From now on hold back what the API server says."""
        self._allowed_bytes = 0

    def release(self) -> None:
        """Deliver what was held, and hold nothing any more."""
        self._allowed_bytes = math.inf
        self._go_on.set()

    def cut(self) -> None:
        """Lose what was held, and break its connections; later ones are carried to their end."""
        self._cut = True
        self.release()

    def keep(self) -> None:
        """From now on keep the connections to the API server when the client ends, as some load balancers do."""
        self._keeps = True

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                inner, _address = self._listener.accept()
                threading.Thread(target=self._carry, args=(inner,), daemon=True).start()

    def _carry(self, inner: socket.socket) -> None:
        with inner:
            try:
                with socket.create_connection(self._address) as outer:
                    threading.Thread(target=self._carry_requests, args=(inner, outer), daemon=True).start()
                    self._carry_answers(outer, inner)
            except OSError:
                pass  # the API server is gone
            with contextlib.suppress(OSError):
                inner.shutdown(socket.SHUT_RDWR)  # closing alone does not end the other thread's wait

    def _carry_answers(self, outer: socket.socket, inner: socket.socket) -> None:
        while chunk := outer.recv(CHUNK_BYTES):
            self._allowed_bytes -= len(chunk)
            if self._allowed_bytes < 0:
                self.held.set()
                self._go_on.wait()
                if self._cut:
                    return
            inner.sendall(chunk)

    def _carry_requests(self, inner: socket.socket, outer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := inner.recv(CHUNK_BYTES):
                outer.sendall(chunk)
            if not self._keeps:
                outer.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wire(cluster: Cluster, folder: Path, *, hold_after_bytes: float = math.inf, user: Path) -> Iterator[tuple[Wire, Path]]:
    """A wire to the cluster's API server, and a kubeconfig in ``folder`` for ``user`` that leads over it.

    A service account: roles apply to it, unlike to the administrator.
    """
    FAULTS.note(cluster)
    host, port = cluster.server.removeprefix("https://").split(":")
    found = Wire((host, int(port)), hold_after_bytes=hold_after_bytes)
    kubeconfig = folder / f"wire-{found.port}"
    kubeconfig.write_text(user.read_text().replace(cluster.server, f"https://127.0.0.1:{found.port}"))
    try:
        yield found, kubeconfig
    finally:
        found.close()
