# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Remove from the installed libraries what no program reads: their tests, type stubs, C sources and commands.

The first stage of the image's build runs it. It needs only Python's own library.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

FOLDERS = ("tests", "f2py", "_pyinstaller")
"""Folders of libraries that are imported only by tests, or by programs that compile."""

SUFFIXES = (".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h", ".a")

OF_TESTS = ("conftest.py", "_*_tests.*.so", "_simd.*.so")
"""Modules of numpy that only its own tests import. _simd offers them the instructions of the processor."""


def slim(root: Path) -> None:
    """Remove the files of the libraries below ``root``."""
    shutil.rmtree(root / "bin", ignore_errors=True)
    for path in sorted(root.rglob("*")):
        if path.name in FOLDERS and path.is_dir():
            shutil.rmtree(path)
        elif path.is_file() and (path.suffix in SUFFIXES or any(path.match(pattern) for pattern in OF_TESTS)):
            path.unlink()


if __name__ == "__main__":
    slim(Path(sys.argv[1]))
