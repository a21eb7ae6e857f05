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


async def read_body(headers: t.Iterable[tuple[bytes, bytes]], receive: Receive, *, max_bytes: int, timeout_s: float) -> bytes:
    """Return the body. Raises BodyError.

    The bytes are counted as they come, because a client can omit or falsify Content-Length.
    """
    for name, value in headers:
        if name == b"content-length" and (not value.isdigit() or int(value) > max_bytes):
            raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(timeout_s):
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                return _checked(message["body"], max_bytes)
            return await _rest(message, receive, max_bytes)
    except TimeoutError:
        raise BodyError(408, f"the body was not complete after {timeout_s:g} s") from None


async def _rest(message: Mapping[str, t.Any], receive: Receive, max_bytes: int) -> bytes:
    parts, size = [], 0
    while True:
        if message["type"] != "http.request":
            raise BodyError(0, "the client has closed the connection")
        part = message["body"]
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()


def _checked(body: bytes, max_bytes: int) -> bytes:
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    return body


def _too_large(max_bytes: int) -> BodyError:
    return BodyError(413, f"the body has more than {max_bytes} bytes: raise server.max_body_bytes, or set nodeCacheCapable: true")
