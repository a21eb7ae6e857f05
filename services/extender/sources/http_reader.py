# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""HTTP requests to Prometheus and node_exporter, with one limit for the time and one for the size of the whole answer."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ....plugins.module_utils.kube.client.config.authorization import Authorization, TokenFile, basic, no_authorization
from ....plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ....plugins.module_utils.kube.client.config.files import ConnectionSettingsError, read_file
from ....plugins.module_utils.kube.client.http.connection import Connection, HttpError
from .settings import LoginSettings

CHUNK_BYTES = 256 * 1024
REMEDIES = {
    "WRONG_VERSION_NUMBER": "; the server may have no TLS: try http:// in place of https://",
    "unable to get local issuer certificate": "; set tls.ca_file to the certificate of the authority",
    "self-signed certificate": "; set tls.ca_file to the certificate of the authority",
    "Connection refused": "; check the address, and that the server runs",
    "Failed to resolve": "; check the name: the names of Services are known only in pods",
    "Read timed out": "; the whole answer must arrive within timeout_s",
}
"""The ends of the texts, by a part of the error's text."""

_NOISE = re.compile(r"^HTTPS?Connection(?:Pool)?\(.*?\): |Failed to establish a new connection: |\[Errno -?[0-9]+\] ")
"""The parts of urllib3's texts that only repeat the address, or are of no use for a person."""

MAX_SHOWN = 200
"""Characters of another server's text that are shown in an error."""


class SourceError(Exception):
    """A source has no usable answer. The text is a sentence without a full stop and contains no secret.

    ``unreachable``: there was no answer, so a further request would not get one either.
    """

    def __init__(self, text: str, *, unreachable: bool = False) -> None:
        super().__init__(text)
        self.unreachable = unreachable


class AnswerTooLargeError(SourceError):
    """The answer has more bytes than the limit."""


class Answer(t.NamedTuple):
    """An answer with any status: its content type and its whole body. A copy of the body as ``bytes`` would need its memory twice."""

    status: int
    content_type: str
    body: bytearray
    location: str


class HttpReader:
    """Requests to one server. ``timeout_s`` limits the time for a new connection, and the time for a whole answer.

    A renewed token, password or certificate is read after the server has rejected the old one.
    Thread-safe.
    """

    def __init__(self, url: str, login: LoginSettings, *, timeout_s: float) -> None:
        self.url = url
        self._login = login
        self._timeout_s = timeout_s
        self._connection: Connection | None = None

    def request(
        self, method: str, path: str, *, max_bytes: int, query: Sequence[tuple[str, str]] = (), form: bytes | None = None
    ) -> Answer:
        """Send a request and return the answer, of at most ``max_bytes``. Raises SourceError."""
        headers = [("Accept", "*/*"), ("User-Agent", "onprem.kube_scheduling/extender")]
        if form is not None:
            headers.append(("Content-Type", "application/x-www-form-urlencoded"))
        timeouts = (self._timeout_s, self._timeout_s)
        try:
            # The connection is made at the first request, because a file with a secret may not exist before that.
            self._connection = self._connection or Connection(partial(connection_settings, self.url, self._login))
            response = self._connection.send(method, path, query=query, headers=headers, body=form, timeouts=timeouts)
            return self._answer(response, max_bytes)
        except ConnectionSettingsError as error:
            raise SourceError(f"no request was sent to {self.url}: {error}", unreachable=True) from None
        except (HttpError, OSError) as error:
            raise SourceError(f"no answer from {self.url}: {_root_cause(error)}", unreachable=True) from error

    def without_secrets(self, text: str) -> str:
        """Return the text of another server, shortened and without the credentials of the request."""
        connection = self._connection
        shown = connection.without_authorization(text) if connection is not None else text
        return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."

    def _answer(self, response: t.Any, max_bytes: int) -> Answer:
        body = bytearray()
        try:
            while chunk := response.read1(CHUNK_BYTES, decode_content=False):
                body += chunk
                if len(body) > max_bytes:
                    raise AnswerTooLargeError(
                        f"the answer of {self.url} has more than {max_bytes} bytes: raise max_answer_bytes, or select less"
                    )
        except BaseException:
            response.close()
            raise
        headers = response.headers
        response.release_conn()
        return Answer(response.status, str(headers.get("Content-Type", "")).lower(), body, str(headers.get("Location", "")))


def connection_settings(url: str, login: LoginSettings) -> ConnectionSettings:
    """Return the settings of a connection with this login. Raises ConnectionSettingsError if a file cannot be read."""
    tls = login.tls
    return ConnectionSettings(
        server=url,
        authorization=_authorization(login),
        ca=Path(tls.ca_file) if tls.ca_file else None,
        client_certificate=Path(tls.cert_file) if tls.cert_file else None,
        client_key=Path(tls.key_file) if tls.key_file else None,
        verify=not tls.insecure_skip_verify,
        tls_server_name=tls.server_name,
        limits_answers=True,
    )


def _authorization(login: LoginSettings) -> Authorization:
    setting = "bearer_token_file" if login.bearer_token_file else "basic_auth.password_file"
    try:
        if login.bearer_token_file:
            return TokenFile(Path(login.bearer_token_file))
        if login.basic_auth is not None:
            user, password = login.basic_auth.username, login.basic_auth.password_file
            return basic(user, read_file(Path(password)).decode("utf-8", "replace").rstrip("\r\n"))
    except ConnectionSettingsError as error:
        raise ConnectionSettingsError(f"{setting}: {error}") from None
    return no_authorization


def _root_cause(error: BaseException) -> str:
    cause: t.Any = error
    while isinstance(getattr(cause, "reason", None), BaseException):
        cause = cause.reason
    text = _NOISE.sub("", str(cause).strip().rstrip(".")) or type(cause).__name__
    return text + next((remedy for part, remedy in REMEDIES.items() if part in text), "")
