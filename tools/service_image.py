# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The Python environment that the image of a service has: the requirements of its programs, without ansible-core and test tools."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from lab.progress import run_with_heartbeat
from tools import interpreters, venvs
from tools.errors import ToolError
from tools.paths import ROOT

REQUIREMENTS = (ROOT / "requirements.txt", ROOT / "services" / "extender" / "requirements.txt")
CONSTRAINTS = (ROOT / "tools" / "constraints.txt",)
BUILD_REQUIREMENTS = ROOT / "tools" / "requirements-build.txt"


def environment(python: Path) -> Path:
    """Return the folder of an environment with the requirements of the services. It is built if it is not in the cache."""
    return venvs.ensure("image", interpreters.real_path(python), REQUIREMENTS, CONSTRAINTS)


def build_wheels(python: Path) -> Path:
    """Return a folder with the wheels that pip needs to build a package, so that it needs no package index. ``python`` has pip."""
    folder = project_cache_dir() / "wheels" / hashlib.sha256(BUILD_REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_suffix(".lock"), why="which downloads the same wheels", log=print):
        if not folder.is_dir():
            _download(python, folder)
    return folder


def _download(python: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = [str(python), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        command += ["--dest", f"{scratch}/wheels", "--requirement", str(BUILD_REQUIREMENTS)]
        result = run_with_heartbeat(command, what=f"download {BUILD_REQUIREMENTS.name}", log=print)
        if result.code != 0:
            raise ToolError(f"pip download -r {BUILD_REQUIREMENTS} failed:\n{result.tail(10)}\n{venvs.REQUIREMENTS_REMEDY}")
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        Path(scratch, "wheels").rename(folder)
