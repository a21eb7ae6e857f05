# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Send the head and the body of an answer with one system call.

uvicorn writes them one after the other, and uvloop sends each immediately. The head then wakes up the client before the body is there,
which takes as much time as the rest of a request with 500 nodes.
"""

from __future__ import annotations

import asyncio
import typing as t

HEAD = b"HTTP/1.1 "


class JoinedWrites:
    """A transport that keeps the head of an answer until the body follows, or until the event loop continues without it."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""
        # Each request asks for it, and __getattr__ is slow.
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> t.Any:
        """Return an attribute of the transport that is used unchanged."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data together with the head that was kept, or keep it if it is a head."""
        head = self._head
        if head:
            self._head = b""
            self._transport.writelines((head, data))
        elif data.startswith(HEAD):
            self._head = data
            # The answer to HEAD has no body.
            self._loop.call_soon(self.flush)
        else:
            self._transport.write(data)

    def send(self, answer: bytes) -> None:
        """Send a whole answer, after the head that was kept."""
        if self._head:
            self.flush()
        self._transport.write(answer)

    def flush(self) -> None:
        """Send the head if it was kept."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Close the transport after everything was sent."""
        self.flush()
        self._transport.close()
