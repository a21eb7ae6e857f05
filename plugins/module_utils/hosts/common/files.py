# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Files of a managed host. They are compared, written beside their place, and renamed, so that no program reads a part of one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HostFile:
    """The wanted state of a file. An owner of -1 is the one who writes it."""

    path: str
    text: str
    mode: int = 0o644
    uid: int = -1
    gid: int = -1

    def is_there(self) -> bool:
        """Return whether the file has this content, mode and owner."""
        file = Path(self.path)
        try:
            status = file.lstat()
        except FileNotFoundError:
            return False
        same = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == self.mode
        return same and self.uid in (-1, status.st_uid) and self.gid in (-1, status.st_gid) and read_text(self.path) == self.text

    def write(self) -> None:
        """Replace the file. The folder must exist."""
        file = Path(self.path)
        descriptor, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as output:
                os.fchown(descriptor, self.uid, self.gid)
                os.fchmod(descriptor, self.mode)
                output.write(self.text)
                output.flush()
                os.fsync(descriptor)
            Path(beside).replace(file)
        except BaseException:
            Path(beside).unlink()
            raise

    def diff(self) -> dict[str, str]:
        """Return what Ansible shows with --diff."""
        return {"before": read_text(self.path), "after": self.text, "before_header": self.path, "after_header": self.path}


def read_text(path: str) -> str:
    """Return the content of a file. A file that does not exist has none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def make_folder(path: str) -> None:
    """Make a folder that all users can enter. One that exists keeps its mode."""
    if not Path(path).is_dir():
        Path(path).mkdir(parents=True)
        Path(path).chmod(0o755)


def remove_file(path: str) -> bool:
    """Remove a file. Return whether there was one."""
    try:
        Path(path).unlink()
    except FileNotFoundError:
        return False
    return True


def remove_empty_folder(path: str) -> bool:
    """Remove a folder that is empty. Return whether it was one."""
    if not path or not Path(path).is_dir() or any(Path(path).iterdir()):
        return False
    Path(path).rmdir()
    return True


def remove_tree(path: str) -> None:
    """Remove a folder with all that is in it, if it exists."""
    shutil.rmtree(path, ignore_errors=True)
