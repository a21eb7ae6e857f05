# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Answers to the requests of kube-scheduler without ASGI.

A request passes ASGI as a task, a dictionary and several messages, which take as much time as an answer about 300 nodes. Only a request
with a plain head, as Go's net/http writes it, is answered here. All others go through ASGI. A handler is called once for each request, so
errors are answered here too.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Mapping
from http import HTTPStatus

from .pages.status_api import Response

Handler = Callable[[bytes], bytes]
Refuse = Callable[[str, Exception], Response]
"""Returns the answer to a request whose handler has raised an error. It receives the path."""

MAX_HEADS = 1024
"""Heads that are kept. The heads of one scheduler differ in the length of the body only."""

MAX_HEAD_BYTES = 1024
MAX_BODY_BYTES = 1024 * 1024
"""Longer bodies are read by ASGI, which limits the bytes of all bodies together. A request with 5,000 names has 150 kB."""

END = b"\r\n\r\n"
REQUEST_LINE = re.compile(rb"POST (/[a-z/-]+) HTTP/1\.1")
PLAIN_HEADER = re.compile(rb"([A-Za-z-]+):([ -~]*)")
"""A name and a visible value. The parser refuses most other bytes, such as a line feed alone, which a proxy may take for a new header."""

PLAIN_HEADERS = {b"host", b"user-agent", b"content-length", b"content-type", b"accept-encoding"}
"""The headers of Go's net/http. None of them changes the way in which the body is read, except its length."""

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
ERROR = b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"


class _Known(t.NamedTuple):
    """The content of a head: the path, its handler, and the length of the body."""

    path: str
    handler: Handler
    length: int


class DirectAnswers:
    """Answers whole requests. ``handlers``: by path; a handler may raise any error, and then ``refuse`` returns the answer.

    Bodies longer than ``max_body_bytes`` or MAX_BODY_BYTES are not answered here.
    """

    def __init__(self, handlers: Mapping[str, Handler], refuse: Refuse, *, max_body_bytes: int) -> None:
        self._handlers, self._refuse = handlers, refuse
        self._max_body_bytes = min(max_body_bytes, MAX_BODY_BYTES)
        self._heads: dict[bytes, _Known] = {}

    def answer(self, data: bytes) -> bytes | None:
        """Return the whole answer to a request. None if ASGI must answer: it is not exactly one plain and correct request."""
        length = data.find(END, 0, MAX_HEAD_BYTES) + len(END)
        head = data[:length]
        known = self._heads.get(head) or self._read(head)
        if known is None or len(data) - length != known.length:
            return None
        try:
            body = known.handler(data[length:])
        except Exception as error:
            return _error(self._refuse(known.path, error))
        return ANSWER % (len(body), body)

    def missing_bytes(self, data: bytes) -> int:
        """Return the number of bytes after which the data is a whole request that can be answered here. 0 if it cannot."""
        length = data.find(END, 0, MAX_HEAD_BYTES) + len(END)
        known = self._heads.get(data[:length])
        return max(0, length + known.length - len(data)) if known is not None else 0

    def _read(self, head: bytes) -> _Known | None:
        """Return the content of a head. None if it is not plain."""
        found = self._parsed(head)
        if found is not None:
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            self._heads[head] = found
        return found

    def _parsed(self, head: bytes) -> _Known | None:
        first, *lines = head.removesuffix(END).split(b"\r\n")
        request = REQUEST_LINE.fullmatch(first)
        path = request[1].decode() if request is not None else ""
        handler = self._handlers.get(path)
        headers = {found[1].lower(): found[2].strip() for found in map(PLAIN_HEADER.fullmatch, lines) if found is not None}
        length = headers.get(b"content-length", b"")
        is_plain = len(headers) == len(lines) and headers.keys() <= PLAIN_HEADERS and b"host" in headers
        if handler is None or not is_plain or headers.get(b"content-type") != b"application/json" or not length.isdigit():
            return None
        return _Known(path, handler, int(length)) if int(length) <= self._max_body_bytes else None


def _error(answer: Response) -> bytes:
    phrase, content_type = HTTPStatus(answer.status).phrase.encode(), answer.content_type.encode()
    return ERROR % (answer.status, phrase, content_type, len(answer.body), answer.body)
