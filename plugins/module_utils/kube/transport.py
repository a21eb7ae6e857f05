# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One HTTP request to the API server as bytes, through the kubernetes client's authentication and TLS.

The only file that imports urllib3 and the kubernetes client's errors. ``DynamicClient.request(serialize=False)`` behaves alike in
client versions 24 to 37, while the calls below it changed.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
import typing as t
import zlib
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime

from .errors import ApiError, BrokenAnswerError, Cause, ConfigurationError, KubeError, Subject, UnreachableError, UntrustedError, api_error
from .kubeconfig import NO_CLUSTER, Source

if t.TYPE_CHECKING:
    ApiException: t.Any = None
    ConfigException: t.Any = None
    YAMLError: t.Any = None
    urllib3: t.Any = None
else:
    try:
        import urllib3
        from kubernetes.client.exceptions import ApiException
        from kubernetes.config import ConfigException
        from yaml import YAMLError
    except ImportError:

        class ApiException(Exception):
            """Stand-in for the kubernetes client's error."""

        class ConfigException(Exception):
            """Stand-in for the kubernetes client's error."""

        class YAMLError(Exception):
            """Stand-in for yaml's base error."""

        class urllib3:
            """Stand-in for the names used below."""

            class exceptions:
                """Stand-in for urllib3's errors."""

                class HTTPError(Exception):
                    """Stand-in for urllib3's base error."""


BROKEN_OFF = "EOF occurred"
"""OpenSSL's words for a connection that ended within TLS, such as by a load balancer none of whose API servers is up at the moment."""

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60

KEPT_CONNECTIONS = 32
"""Connections that are kept for the next request: a watch cache has one for each resource, and more threads ask beside it."""

# Servers compress answers above 128 KiB. Unpacking them costs the reader less CPU than receiving them plain (docs/architecture.md).
HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip"}

START_BYTES = 16_384
"""What ``OnStart`` waits for, as it comes over the wire: servers do not send much less of a packed body at once."""

GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls the format of HTTP's gzip."""

Query = Sequence[tuple[str, str]]
OnOpen = t.Callable[[t.Callable[[], None]], None]
"""Gets a function that ends what was opened."""
OnStart = t.Callable[[bytes], None]
"""Gets the first bytes of a body, unpacked, while the server still writes the rest."""

MISSHAPEN: tuple[type[Exception], ...] = (AttributeError, KeyError, TypeError)
"""What the kubernetes client runs into where a kubeconfig, or what answers in place of an API server, is not built as it expects."""

CONNECTION_FAILURES: tuple[type[Exception], ...] = (
    ApiException,
    ConfigException,
    YAMLError,
    urllib3.exceptions.HTTPError,
    OSError,
    ValueError,
    *MISSHAPEN,
)
"""What loading a configuration, making a client and its discovery raise; for ``explain_connection_failure``."""


BAD_HEADER = "the token or password has a character that no HTTP header may have, such as a line break at its end: remove it"


class Body(t.NamedTuple):
    """The body of an answer as it came over the wire, a tenth of its size where it is ``packed``."""

    data: bytes
    packed: bool
    server: str

    def unpack(self) -> bytes:
        """As the server wrote it; raises BrokenAnswerError. All at once: urllib3 would copy each megabyte three times on the way."""
        if not self.packed:
            return self.data
        try:
            return zlib.decompress(self.data, GZIP)
        except zlib.error as error:
            raise BrokenAnswerError(str(_no_answer(error, self.server))) from error


class Transport:
    """Requests as bytes over a ``kubernetes.dynamic.DynamicClient``.

    ``user_agent`` is how this program appears in the server's audit log. Thread-safe as the client below is.
    """

    def __init__(self, dynamic_client: t.Any, *, user_agent: str) -> None:
        self._dynamic = dynamic_client
        api_client = dynamic_client.client
        api_client.user_agent = user_agent
        # urllib3 would repeat 429 and 503 answers itself, uncounted and without a deadline; api.py does it with one.
        api_client.rest_client.pool_manager.connection_pool_kw.update(retries=False, maxsize=KEPT_CONNECTIONS)
        self.server: str = api_client.configuration.host
        self._clock_offset_s: t.Optional[float] = None

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
        subject: Subject,
        query: Query = (),
        body: t.Any = None,
        content_type: str = "application/json",
        timeout_s: float = READ_TIMEOUT_S,
        on_start: t.Optional[OnStart] = None,
    ) -> Body:
        """The body of the answer; raises ApiError or UnreachableError. ``verb`` and ``subject`` are for the error's text.

        ``timeout_s`` bounds each silence of the server.
        """
        response = self._call(
            method, path, verb=verb, subject=subject, query=query, body=body, content_type=content_type, read_timeout_s=timeout_s
        )
        try:
            return self._body(response, on_start)
        except (urllib3.exceptions.HTTPError, zlib.error) as error:
            raise self._unreachable(error) from error

    def lines(
        self, path: str, *, verb: str, subject: Subject, query: Query, timeout_s: float, on_open: t.Optional[OnOpen] = None
    ) -> Iterator[bytes]:
        """The lines of a watch; ends when the server closes it, raises UnreachableError when it breaks off.

        ``timeout_s`` bounds each silence of the server. ``on_open`` gets a function by which another thread ends the watch.
        """
        response = self._call("get", path, verb=verb, subject=subject, query=query, read_timeout_s=timeout_s)
        rest = b""
        try:
            if on_open is not None:
                on_open(lambda: _shut(response))
            for chunk in response.stream(amt=None, decode_content=True):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line for line in whole if line.strip())
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        subject: Subject,
        query: Query,
        read_timeout_s: float,
        body: t.Any = None,
        content_type: str = "application/json",
    ) -> t.Any:
        try:
            response = self._dynamic.request(
                method,
                path,
                body=body,
                query_params=list(query),
                header_params=HEADERS,
                content_type=content_type,
                serialize=False,
                _request_timeout=(CONNECT_TIMEOUT_S, read_timeout_s),
            )
        except ApiException as error:
            if not error.status:  # the client makes an error without a status out of a TLS failure
                raise self._unreachable(error) from error
            raise _answer(verb, subject, error) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        except ValueError as error:
            if not _is_about_a_header(error):
                raise
            # Without its cause: that one's text holds the token.
            raise ConfigurationError(f"no request was sent to {self.server}: {BAD_HEADER}") from None
        self._note_time(response.headers)
        return response

    def _note_time(self, headers: Mapping[str, str]) -> None:
        date = headers.get("Date")
        if not date:
            return
        try:
            offset_s = parsedate_to_datetime(date).timestamp() - time.monotonic()
        except (TypeError, ValueError):  # something else than an API server wrote it
            return
        known_s = self._clock_offset_s
        # Dates are cut to whole seconds: one that is behind by less tells nothing new, and time shall not run backwards for it.
        if known_s is None or not offset_s <= known_s < offset_s + 1:
            self._clock_offset_s = offset_s

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


def _is_about_a_header(error: BaseException) -> bool:
    """Whether a header cannot be sent; http.client says so, the value included."""
    return isinstance(error, UnicodeEncodeError) or (isinstance(error, ValueError) and str(error).startswith("Invalid header"))


def _no_answer(error: BaseException, server: str) -> UnreachableError:
    cause = _root_cause(error)
    text = (
        f"no answer from the Kubernetes API server {server}: {cause}. "
        "Check that the address is right, that it can be reached from here, and that its certificate is trusted."
    )
    # Client version 37 turns a TLS failure into an error without a status, older ones let urllib3's through.
    untrusted = ("SSLError" in cause or "CERTIFICATE" in cause) and BROKEN_OFF not in cause
    return UntrustedError(text) if untrusted else UnreachableError(text)


def _root_cause(error: BaseException) -> str:
    # urllib3 wraps the cause in "max retries exceeded" errors, one within the other.
    cause: t.Any = error
    while isinstance(getattr(cause, "reason", None), BaseException):
        cause = cause.reason
    return str(getattr(cause, "reason", None) or cause).strip()


def _answer(verb: str, subject: Subject, error: t.Any) -> ApiError:
    status = _status_of(error.body)
    details = _dict(status.get("details"))
    causes = [_dict(cause) for cause in details.get("causes") or ()]
    retry_after = str((error.headers or {}).get("Retry-After") or details.get("retryAfterSeconds") or "")
    return api_error(
        verb=verb,
        subject=subject,
        status=int(error.status or 0),
        message=str(status.get("message") or ""),
        retry_after_s=float(retry_after) if retry_after.isdecimal() else None,
        reason=str(status.get("reason") or "") if status.get("kind") == "Status" else None,
        causes=tuple(Cause(str(cause.get("reason") or ""), str(cause.get("message") or "")) for cause in causes),
    )


def _status_of(body: t.Any) -> dict[str, t.Any]:
    try:
        status = json.loads(body)
    except (TypeError, ValueError):
        return {"message": str(body or "").strip()}
    return _dict(status)


def _dict(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def explain_connection_failure(error: BaseException, *, server: str, source: Source) -> KubeError:
    """What to tell a person when the client could not even be made (configuration, discovery)."""
    if isinstance(error, ApiException) and error.status:
        return _answer("reach", Subject(f"the Kubernetes API server {server}".rstrip()), error)
    if isinstance(error, (ApiException, urllib3.exceptions.HTTPError, ConnectionError, TimeoutError)):
        return _no_answer(error, server or f"of {source}")
    of_file = isinstance(error, (ConfigException, OSError))
    if of_file and source.nothing_given:
        return ConfigurationError(NO_CLUSTER)
    mistake = source.mistake if of_file else BAD_HEADER if _is_about_a_header(error) else ""
    said = mistake or str(error).rstrip(".")
    if isinstance(error, MISSHAPEN):
        said = f"something in it, or in the server's answer, is not of the expected kind ({type(error).__name__}: {said})"
    return ConfigurationError(f"cannot connect to Kubernetes with {source}: {said}. Check the file, its context and the credentials.")
