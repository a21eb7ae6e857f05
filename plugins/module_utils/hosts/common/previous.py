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

from .files import HostFile, read_text, remove_file

SUFFIX = ".kube-scheduling-previous"


@dataclass(frozen=True)
class Previous:
    """The earlier state of ``files``.

    The file ``record`` is written last and removed first. While it exists, the kept files belong together.
    """

    record: str
    files: Sequence[str]

    def is_kept(self) -> bool:
        """Return whether a run was interrupted."""
        return Path(self.record).is_file()

    def keep(self, state: dict[str, Any]) -> dict[str, Any]:
        """Keep the files and a state, and return it. If an interrupted run has kept files, these stay, and its state is returned."""
        if not self.is_kept():
            for file in self.files:
                remove_file(file + SUFFIX)
                if Path(file).is_file():
                    # A link needs no disk space. Files are replaced, and never written into.
                    os.link(file, file + SUFFIX)
            existed = {file: Path(file).is_file() for file in self.files}
            HostFile(self.record, json.dumps({"existed": existed, "state": state}), mode=0o600).write()
        return self.state()

    def state(self) -> dict[str, Any]:
        """Return the kept state. It is empty if none is kept."""
        found: dict[str, Any] = self._read()["state"]
        return found

    def restore(self) -> None:
        """Make all files as they were. They stay kept."""
        for file, existed in self._read()["existed"].items():
            kept = Path(file + SUFFIX)
            if not existed:
                remove_file(file)
            elif kept.is_file() and not (Path(file).is_file() and kept.samefile(file)):
                beside = Path(f"{file}{SUFFIX}.new")
                remove_file(str(beside))
                os.link(kept, beside)
                beside.replace(file)

    def forget(self) -> None:
        """Remove what is kept, also by a run with other files."""
        files = {*self.files, *self._read()["existed"]}
        remove_file(self.record)
        for file in files:
            remove_file(file + SUFFIX)

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(read_text(self.record) or '{"existed": {}, "state": {}}')
        return found
