# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The TLS context of the server, and its renewal when a file changes."""

from __future__ import annotations

import contextlib
import os
import ssl
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path


@dataclass(frozen=True)
class TlsFiles:
    """The PEM files of the server. With ``client_ca_file`` a client needs a certificate that this authority has signed."""

    cert_file: str
    key_file: str
    client_ca_file: str = ""


class TlsContents(t.NamedTuple):
    """The bytes of the files, all of one reading. ``authority`` is empty without ``client_ca_file``."""

    certificate: bytes
    key: bytes
    authority: bytes


def read_contents(files: TlsFiles) -> TlsContents:
    """Return the bytes of the files. Raises OSError, whose text names the setting and the file."""
    names = ("cert_file", "key_file", "client_ca_file")
    return TlsContents(*(_read(name, getattr(files, name)) for name in names))


def make_context(files: TlsFiles, contents: TlsContents | None = None) -> ssl.SSLContext:
    """Return a context with these contents of the files, or with those of now. Raises OSError, whose text names the setting."""
    contents = contents or read_contents(files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, files, contents)
    if files.client_ca_file:
        try:
            with _in_memory(contents.authority) as authority:
                context.load_verify_locations(authority)
        except ssl.SSLError as error:
            raise OSError(f"server.tls.client_ca_file: {files.client_ca_file} has no PEM certificate: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def load_pair(context: ssl.SSLContext, files: TlsFiles, contents: TlsContents) -> None:
    """Use the certificate and the key for new connections. Raises OSError.

    OpenSSL takes over the certificate before it compares the key. After an error the context has a certificate without its key and
    refuses every connection. For a context in use the contents must therefore be ones that ``make_context`` has accepted.
    """
    try:
        with _in_memory(contents.certificate) as certificate, _in_memory(contents.key) as key:
            # Without a password OpenSSL would ask for that of an encrypted key on the terminal, and wait.
            context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise OSError(f"server.tls: {files.cert_file} and {files.key_file} are no PEM certificate with its key: {error}") from None


class TlsChange(t.NamedTuple):
    """New contents of the files: ``pair`` and ``authority`` tell which have changed. ``context`` is a new context with all of them."""

    pair: bool
    authority: bool
    contents: TlsContents
    context: ssl.SSLContext


class TlsWatch:
    """Notices changed files by their content, because a mounted Secret changes by a link to another folder."""

    def __init__(self, files: TlsFiles) -> None:
        self.files = files
        self._pair, self._authority = _digests(read_contents(files))

    def change(self) -> TlsChange | None:
        """Return the change since the last one in use, or None.

        Raises OSError if a file cannot be read, and if the files cannot be used: a certificate can be there before its key. The change
        is returned again until ``in_use`` is called, so that none is lost.
        """
        contents = read_contents(self.files)
        pair, authority = _digests(contents)
        if (pair, authority) == (self._pair, self._authority):
            return None
        return TlsChange(pair != self._pair, authority != self._authority, contents, make_context(self.files, contents))

    def in_use(self, change: TlsChange) -> None:
        """Note that the server uses the change."""
        self._pair, self._authority = _digests(change.contents)


def _digests(contents: TlsContents) -> tuple[bytes, bytes]:
    """Return the digest of the certificate with its key, and that of the authority. The key itself is not kept."""
    pair = sha256(sha256(contents.certificate).digest() + sha256(contents.key).digest())
    return pair.digest(), sha256(contents.authority).digest()


def _read(name: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes() if file else b""
    except OSError as error:
        # A relative path is shown with its folder, which is that of the process and not that of FILE.
        raise OSError(f"server.tls.{name}: the file {Path(file).absolute()} cannot be read: {error.strerror or error}") from None


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Return the path of a file in memory, because the ssl module reads certificates only from files.

    No other user can read it, it ends with the block, and it needs no folder that can be written.
    """
    file = os.memfd_create("tls")
    try:
        with os.fdopen(os.dup(file), "wb") as stream:
            stream.write(data)
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)
