# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Everything that a connection to an API server needs. Its representation shows no secret."""

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
"""How often the file of a token is read again. The kubelet renews a token long before it expires (client-go uses the same time)."""

LONGEST_NAME, LONGEST_PATH = 255, 4095
"""Bytes of the longest name in a folder and of the longest path on Linux."""

TOO_LONG = "a path is too long for the system: check that it is the path of a file and not its content"
"""It leaves the path out, because the content of a file may be a secret."""

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

    @property
    def has_login(self) -> bool:
        """There are credentials of a user."""
        return bool(self.authorization()) or self.client_certificate is not None


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
        raise _unreadable(path, error) from None


def path_of(text: str) -> Path:
    """The path that a text names, with the home folder in the place of ``~``. Raises SettingsError."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > LONGEST_PATH or max(map(len, encoded.split(b"/"))) > LONGEST_NAME:
        raise SettingsError(TOO_LONG)
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise SettingsError(f"the home folder in the path {text} is not known: write the whole path") from None


def exists(path: Path) -> bool:
    """Whether there is a file or a folder. Raises SettingsError where the system does not tell it."""
    return _mode(path) is not None


def is_file(path: Path) -> bool:
    """Whether there is a file. Raises SettingsError where the system does not tell it."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def _mode(path: Path) -> t.Optional[int]:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a zero byte in a path is a ValueError
        return None
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> SettingsError:
    return SettingsError(TOO_LONG if error.errno == errno.ENAMETOOLONG else f"the file {path} cannot be read: {error.strerror}")
