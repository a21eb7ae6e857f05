# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of a connection to an API server. Their representation contains no secret."""

from __future__ import annotations

import contextlib
import errno
import stat
import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_FILE_READ_EVERY_S = 60.0
"""Seconds after which the file of a token is read again.

The kubelet renews a token long before it expires (client-go uses the same interval).
"""

MAX_NAME_LENGTH, MAX_PATH_LENGTH = 255, 4095
"""Bytes of the longest file name and of the longest path on Linux."""

TOO_LONG = "a path is too long for the system: check that it is the path of a file and not its content"
"""The message omits the path, because it may be the content of a file with secrets."""

Pem = t.Union[bytes, Path, None]
"""Certificates or a key: their bytes, the file that contains them, or None."""

Authorization = t.Callable[[], str]
"""Returns the value of the header ``Authorization``, empty for none. It is called for each request, because tokens are renewed."""


class ConnectionSettingsError(ValueError):
    """The settings of a connection cannot be used. The text contains no secret."""


def no_authorization() -> str:
    """Return an empty text, so that no header ``Authorization`` is sent."""
    return ""


@dataclass(frozen=True)
class ConnectionSettings:
    """The settings of a connection. ``server`` is a URL.

    ``headers`` are sent with each request, and a name may occur several times.
    ``tls_server_name`` is the name in the server's certificate if it differs from the host in the URL. ``no_proxy`` is a comma-separated
    list of hosts for which ``proxy`` is not used.
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

    @property
    def has_login(self) -> bool:
        """Return whether there are credentials of a user."""
        return bool(self.authorization()) or self.client_certificate is not None


def bearer(token: str) -> Authorization:
    """Return the authorization with a token that does not change."""
    value = f"Bearer {token}"
    return lambda: value


class TokenFile:
    """The authorization with a token in a file. The file is read again every minute.

    Raises ConnectionSettingsError if the file cannot be read at first. The kubelet and other programs renew the token in the file. If a
    later read fails, the last token is used until the file can be read again.
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
            with contextlib.suppress(ConnectionSettingsError):
                self._token = _token_in(self._path)
        return f"Bearer {self._token}"


def _token_in(path: Path) -> str:
    text = read_file(path).decode("utf-8", "replace").strip()
    if not text:
        raise ConnectionSettingsError(f"the file {path} has no token")
    return text


def read_file(path: Path) -> bytes:
    """Return the content of a file. Raises ConnectionSettingsError with its path and the error of the system."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def path_of(text: str) -> Path:
    """Return the path in a text, with ``~`` replaced by the home folder. Raises ConnectionSettingsError."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > MAX_PATH_LENGTH or max(map(len, encoded.split(b"/"))) > MAX_NAME_LENGTH:
        raise ConnectionSettingsError(TOO_LONG)
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConnectionSettingsError(f"the home folder in the path {text} is not known: write the whole path") from None


def exists(path: Path) -> bool:
    """Return whether a file or a folder exists. Raises ConnectionSettingsError if the system reports another error."""
    return _mode(path) is not None


def is_file(path: Path) -> bool:
    """Return whether a file exists. Raises ConnectionSettingsError if the system reports another error."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def _mode(path: Path) -> t.Optional[int]:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a path with a zero byte raises ValueError
        return None
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> ConnectionSettingsError:
    return ConnectionSettingsError(TOO_LONG if error.errno == errno.ENAMETOOLONG else f"the file {path} cannot be read: {error.strerror}")
