# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files that worked before. They are kept until the new ones work, also if the run that replaces them is interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .files import HostFile, read_text

SUFFIX = ".kube-scheduling-previous"


@dataclass(frozen=True)
class Previous:
    """The earlier state of ``files``.

    The file ``record`` is written last and removed first. While it exists, the kept files belong together.
    """

    record: str
    files: Sequence[str]

    def is_kept(self) -> bool:
        """Return whether a run has kept files, and has neither ended nor restored them."""
        return Path(self.record).is_file()

    def keep(self, state: dict[str, Any]) -> None:
        """Keep the files and a state. What an interrupted run has kept stays."""
        if self.is_kept():
            return
        for file in self.files:
            Path(file + SUFFIX).unlink(missing_ok=True)
            if Path(file).is_file():
                # A link needs no disk space. Files are replaced, and never written into.
                os.link(file, file + SUFFIX)
        existed = {file: Path(file).is_file() for file in self.files}
        HostFile(self.record, json.dumps({"existed": existed, "state": state}), mode=0o600).write()

    def state(self) -> dict[str, Any]:
        """Return the kept state."""
        found: dict[str, Any] = self._read("state")
        return found

    def restore(self) -> None:
        """Make all files as they were. They stay kept."""
        for file, existed in self._read("existed").items():
            Path(file).unlink(missing_ok=True)
            if existed:
                os.link(file + SUFFIX, file)

    def forget(self) -> None:
        """Remove what is kept, also by a run with other files."""
        files = {*self.files, *self._read("existed")}
        Path(self.record).unlink(missing_ok=True)
        for file in files:
            Path(file + SUFFIX).unlink(missing_ok=True)

    def _read(self, part: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(read_text(self.record) or "{}").get(part, {})
        return found
