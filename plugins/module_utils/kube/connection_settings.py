# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Everything that a connection to an API server needs. Its representation shows no secret."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_FILE_READ_EVERY_S = 60.0
"""How often the file of a token is read again. The kubelet renews a token long before it expires (client-go uses the same time)."""

Pem = t.Union[bytes, Path, None]
"""Certificates or a key: their text, the file that holds them, or nothing."""

Authorization = t.Callable[[], str]
"""Returns the value of the header ``Authorization``, empty for none. It is called for each request, because tokens are renewed."""


class SettingsError(ValueError):
    """A connection cannot be made as it is described. The text says what is wrong and holds no secret."""


def no_authorization() -> str:
    """Send no header ``Authorization``."""
    return ""


@dataclass(frozen=True)
class ConnectionSettings:
    """``server`` is a URL. ``headers`` are sent with each request; a name may appear several times.

    ``tls_server_name`` is the name in the server's certificate where it is not that of the URL. ``no_proxy`` names the hosts that are
    reached without ``proxy``, with commas between them.
    """

    server: str
    authorization: Authorization = field(default=no_authorization, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    ca: Pem = field(default=None, repr=False)
    client_certificate: Pem = field(default=None, repr=False)
    client_key: Pem = field(default=None, repr=False)
    verify: bool = True
    tls_server_name: str = ""
    proxy: str = field(default="", repr=False)
    no_proxy: str = ""
    proxy_headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def bearer(token: str) -> Authorization:
    """The authorization by a token that does not change."""
    value = f"Bearer {token}"
    return lambda: value


class TokenFile:
    """The authorization by a token in a file, which is read again every minute.

    Raises SettingsError where the file cannot be read at first. Later the last token is used until the file can be read again.
    """

    def __init__(self, path: Path, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._token = _token_in(path)
        self._read_at_s = clock()

    def __call__(self) -> str:
        now_s = self._clock()
        if now_s - self._read_at_s >= TOKEN_FILE_READ_EVERY_S:
            self._read_at_s = now_s
            with contextlib.suppress(SettingsError):
                self._token = _token_in(self._path)
        return f"Bearer {self._token}"


def _token_in(path: Path) -> str:
    text = read_file(path).decode("utf-8", "replace").strip()
    if not text:
        raise SettingsError(f"the file {path} has no token")
    return text


def read_file(path: Path) -> bytes:
    """The content of a file; raises SettingsError with its path and the system's reason."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"the file {path} cannot be read: {error.strerror}") from None
