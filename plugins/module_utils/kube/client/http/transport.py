# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One HTTP request to the API server, with the errors of this collection.

``connection.py`` sends it, and sends it again with renewed settings after a 401.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
import typing as t
import zlib
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime

from ....model.cluster_identity import ClusterIdentity
from ..config.files import ConnectionSettingsError
from ..errors import ApiError, Cause, ConfigurationError, RequestTarget, TLSError, TruncatedResponseError, UnreachableError, api_error
from .connection import CONNECT_TIMEOUT_S, Connection, HttpError
from .tls import is_handshake_error

READ_TIMEOUT_S = 60

# Servers compress answers above 128 KiB. Unpacking them needs less CPU time than receiving them uncompressed: 1.3 s and not 1.8 s for
# 20,000 pods. Protobuf halves the CPU time of the server, and needs 2.1 s here, because Python fetches each field of a message.
HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip"}

MAX_TEXT_LENGTH = 300
"""Characters of an error that are shown if it is not from an API server, such as the page of a proxy."""

START_BYTES = 16_384
"""Compressed bytes that are read before ``OnStart`` is called. Servers do not send much less of a compressed body at a time."""

MAX_ERROR_BYTES = 65_536
"""Bytes that are read of an error's body. An API server sends less, but something else may send any amount."""

LONGEST_RETRY_AFTER_S = 60.0
"""The longest pause in seconds, also if a server requires a longer one. In a longer pause a program would notice no change."""

GZIP = 16 + zlib.MAX_WBITS
"""zlib's number for the gzip format of HTTP."""

MAX_UNPACKED = 1032
"""The highest number of bytes that one byte of deflated data can represent (zlib's technical notes)."""

QueryParameters = Sequence[tuple[str, str]]
OnOpen = t.Callable[[t.Callable[[], None]], None]
"""Receives a function that ends the opened watch."""
OnStart = t.Callable[[bytes], None]
"""Receives the first bytes of a body, unpacked, while the server still writes the rest."""


class Body(t.NamedTuple):
    """The body of an answer as it was received. If it is ``packed``, it has about a tenth of its unpacked size."""

    data: bytes
    packed: bool
    server: str

    def unpack(self) -> bytes:
        """Return the body as the server wrote it. Raises TruncatedResponseError.

        It is unpacked in one call, because urllib3 would copy each megabyte three times.
        """
        if not self.packed:
            return self.data
        try:
            return zlib.decompress(self.data, GZIP, bufsize=self._unpacked_size())
        except zlib.error as error:
            raise TruncatedResponseError(_no_answer(error, self.server)) from error

    def _unpacked_size(self) -> int:
        """Return the size at the end of the gzip data, so that zlib allocates memory once. It is limited to the possible maximum."""
        said = int.from_bytes(self.data[-4:], "little")
        return max(1, min(said, MAX_UNPACKED * len(self.data)))


class Transport:
    """Requests over a connection. Thread-safe.

    ``user_agent`` is the name of this program in the server's audit log. ``request_timeout_s`` limits the seconds of each request with its
    whole answer, in addition to the limits of the call. It does not limit watches.
    """

    def __init__(self, connection: Connection, *, user_agent: str, request_timeout_s: t.Optional[float] = None) -> None:
        self._connection = connection
        self._request_timeout_s = request_timeout_s
        self._user_agent = user_agent
        self._clock_offset_s: t.Optional[float] = None
        self.server_version = ""
        """The version of the API server, such as v1.33.1. It is empty if the server has not sent it."""

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return self._connection.server

    @property
    def cluster(self) -> ClusterIdentity:
        """Return the cluster for outputs."""
        return self._connection.cluster

    @property
    def server_time_s(self) -> t.Optional[float]:
        """Return the seconds since the epoch by the API server's clock, or None before its first answer.

        The exact time is at most a second later.
        """
        return None if self._clock_offset_s is None else time.monotonic() + self._clock_offset_s

    def request(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        target: RequestTarget,
        query: QueryParameters = (),
        body: t.Any = None,
        content_type: str = "application/json",
        timeout_s: float = READ_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        on_start: t.Optional[OnStart] = None,
    ) -> Body:
        """Send a request and return the body of the answer. ``verb`` and ``target`` are for the error's text.

        ``timeout_s`` limits each time without data from the server, ``connect_timeout_s`` the time for a new connection. Raises ApiError,
        UnreachableError, or ConfigurationError if the token cannot be sent.
        """
        limit_s = math.inf if self._request_timeout_s is None else self._request_timeout_s
        end_s = time.monotonic() + limit_s
        response = self._call(
            method,
            path,
            verb=verb,
            target=target,
            query=query,
            body=body,
            content_type=content_type,
            read_timeout_s=min(timeout_s, limit_s),
            connect_timeout_s=min(connect_timeout_s, limit_s),
        )
        try:
            with self._ended_at(end_s, response):
                return self._body(response, on_start)
        except (HttpError, zlib.error) as error:
            raise self._unreachable(error) from error

    @contextlib.contextmanager
    def _ended_at(self, end_s: float, response: t.Any) -> Iterator[None]:
        """End the connection at this time, by the monotonic clock. Raises UnreachableError if this was before the end of the answer."""
        if end_s == math.inf:
            yield
            return
        ended = threading.Event()

        def end() -> None:
            ended.set()
            _shut(response)

        timer = threading.Timer(max(0.0, end_s - time.monotonic()), end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (HttpError, zlib.error):
            if not ended.is_set():
                raise
        finally:
            timer.cancel()
        if ended.is_set():
            raise self._unreachable(TimeoutError(f"the answer was not complete within {self._request_timeout_s:g} s"))

    def lines(
        self, path: str, *, verb: str, target: RequestTarget, query: QueryParameters, timeout_s: float, on_open: t.Optional[OnOpen] = None
    ) -> Iterator[bytes]:
        """Yield the lines of a watch until the server closes it.

        ``timeout_s`` limits each time without data from the server. ``on_open`` receives a function with which another thread can end the
        watch. Raises the errors of ``request``, and UnreachableError if the connection breaks.
        """
        response = self._call("get", path, verb=verb, target=target, query=query, read_timeout_s=timeout_s)
        rest = b""
        try:
            if on_open is not None:
                on_open(lambda: _shut(response))
            for chunk in response.stream(amt=None, decode_content=True):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line for line in whole if line.strip())
        except (HttpError, OSError) as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        target: RequestTarget,
        query: QueryParameters,
        read_timeout_s: float,
        body: t.Any = None,
        content_type: str = "application/json",
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> t.Any:
        headers = [*HEADERS.items(), ("User-Agent", self._user_agent), ("Content-Type", content_type)]
        data = None if body is None else json.dumps(body).encode()
        sent_at_s = time.monotonic()
        try:
            timeouts = (connect_timeout_s, read_timeout_s)
            response = self._connection.send(method.upper(), path, query=query, headers=headers, body=data, timeouts=timeouts)
        except (HttpError, OSError) as error:
            text = _no_answer(error, self.server)
            raise (TLSError(text) if is_handshake_error(error) else UnreachableError(text)) from error
        except ConnectionSettingsError as error:
            raise ConfigurationError(f"no request was sent to {self.server}: {error}") from None
        self._check_answer(response, verb, target)
        self._note_time(response.headers, sent_at_s)
        return response

    def _check_answer(self, response: t.Any, verb: str, target: RequestTarget) -> None:
        """Raise the error for an answer that is not a success of an API server."""
        if response.status < 200:
            # The connection cannot be used again: the final answer would be read as the answer to the next request.
            response.close()
            raise TruncatedResponseError(f"no answer from the Kubernetes API server {self.server}: only the status {response.status} came")
        if response.status > 299:
            try:
                said = _error_body(response)
            except (HttpError, OSError) as error:
                raise self._unreachable(error) from error
            shown = self._connection.without_authorization
            raise _answer(verb, target, response.status, response.headers, said, shown=shown, user_agent=self._user_agent)
        if response.headers.get("Content-Type", "").lower().startswith("text/html"):
            response.close()
            raise TruncatedResponseError(
                f"no answer from the Kubernetes API server {self.server}: it returned an HTML page, as a proxy does"
            )

    def _note_time(self, headers: Mapping[str, str], sent_at_s: float) -> None:
        """Correct the clock by the smallest step that the date of an answer requires.

        The server wrote the date after the request was sent and before the answer was read, and rounded it down to whole seconds. The date
        of a slow answer is imprecise, and the clock is not set back for it.
        """
        date = headers.get("Date")
        if not date:
            return
        try:
            date_s = parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError, OverflowError):  # the answer is not from an API server
            return
        least_s, most_s = date_s - time.monotonic(), date_s + 1 - sent_at_s
        known_s = self._clock_offset_s
        self._clock_offset_s = least_s if known_s is None else min(max(known_s, least_s), most_s)

    def _body(self, response: t.Any, on_start: t.Optional[OnStart]) -> Body:
        packed = response.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")
        start = b""
        if on_start is not None:
            start = response.read(START_BYTES, decode_content=False)
            on_start(zlib.decompressobj(GZIP).decompress(start) if packed else start)
        return Body(start + response.read(decode_content=False), packed, self.server)

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(_no_answer(error, self.server))


def _shut(response: t.Any) -> None:
    """End the connection of an answer that another thread is reading. The reader then gets the end of the data."""
    connection = response.connection
    sock = connection.sock if connection is not None else None
    if sock is not None:
        with contextlib.suppress(OSError):  # it has already ended
            # The method of SSLSocket is not used, because it removes the TLS session while the other thread reads.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _no_answer(error: BaseException, server: str) -> str:
    return (
        f"no answer from the Kubernetes API server {server}: {_root_cause(error)}. "
        "Check that the address is right, that it can be reached from here, and that its certificate is trusted."
    )


def _root_cause(error: BaseException) -> str:
    # urllib3 wraps the cause in nested "max retries exceeded" errors.
    cause: t.Any = error
    while isinstance(getattr(cause, "reason", None), BaseException):
        cause = cause.reason
    return str(getattr(cause, "reason", None) or cause).strip()


def _answer(
    verb: str,
    target: RequestTarget,
    code: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    shown: t.Callable[[str], str],
    user_agent: str,
) -> ApiError:
    """Return the error for an answer. ``shown`` removes the secrets of the request from a text, because a proxy may return the request."""
    status = _status_of(body)
    details = _dict(status.get("details"))
    causes = [_dict(cause) for cause in details.get("causes") or ()]
    message = shown(str(status.get("message") or ""))
    is_status = status.get("kind") == "Status"
    retry_after = str(headers.get("Retry-After") or details.get("retryAfterSeconds") or "")
    return api_error(
        verb=verb,
        target=target,
        status=code,
        message=message if is_status else _cut(message),
        retry_after_s=min(float(retry_after), LONGEST_RETRY_AFTER_S) if retry_after.isdecimal() else None,
        reason=str(status.get("reason") or "") if is_status else None,
        causes=tuple(Cause(str(cause.get("reason") or ""), str(cause.get("message") or "")) for cause in causes),
        user_agent=user_agent,
    )


def _error_body(response: t.Any) -> bytes:
    """Return the beginning of the body. If the body is longer, the connection is closed and cannot be used again."""
    body: bytes = response.read(MAX_ERROR_BYTES, decode_content=True)
    if len(body) < MAX_ERROR_BYTES:
        response.release_conn()
    else:
        response.close()
    return body


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}..."


def _status_of(body: bytes) -> dict[str, t.Any]:
    try:
        status = json.loads(body)
    except ValueError:
        return {"message": body.decode("utf-8", "replace").strip()}
    return _dict(status)


def _dict(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}
