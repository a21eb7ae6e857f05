# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""axe-core, which finds barriers for people with disabilities in a page, from its npm package."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from tools import npm

PACKAGE = npm.Package("axe-core", "4.14.1", "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745")


def ensure() -> Path:
    """Return the file of the script. It is downloaded once. Raises ToolError."""
    file = project_cache_dir() / "axe" / f"{PACKAGE.version}.js"
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.with_suffix(".lock"), why="which downloads the same script", log=print):
        if not file.exists():
            with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
                npm.unpack(PACKAGE, Path(scratch), npm.path_with_npm(file.parent))
                (Path(scratch) / "package" / "axe.min.js").rename(file)
    return file
