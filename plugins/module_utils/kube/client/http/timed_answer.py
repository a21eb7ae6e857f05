# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Answers with one limit for their whole time. The timeout of a socket limits each wait, and a server can end each wait with one byte."""

from __future__ import annotations

import http.client
import io
import socket
import time
import typing as t


class TimedAnswer(http.client.HTTPResponse):
    """An answer whose status, headers and body must all be read within the timeout that the socket has when the request was sent."""

    def __init__(self, sock: socket.socket, *arguments: t.Any, **options: t.Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_TimedReads(self.fp.detach(), sock))


class _TimedReads(io.RawIOBase):
    """The data of a socket, until its timeout has passed since the constructor was called."""

    def __init__(self, data: io.RawIOBase, sock: socket.socket) -> None:
        self._data, self._sock = data, sock
        self._end_s = time.monotonic() + (sock.gettimeout() or 0.0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: t.Any) -> t.Any:
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)
        return self._data.readinto(buffer)

    def close(self) -> None:
        self._data.close()
        super().close()
