# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The TLS context of the server, and its renewal when a file changes."""

from __future__ import annotations

import ssl
import typing as t
from hashlib import sha256
from pathlib import Path

from ....plugins.module_utils.model.codec import Struct
from ...common.kinds import Text


class TlsFiles(Struct, frozen=True):
    """The PEM files of the server. With ``client_ca_file`` a client needs a certificate that this authority has signed."""

    cert_file: Text
    key_file: Text
    client_ca_file: Text = ""


class TlsChange(t.NamedTuple):
    """A new context. ``pair`` and ``authority`` tell whether the certificate with its key and the authority have changed."""

    context: ssl.SSLContext
    pair: bool
    authority: bool


def make_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context with these files. Raises OSError, whose text names the setting and the file."""
    _digests(files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password OpenSSL would ask for that of an encrypted key on the terminal, and wait.
        context.load_cert_chain(files.cert_file, files.key_file, password="")
    except ssl.SSLError as error:
        raise OSError(f"server.tls: {files.cert_file} and {files.key_file} are no PEM certificate with its key: {error}") from None
    if files.client_ca_file:
        try:
            context.load_verify_locations(files.client_ca_file)
        except ssl.SSLError as error:
            raise OSError(f"server.tls.client_ca_file: {files.client_ca_file} has no PEM certificate: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class TlsWatch:
    """Notices changed files by their content, because a mounted Secret changes by a link to another folder.

    Raises OSError, as ``make_context``. ``context``: the first one.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        # The digests are never newer than the context, so that a change between the two is noticed later.
        self._digests = _digests(files)
        self.context = make_context(files)

    def change(self) -> TlsChange | None:
        """Return the change since the last one, or None.

        Raises OSError if the files cannot be used: a certificate can be there before its key. The change is then found again.
        """
        before, now = self._digests, _digests(self._files)
        if now == before:
            return None
        context = make_context(self._files)
        self._digests = now
        return TlsChange(context, now[:2] != before[:2], now[2] != before[2])


def _digests(files: TlsFiles) -> list[bytes]:
    """Return the digests of the certificate, of its key, and of the authority."""
    found = []
    for name in ("cert_file", "key_file", "client_ca_file"):
        file = getattr(files, name)
        try:
            found.append(sha256(Path(file).read_bytes() if file else b"").digest())
        except OSError as error:
            # A relative path is shown with its folder, which is that of the process and not that of FILE.
            text = f"server.tls.{name}: the file {Path(file).absolute()} cannot be read: {error.strerror or error}"
            raise OSError(text) from None
    return found
