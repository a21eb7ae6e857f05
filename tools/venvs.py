# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Virtual environments in the cache, one folder for each set of pins and interpreter.

They are shared by all checkouts; an environment that is in use stays untouched when the pins change.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from lab.progress import run_with_heartbeat
from tools.errors import ToolError
from tools.interpreters import real_path

REQUIREMENTS_REMEDY = "Check that pip reaches a package index (`pip download pip`), then run the same command again."


def ensure(name: str, python: Path, requirements: Sequence[Path], constraints: Sequence[Path] = ()) -> Path:
    """The folder of an environment with what the files ask for; built if it is not there or no longer runs."""
    interpreter = real_path(python)
    folder = project_cache_dir() / "venv" / f"{name}-{_key(interpreter, [*requirements, *constraints])}"
    if _usable(folder):
        return folder
    with locked(folder.with_suffix(".lock"), why="which builds the same environment", log=print):
        if not _usable(folder):
            _build(folder, interpreter, requirements, constraints)
    return folder


def _key(interpreter: Path, files: Sequence[Path]) -> str:
    version = subprocess.run([interpreter, "-VV"], capture_output=True, text=True, check=True).stdout
    parts = [str(interpreter).encode(), version.encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"\0\0".join(parts)).hexdigest()[:12]


def _usable(folder: Path) -> bool:
    # The interpreter below it may have been removed since.
    return (folder / "complete").exists() and (folder / "bin" / "python").exists()


def _build(folder: Path, interpreter: Path, requirements: Sequence[Path], constraints: Sequence[Path]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    print(f"environment: making a virtual environment of {interpreter} in {folder}")
    _run(
        [str(interpreter), "-m", "venv", str(folder)],
        "make a virtual environment",
        "If its text names ensurepip: install your system's package for it (Debian: apt install python3-venv).",
    )
    names = ", ".join(file.name for file in requirements)
    print(f"environment: installing {names} with pip")
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for file in requirements:
        command += ["--requirement", str(file)]
    for file in constraints:
        command += ["--constraint", str(file)]
    _run(command, f"pip install {names}", REQUIREMENTS_REMEDY)
    (folder / "complete").touch()


def _run(command: list[str], what: str, remedy: str) -> None:
    result = run_with_heartbeat(command, what=what, log=print)
    if result.code != 0:
        raise ToolError(f"{what} failed:\n{result.tail(15)}\n{remedy}")
