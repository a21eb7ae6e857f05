# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The TLS context of the server, and its renewal when a file changes."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path


@dataclass(frozen=True)
class TlsFiles:
    """The PEM files of the server. With ``client_ca_file`` a client needs a certificate that this authority has signed."""

    cert_file: str
    key_file: str
    client_ca_file: str = ""


def make_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context. Raises OSError, whose text names the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The ssl module does not name the file of an error.
    _digest((files.cert_file, files.key_file, files.client_ca_file))
    try:
        context.load_cert_chain(files.cert_file, files.key_file)
    except ssl.SSLError as error:
        raise OSError(f"{files.cert_file} and {files.key_file} are no PEM certificate with its key: {error}") from None
    if files.client_ca_file:
        try:
            context.load_verify_locations(files.client_ca_file)
        except ssl.SSLError as error:
            raise OSError(f"{files.client_ca_file} has no PEM certificate: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class TlsWatch:
    """Notices changed files by their content, because a mounted Secret changes by a link to another folder."""

    def __init__(self, files: TlsFiles) -> None:
        self.files = files
        self._pair, self._authority = self._digests()

    def changes(self) -> tuple[bool, bool]:
        """Return whether the certificate or its key has changed since the last call, and whether the client authority has.

        Raises OSError if a file cannot be read. Then the next call returns the change.
        """
        pair, authority = self._digests()
        changed = (pair != self._pair, authority != self._authority)
        self._pair, self._authority = pair, authority
        return changed

    def _digests(self) -> tuple[bytes, bytes]:
        return _digest((self.files.cert_file, self.files.key_file)), _digest((self.files.client_ca_file,))


def _digest(files: Iterable[str]) -> bytes:
    digest = sha256()
    for file in files:
        digest.update(Path(file).read_bytes() if file else b"")
        digest.update(b"\0")
    return digest.digest()
