# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read the body of a request within limits of size and time."""

from __future__ import annotations

import asyncio
import typing as t
from collections.abc import Awaitable, Callable, Mapping

Receive = Callable[[], Awaitable[Mapping[str, t.Any]]]


class BodyError(Exception):
    """The body was not received. ``status`` is the code of the answer, or 0 if the client is gone."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


LARGE_BODIES = 4
"""The number of bodies of the maximum size that can be received at the same time."""


class BodyLimits:
    """The limit of one body, and of all bodies that are received at the same time. ``received``: their bytes until now."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.max_sum, self.received = max_bytes, LARGE_BODIES * max_bytes, 0

    def check(self, size: int) -> None:
        """Raise BodyError if a body has more bytes than the limit."""
        if size > self.max_bytes:
            text = f"the body has more than {self.max_bytes} bytes: raise server.max_body_bytes, or set nodeCacheCapable: true"
            raise BodyError(413, text)
        if self.received > self.max_sum:
            raise BodyError(503, f"the bodies that are received at the same time have more than {self.max_sum} bytes: try again")


async def read_body(headers: t.Iterable[tuple[bytes, bytes]], receive: Receive, limits: BodyLimits, *, timeout_s: float) -> bytes:
    """Return the body. Raises BodyError.

    The bytes are counted as they come, because a client can omit or falsify Content-Length.
    """
    for name, value in headers:
        if name == b"content-length":
            limits.check(int(value) if value.isdigit() and len(value) < 20 else limits.max_bytes + 1)
    try:
        async with asyncio.timeout(timeout_s):
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                limits.check(len(message["body"]))
                return t.cast(bytes, message["body"])
            return await _rest(message, receive, limits)
    except TimeoutError:
        raise BodyError(408, f"the body was not complete after {timeout_s:g} s") from None


async def _rest(message: Mapping[str, t.Any], receive: Receive, limits: BodyLimits) -> bytes:
    parts, size = [], 0
    try:
        while True:
            if message["type"] != "http.request":
                raise BodyError(0, "the client has closed the connection")
            part = message["body"]
            size += len(part)
            limits.received += len(part)
            limits.check(size)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await receive()
    finally:
        limits.received -= size
