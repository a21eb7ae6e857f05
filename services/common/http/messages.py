# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A request and its answer, and the answers that all programs have: those to probes, and the metrics."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Awaitable, Iterable, Mapping
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

TEXT = "text/plain; charset=utf-8"

ODD_VERSION = re.compile(r"version=(?![0-9]{1,9}(?:\.[0-9]{1,9})*\s*(?:[;,]|$))")
"""Matches a format version that is not a number. prometheus_client compares it with a number and raises an error."""


class Request(t.NamedTuple):
    """A request with its whole body. The names of headers are in lower case."""

    method: str
    path: str
    query: bytes
    headers: Mapping[bytes, bytes]
    body: bytes = b""


class Refusal(t.NamedTuple):
    """The status code and the reason of the answer to a request that breaks a limit of the server."""

    status: int
    text: str


class Response(t.NamedTuple):
    """An answer: the status code, the content type, the body, and further headers."""

    status: int
    content_type: str
    body: bytes
    headers: Iterable[tuple[bytes, bytes]] = ()


class App(t.Protocol):
    """The answers of a program. Neither method raises an error."""

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        """Return the answer. One that needs a calculation is awaited."""

    def refusal(self, status: int, text: str) -> Response:
        """Return the answer to a request that breaks a limit of the server."""


def text_response(status: int, text: str) -> Response:
    """Return an answer with a line of text."""
    return Response(status, TEXT, f"{text}\n".encode())


def probe_response(wrong: str, text: str = "ok") -> Response:
    """Return the answer to a probe. ``wrong``: the reason of a failure, or an empty text."""
    return text_response(503 if wrong else 200, wrong or text)


def metrics_response(registry: CollectorRegistry, query: bytes, headers: Mapping[bytes, bytes]) -> Response:
    """Return the metrics in the format that the client accepts. ``name[]`` in the query selects some of them."""
    accept = headers.get(b"accept", b"").decode("latin-1")
    encode, content_type = choose_encoder("" if ODD_VERSION.search(accept) else accept)
    names = parse_qs(query.decode("latin-1")).get("name[]")
    selected = t.cast(CollectorRegistry, registry.restricted_registry(names)) if names else registry
    return Response(200, content_type, encode(selected))
