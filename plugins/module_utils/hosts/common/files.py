# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Files of a managed host. They are compared, written beside their place, and renamed, so that no program reads a part of one."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional


@dataclass(frozen=True)
class HostFile:
    """The wanted state of a file. An owner of -1 is the one who writes it. A file that is not shown has secrets.

    ``check`` is called with the path of the new file before it replaces the present one. It raises HostError to refuse it.
    """

    path: str
    text: str
    mode: int = 0o644
    uid: int = -1
    gid: int = -1
    shown: bool = True
    check: Optional[Callable[[str], None]] = None

    def is_there(self) -> bool:
        """Return whether the file has this content, mode and owner."""
        if not Path(self.path).is_file() or Path(self.path).is_symlink():
            return False
        found = Path(self.path).stat()
        owned = self.uid in (-1, found.st_uid) and self.gid in (-1, found.st_gid)
        return owned and stat.S_IMODE(found.st_mode) == self.mode and read_text(self.path) == self.text

    def write(self) -> None:
        """Replace the file. The folder must exist."""
        descriptor, beside = tempfile.mkstemp(prefix=f".{Path(self.path).name}.", dir=Path(self.path).parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as output:
                os.fchown(descriptor, self.uid, self.gid)
                os.fchmod(descriptor, self.mode)
                output.write(self.text)
                output.flush()
                os.fsync(descriptor)
            if self.check:
                self.check(beside)
            Path(beside).replace(self.path)
        finally:
            Path(beside).unlink(missing_ok=True)


@dataclass
class Changes:
    """The changes of a run. In check mode (``dry``) they are only counted."""

    dry: bool
    changed: bool = False
    diffs: list[dict[str, str]] = field(default_factory=list)

    def do(self, needed: bool, action: Callable[..., Any], *arguments: Any) -> bool:
        """Change something, if it is needed. Return whether it was."""
        self.changed |= needed
        if needed and not self.dry:
            action(*arguments)
        return needed

    def put(self, file: HostFile) -> bool:
        """Write a file that differs, and keep what --diff shows. Return whether it differed."""
        differs = not file.is_there()
        if differs and file.shown:
            headers = {"before_header": file.path, "after_header": file.path}
            self.diffs.append({"before": read_text(file.path), "after": file.text, **headers})
        return self.do(differs, file.write)

    def make_folder(self, path: str) -> None:
        """Make a folder that all users can enter. One that exists keeps its mode."""
        if self.do(not Path(path).is_dir(), lambda: Path(path).mkdir(parents=True)):
            self.do(True, Path(path).chmod, 0o755)

    def own_folder(self, path: str, mode: int, uid: int = -1) -> None:
        """Make a folder, and give it this mode and this owner."""
        self.do(not Path(path).is_dir(), lambda: Path(path).mkdir(parents=True))
        if Path(path).is_dir():
            found = Path(path).stat()
            self.do(uid not in (-1, found.st_uid) or uid not in (-1, found.st_gid), os.chown, path, uid, uid)
            self.do(stat.S_IMODE(found.st_mode) != mode, Path(path).chmod, mode)

    def remove(self, path: str) -> bool:
        """Remove a file. Return whether there was one."""
        return self.do(Path(path).is_file(), Path(path).unlink)

    def remove_empty(self, path: str) -> None:
        """Remove a folder if it is empty."""
        self.do(bool(path) and Path(path).is_dir() and not any(Path(path).iterdir()), Path(path).rmdir)


def read_text(path: str) -> str:
    """Return the content of a file. A file that does not exist has none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
