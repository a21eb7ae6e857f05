# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The header ``Authorization`` of the requests: a token, a renewed token in a file, a user name and a password, or no header.

Logins by exec plugins and auth providers are in ``kubernetes_client.py``.
"""

from __future__ import annotations

import base64
import contextlib
import time
import typing as t
from pathlib import Path

from .files import ConnectionSettingsError, read_file

Authorization = t.Callable[[], str]
"""Returns the value of the header ``Authorization``, empty for none. It is called for each request, because tokens are renewed."""

TOKEN_FILE_READ_EVERY_S = 60.0
"""Seconds after which the file of a token is read again.

The kubelet renews a token long before it expires (client-go uses the same interval).
"""


def no_authorization() -> str:
    """Return an empty text, so that no header ``Authorization`` is sent."""
    return ""


def bearer(token: str) -> Authorization:
    """Return the authorization with a token that does not change."""
    value = f"Bearer {token}"
    return lambda: value


def basic(username: str, password: str) -> Authorization:
    """Return the authorization with a user name and a password."""
    value = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
    return lambda: value


class TokenFile:
    """The authorization with a token in a file. The file is read again every minute.

    Raises ConnectionSettingsError if the file cannot be read at first, unless ``otherwise`` is the token to use then. The kubelet and other
    programs renew the token in the file. If a later read fails, the last token is used until the file can be read again.
    """

    def __init__(self, path: Path, clock: t.Callable[[], float] = time.monotonic, *, otherwise: str = "") -> None:
        self._path = path
        self._clock = clock
        try:
            self._token = _token_in(path)
        except ConnectionSettingsError:
            if not otherwise:
                raise
            self._token = otherwise
        self._read_at_s = clock()

    def __call__(self) -> str:
        now_s = self._clock()
        if now_s - self._read_at_s >= TOKEN_FILE_READ_EVERY_S:
            self._read_at_s = now_s
            with contextlib.suppress(ConnectionSettingsError):
                self._token = _token_in(self._path)
        return f"Bearer {self._token}"


def _token_in(path: Path) -> str:
    text = read_file(path).decode("utf-8", "replace").strip()
    if not text:
        raise ConnectionSettingsError(f"the file {path} has no token")
    return text
