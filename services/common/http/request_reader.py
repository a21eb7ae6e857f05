# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The bytes of a client become requests, through the parser httptools.

The callbacks of the parser call neither the transport nor the application. So nothing is answered, paused or closed inside a callback, and
the state of a request that is half read changes only here.
"""

from __future__ import annotations

import enum
import time
import typing as t
from collections import deque
from urllib.parse import unquote

import httptools

from .limits import Limits
from .messages import Refusal, Request

MAX_HEAD_BYTES = 64 * 1024
"""The size limit of the URL with all headers."""

SMALL_PART_BYTES = 1024

OTHER_BYTES = len(b": \r\n")
"""The bytes of a header beside its name and its value."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

HEAD_TOO_LARGE = Refusal(431, f"the URL and the headers have more than {MAX_HEAD_BYTES} bytes")
UPGRADE_WITH_BODY = Refusal(400, "a request with a body must not have the header Upgrade: this server has only HTTP/1.1")
NOT_HTTP = Refusal(400, "the request is not valid HTTP/1.1: check its first line, its headers and the form of its body")


class Phase(enum.Enum):
    """The part of a request that is read now.

    | phase       | until                        | then                                                         |
    |-------------|------------------------------|--------------------------------------------------------------|
    | IDLE        | the first byte of a request  | HEAD                                                         |
    | HEAD        | the end of the header        | BODY, also if the request has no body                        |
    | BODY        | the end of the body          | IDLE, or ENDED if the request is the last one                |
    | each        | a refusal                    | ENDED                                                        |
    | IDLE, HEAD  | a shutdown                   | ENDED. In BODY the request becomes the last one              |
    | ENDED       |                              | the rest of what the client sends is ignored                 |
    """

    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    ENDED = enum.auto()


class StopError(Exception):
    """The parser must stop, because the phase is ENDED."""


class RequestReader:
    """The requests of one connection. ``since_s``: the time when the phase began."""

    phase: Phase
    since_s: float

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.unanswered: deque[Request | Refusal | bytes] = deque()
        """Requests in the order of their answers. A refusal is the last one. Bytes are an answer themselves."""
        self._parser: t.Any = httptools.HttpRequestParser(self)
        self._incomplete_bytes = 0
        """The bytes of an incomplete header, or those after the last part of a body, which are chunk sizes and trailers."""
        self._is_last = False
        """No other request follows the one whose body is read."""
        self._body: list[bytes | bytearray] = []
        self._body_bytes = 0
        self._enter(Phase.IDLE)

    def feed(self, data: bytes) -> None:
        """Pass the bytes to the parser, and count those of an incomplete header or trailer.

        If a header begins in the same data after another request, its first bytes do not count.
        """
        if self.phase is Phase.ENDED:
            return
        self._incomplete_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # The request is answered as one of HTTP/1.1.
        except httptools.HttpParserError:
            self.refuse(NOT_HTTP)
        if self._incomplete_bytes > MAX_HEAD_BYTES:
            self.refuse(HEAD_TOO_LARGE)

    def refuse(self, refusal: Refusal) -> None:
        """Read nothing more. The refusal is the last answer, unless the end was reached before."""
        if self.phase is not Phase.ENDED:
            self.unanswered.append(refusal)
            self.end()

    def end_after_request(self) -> None:
        """Read only the rest of a body that has begun."""
        if self.phase is Phase.BODY:
            self._is_last = True
        else:
            self.end()

    def end(self) -> None:
        """Read nothing more."""
        self._forget_body()
        self._enter(Phase.ENDED)

    def close(self) -> None:
        """Forget what was read, and the parser, which refers to this object."""
        self.end()
        self.unanswered.clear()
        self._parser = None

    def restart_time(self) -> None:
        """Begin the time of this phase again."""
        self.since_s = time.monotonic()

    # --- events of the parser ---

    def on_message_begin(self) -> None:
        """Begin with a header. Raises StopError after the last request."""
        if self.phase is Phase.ENDED:
            raise StopError
        self._url, self._headers = b"", dict[bytes, bytes]()
        self._parsed_bytes = 0
        self._enter(Phase.HEAD)

    def on_url(self, part: bytes) -> None:
        """Keep a part of the URL."""
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Of two with the same name the last one counts."""
        self._parsed_bytes += len(name) + len(value) + OTHER_BYTES
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Begin with the body. Raises StopError if the header is too large, or if there is a body that cannot be read.

        A request to use another protocol, such as HTTP/2, is answered as one of HTTP/1.1, and the connection ends (RFC 9110, section 7.8).
        The parser does not read the body of such a request.
        """
        headers, parser = self._headers, self._parser
        if len(self._url) + self._parsed_bytes > MAX_HEAD_BYTES:
            self._stop(HEAD_TOO_LARGE)
        is_upgrade = parser.should_upgrade()
        length = headers.get(b"content-length", b"0")
        if is_upgrade and (length != b"0" or b"transfer-encoding" in headers):
            self._stop(UPGRADE_WITH_BODY)
        if length != b"0":
            self._check_body(int(length))
        if headers.get(b"expect", b"").lower() == b"100-continue":
            self.unanswered.append(CONTINUE)
        self._is_last = is_upgrade or not parser.should_keep_alive() or parser.get_http_version() == "1.0"
        self._incomplete_bytes = 0
        self._enter(Phase.BODY)

    def on_body(self, part: bytes) -> None:
        """Keep a part of the body. The bytes are counted as they come, because a client can omit Content-Length.

        Small parts are joined. If a client sends chunks of two bytes, the parts would need 27 times their memory.
        """
        if len(part) >= SMALL_PART_BYTES:
            self._body.append(part)
        elif self._body and isinstance(self._body[-1], bytearray):
            self._body[-1] += part
        else:
            self._body.append(bytearray(part))
        self._body_bytes += len(part)
        self._incomplete_bytes = 0
        self._limits.body_bytes += len(part)
        self._check_body(self._body_bytes)

    def on_message_complete(self) -> None:
        """Have the request answered. Its body does not count any more."""
        url = httptools.parse_url(self._url)
        path = url.path.decode("latin-1")
        request = Request(
            self._parser.get_method().decode(),
            unquote(path) if "%" in path else path,
            url.query or b"",
            self._headers,
            b"".join(self._body),
        )
        self.unanswered.append(request)
        self._forget_body()
        self._incomplete_bytes = 0
        self._enter(Phase.ENDED if self._is_last else Phase.IDLE)

    # --- the state ---

    def _enter(self, phase: Phase) -> None:
        self.phase, self.since_s = phase, time.monotonic()

    def _check_body(self, size: int) -> None:
        refusal = self._limits.body_refusal(size)
        if refusal is not None:
            self._stop(refusal)

    def _forget_body(self) -> None:
        self._limits.body_bytes -= self._body_bytes
        self._body, self._body_bytes = [], 0

    def _stop(self, refusal: Refusal) -> t.NoReturn:
        self.refuse(refusal)
        raise StopError
