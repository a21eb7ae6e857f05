# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One HTTP request to the API server as bytes, with the errors of this collection."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import typing as t
import zlib
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime

from .config.connection_settings import SettingsError
from .connection import CONNECT_TIMEOUT_S, Connection, HttpError, SslError
from .errors import ApiError, Cause, ConfigurationError, RequestTarget, TLSError, TruncatedResponseError, UnreachableError, api_error

BROKEN_OFF = "EOF occurred"
"""OpenSSL's words for a connection that ended within TLS, such as by a load balancer none of whose API servers is up at the moment."""

READ_TIMEOUT_S = 60

# Servers compress answers above 128 KiB. Unpacking them costs the reader less CPU than receiving them plain (docs/architecture.md).
HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip"}

LONGEST_TEXT = 300
"""Characters of an error that are shown where it is not from an API server, such as the page of a proxy."""

START_BYTES = 16_384
"""What ``OnStart`` waits for, as it comes over the wire: servers do not send much less of a packed body at once."""

LONGEST_ERROR_BYTES = 65_536
"""How much is read of an answer that is an error. An API server says it in less; something else may send any amount."""

LONGEST_RETRY_AFTER_S = 60.0
"""A server that asks for a longer time is asked again after this one: whoever waits for an hour notices nothing meanwhile."""

GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls the format of HTTP's gzip."""

MOST_UNPACKED = 1032
"""Bytes that one byte of deflated data can stand for (zlib's technical notes)."""

Query = Sequence[tuple[str, str]]
OnOpen = t.Callable[[t.Callable[[], None]], None]
"""Gets a function that ends what was opened."""
OnStart = t.Callable[[bytes], None]
"""Gets the first bytes of a body, unpacked, while the server still writes the rest."""


class Body(t.NamedTuple):
    """The body of an answer as it came over the wire, a tenth of its size where it is ``packed``."""

    data: bytes
    packed: bool
    server: str

    def unpack(self) -> bytes:
        """As the server wrote it; raises TruncatedResponseError. All at once: urllib3 would copy each megabyte three times on the way."""
        if not self.packed:
            return self.data
        try:
            return zlib.decompress(self.data, GZIP, bufsize=self._unpacked_size())
        except zlib.error as error:
            raise TruncatedResponseError(str(_no_answer(error, self.server))) from error

    def _unpacked_size(self) -> int:
        """The size that the end of the data says, so that zlib need not make room again and again; never more than the data can come to."""
        said = int.from_bytes(self.data[-4:], "little")
        return max(1, min(said, MOST_UNPACKED * len(self.data)))


class Transport:
    """Requests as bytes over a connection. ``user_agent`` is how this program appears in the server's audit log. Thread-safe."""

    def __init__(self, connection: Connection, *, user_agent: str) -> None:
        self._connection = connection
        self._user_agent = user_agent
        self._clock_offset_s: t.Optional[float] = None
        self.server_version = ""
        """The version of the API server, such as v1.33.1; empty where it has not said."""

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._connection.server

    @property
    def server_time_s(self) -> t.Optional[float]:
        """Seconds since the epoch by the API server's clock, which is at most a second later; None before its first answer."""
        return None if self._clock_offset_s is None else time.monotonic() + self._clock_offset_s

    def request(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        target: RequestTarget,
        query: Query = (),
        body: t.Any = None,
        content_type: str = "application/json",
        timeout_s: float = READ_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        on_start: t.Optional[OnStart] = None,
    ) -> Body:
        """The body of the answer; raises ApiError or UnreachableError. ``verb`` and ``subject`` are for the error's text.

        ``timeout_s`` bounds each silence of the server, ``connect_timeout_s`` how long a new connection may take.
        """
        response = self._call(
            method,
            path,
            verb=verb,
            target=target,
            query=query,
            body=body,
            content_type=content_type,
            read_timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
        )
        try:
            return self._body(response, on_start)
        except (HttpError, zlib.error) as error:
            raise self._unreachable(error) from error

    def lines(
        self, path: str, *, verb: str, target: RequestTarget, query: Query, timeout_s: float, on_open: t.Optional[OnOpen] = None
    ) -> Iterator[bytes]:
        """The lines of a watch; ends when the server closes it, raises UnreachableError when it breaks off.

        ``timeout_s`` bounds each silence of the server. ``on_open`` gets a function by which another thread ends the watch.
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
        query: Query,
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
            if not 200 <= response.status <= 299:
                said = _error_body(response)
                raise _answer(verb, target, response.status, response.headers, said, shown=self._connection.without_authorization)
        except (HttpError, OSError) as error:
            raise self._unreachable(error) from error
        except SettingsError as error:
            raise ConfigurationError(f"no request was sent to {self.server}: {error}") from None
        if response.headers.get("Content-Type", "").lower().startswith("text/html"):
            response.close()
            raise TruncatedResponseError(
                f"no answer from the Kubernetes API server {self.server}: a page in HTML came in its place, as from a proxy"
            )
        self._note_time(response.headers, sent_at_s)
        return response

    def _note_time(self, headers: Mapping[str, str], sent_at_s: float) -> None:
        """Correct the clock by as little as the date of an answer requires.

        The server wrote the date after the request was sent and before the answer was read, and cut it to whole seconds. An answer that
        took long says little, and time does not run backwards for it.
        """
        date = headers.get("Date")
        if not date:
            return
        try:
            date_s = parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError, OverflowError):  # something else than an API server wrote it
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
        return _no_answer(error, self.server)


def _shut(response: t.Any) -> None:
    """End the connection below an answer that another thread is reading: that one then sees its end."""
    connection = response.connection
    sock = connection.sock if connection is not None else None
    if sock is not None:
        with contextlib.suppress(OSError):  # ended already
            # Not SSLSocket's own method: it takes the TLS session from under the reader.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _no_answer(error: BaseException, server: str) -> UnreachableError:
    cause = _root_cause(error)
    text = (
        f"no answer from the Kubernetes API server {server}: {cause}. "
        "Check that the address is right, that it can be reached from here, and that its certificate is trusted."
    )
    untrusted = (isinstance(error, SslError) or "SSLError" in cause or "CERTIFICATE" in cause) and BROKEN_OFF not in cause
    return TLSError(text) if untrusted else UnreachableError(text)


def _root_cause(error: BaseException) -> str:
    # urllib3 wraps the cause in "max retries exceeded" errors, one within the other.
    cause: t.Any = error
    while isinstance(getattr(cause, "reason", None), BaseException):
        cause = cause.reason
    return str(getattr(cause, "reason", None) or cause).strip()


def _answer(
    verb: str, target: RequestTarget, code: int, headers: Mapping[str, str], body: bytes, *, shown: t.Callable[[str], str]
) -> ApiError:
    """The error for an answer. ``shown`` takes the secrets of the request out of a text: a proxy may send the request back."""
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
    )


def _error_body(response: t.Any) -> bytes:
    """The beginning of the body. A connection with more to come cannot be used again."""
    body: bytes = response.read(LONGEST_ERROR_BYTES, decode_content=True)
    if len(body) < LONGEST_ERROR_BYTES:
        response.release_conn()
    else:
        response.close()
    return body


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def _status_of(body: bytes) -> dict[str, t.Any]:
    try:
        status = json.loads(body)
    except ValueError:
        return {"message": body.decode("utf-8", "replace").strip()}
    return _dict(status)


def _dict(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}
