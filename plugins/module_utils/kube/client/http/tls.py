# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""TLS to an API server: trust, the client certificate, and the errors which prove that no request was carried out.

Certificates and keys are passed to TLS in memory, so that nothing is written to a disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import ssl
import sys
import tempfile
import typing as t
from collections.abc import Iterator
from pathlib import Path

from ..config.connection_settings import ConnectionSettings, Pem
from ..config.files import ConnectionSettingsError, read_file

HTTP_1_1 = "http/1.1"
"""The name of HTTP/1.1 in ALPN (RFC 7301)."""

CERTIFICATE_ALERT = re.compile(r"ALERT_(\w*CERTIFICATE\w*|UNKNOWN_CA|ACCESS_DENIED)")
"""Matches OpenSSL's names of the alerts with which a peer rejects a certificate (RFC 8446, section 6.2)."""

PASSING_ERRORS = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""TLS errors that say nothing about the peer: there is no data yet, or the connection broke."""


class HandshakeError(ssl.SSLError):
    """TLS was not established, so the server has carried out no request of this connection."""


def is_handshake_error(error: t.Any) -> bool:
    """Return whether a failed handshake is the cause of one of urllib3's errors, which wrap their causes in several ways.

    urllib3 has a context of its own for a proxy. Every context checks the server's certificate during the handshake only.
    """
    while isinstance(error, Exception):
        if isinstance(error, (HandshakeError, ssl.SSLCertVerificationError)):
            return True
        error = getattr(error, "original_error", None) or next(iter(error.args), None)
    return False


@contextlib.contextmanager
def _handshake() -> Iterator[None]:
    try:
        yield
    except PASSING_ERRORS:
        raise
    except ssl.SSLError as error:
        raise HandshakeError(*error.args) from error


def _read(connection: t.Union[_Socket, _Object], read: t.Callable[[], t.Any]) -> t.Any:
    """Return what was read. Raises HandshakeError for a rejected client certificate.

    In TLS 1.3 the server checks the certificate after the client's side of the handshake has ended.
    """
    try:
        found = read()
    except ssl.SSLError as error:
        if not connection.has_answered and CERTIFICATE_ALERT.search(error.reason or ""):
            raise HandshakeError(*error.args) from error
        raise
    connection.has_answered = True
    return found


class _Socket(ssl.SSLSocket):
    """A connection whose errors say whether TLS was established."""

    has_answered = False

    def do_handshake(self, block: bool = False) -> None:
        with _handshake():
            super().do_handshake(block)

    def send(self, data: t.Any, flags: int = 0) -> int:
        """Send data. Raises BrokenPipeError if the server has closed the connection.

        For that error urllib3 reads the answer, which may be the alert. Python 3.11 raises SSLEOFError.
        """
        try:
            return super().send(data, flags)
        except ssl.SSLEOFError as error:
            raise BrokenPipeError(errno.EPIPE, "the server has closed the connection") from error

    def read(self, len: int = 1024, buffer: t.Any = None) -> t.Any:
        return _read(self, lambda: super(_Socket, self).read(len, buffer))


class _Object(ssl.SSLObject):
    """The same for TLS within the TLS of a proxy."""

    has_answered = False

    def do_handshake(self) -> None:
        with _handshake():
            super().do_handshake()

    def read(self, len: int = 1024, buffer: t.Any = None) -> t.Any:
        return _read(self, lambda: super(_Object, self).read(len, buffer))


class _Context(ssl.SSLContext):
    """A context that sets the protocols for ALPN once, and ignores later calls.

    urllib3 sets them again for each connection. OpenSSL then frees the list while the connection of another thread copies it, and the
    server refuses that ClientHello with the alert ``decode error``.
    """

    sslsocket_class = _Socket
    sslobject_class = _Object
    _has_protocols = False

    def set_alpn_protocols(self, alpn_protocols: t.Iterable[str]) -> None:
        if not self._has_protocols:
            self._has_protocols = True
            super().set_alpn_protocols(alpn_protocols)


def tls_context(settings: ConnectionSettings) -> ssl.SSLContext:
    """Return the context for all connections with these settings. Raises ConnectionSettingsError for a certificate that cannot be used."""
    context = _strict_context()
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.ca is None:
        context.load_default_certs()
    else:
        _trust(context, settings.ca)
    if settings.client_certificate is not None:
        _identify(context, settings.client_certificate, settings.client_key)
    context.set_alpn_protocols([HTTP_1_1])
    return context


def _strict_context() -> ssl.SSLContext:
    """Return a context that is as strict as urllib3's own, and that supports the same variable SSLKEYLOGFILE."""
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.hostname_checks_common_name = False
    context.post_handshake_auth = True
    if sys.version_info >= (3, 13):  # as in ssl.create_default_context
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
    if os.environ.get("SSLKEYLOGFILE"):
        context.keylog_filename = os.path.expandvars(os.environ["SSLKEYLOGFILE"])
    return context


def _trust(context: ssl.SSLContext, ca: t.Union[bytes, Path]) -> None:
    text = _bytes_of(ca).decode("ascii", "ignore")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise ConnectionSettingsError(f"the certificate authority{_named(ca)} is not a certificate in PEM format") from None


def _identify(context: ssl.SSLContext, certificate: t.Union[bytes, Path], key: Pem) -> None:
    # Certificate and key are in one file, because Python's ssl reads them only from files.
    text = _bytes_of(certificate) + b"\n" + (_bytes_of(key) if key is not None else b"")
    try:
        with _file_in_memory(text) as file:
            # The password prevents a prompt at the terminal for an encrypted key.
            context.load_cert_chain(file, password=lambda: "")
    except (ssl.SSLError, ValueError):
        names = f"the client certificate{_named(certificate)} and its key{_named(key)}"
        raise ConnectionSettingsError(f"{names} are not a pair in PEM format, or the key has a password") from None
    except OSError as error:
        raise ConnectionSettingsError(f"the client certificate cannot be passed to TLS: {error.strerror}") from None


def _named(pem: Pem) -> str:
    return f" in {pem}" if isinstance(pem, Path) else ""


def _bytes_of(pem: t.Union[bytes, Path]) -> bytes:
    return read_file(pem) if isinstance(pem, Path) else pem


@contextlib.contextmanager
def _file_in_memory(content: bytes) -> Iterator[str]:
    """Yield a path from which the content can be read within the context. On Linux it is on no disk and needs no writable folder."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with os.fdopen(os.memfd_create("client-certificate"), "wb") as stream:
            stream.write(content)
            stream.flush()
            yield f"/proc/self/fd/{stream.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as stream:  # only its owner can read it
        stream.write(content)
        stream.flush()
        yield stream.name
