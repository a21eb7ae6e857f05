# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files that connection settings name, and the error if settings cannot be used."""

from __future__ import annotations

import errno
import stat
import typing as t
from pathlib import Path

MAX_NAME_LENGTH, MAX_PATH_LENGTH = 255, 4095
"""Bytes of the longest file name and of the longest path on Linux."""

TOO_LONG = "a path is too long for the system: check that it is the path of a file and not its content"
"""The message omits the path, because it may be the content of a file with secrets."""


class ConnectionSettingsError(ValueError):
    """The settings of a connection cannot be used. The text contains no secret."""


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


def searched(path: Path) -> str:
    """Return the path of a missing file for an error. A relative one has the folder that was searched."""
    try:
        return str(path) if path.is_absolute() else f"{path} in the folder {Path.cwd()}"
    except OSError:  # the folder was removed
        return str(path)


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
