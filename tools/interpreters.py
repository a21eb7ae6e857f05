# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Finds the Python interpreters of this machine: those on PATH, and those that pyenv keeps beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.errors import ToolError

PREFERRED = ("3.13", "3.12")
"""The versions that the newest supported ansible-core runs on, best first."""

OLDEST = (3, 11)


def choose(wanted: str | None = None) -> Path:
    """The interpreter for the development environment; `wanted` (path or name) overrides the search."""
    if wanted:
        return _checked(wanted)
    for version in PREFERRED:
        found = find(version)
        if found:
            return found
    return _checked("python3")


def find(version: str) -> Path | None:
    """A Python of that minor version that really runs: pyenv's shims exist for versions that are not selected."""
    for candidate in _candidates(version):
        if version_of(candidate) == tuple(int(part) for part in version.split(".")):
            return candidate
    return None


def version_of(python: Path) -> tuple[int, int]:
    """Major and minor version of an interpreter; (0, 0) when it does not run."""
    try:
        answer = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    major, minor = answer.stdout.split()
    return int(major), int(minor)


def real_path(python: Path) -> Path:
    """The program itself instead of a shim, as a virtual environment must link it."""
    answer = subprocess.run(
        [python, "-c", "import os, sys; print(os.path.realpath(sys.executable))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(answer.stdout.strip())


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    on_path = shutil.which(name)
    if on_path:
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"), reverse=True)


def _checked(name: str) -> Path:
    found = shutil.which(name) or (sys.executable if name == "python3" else None)
    version = version_of(Path(found)) if found else (0, 0)
    if found and version >= OLDEST:
        return Path(found)
    what = f"{name} is Python {version[0]}.{version[1]}" if any(version) else f"{name} does not run"
    raise ToolError(
        f"{what}, and Python {OLDEST[0]}.{OLDEST[1]} or newer is needed. "
        "Install Python 3.13, or name one you have: make env BASE_PYTHON=/path/to/python3.13"
    )
