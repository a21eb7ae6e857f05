# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The collections kubernetes.core and community.docker, taken out of the PyPI package `ansible`.

That needs no second package source beside pip's. Only these collections of the package are kept. Scenarios of molecule reach the nodes of a
kind cluster, which are containers, by a connection of community.docker.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from lab.progress import run_with_heartbeat
from tools.errors import ToolError

ANSIBLE_FOR_PYTHON = {(3, 11): "12.3.0"}
"""Newest `ansible` for a Python that the default below no longer supports; 12.3.0 has kubernetes.core 6.2.0."""

ANSIBLE = "14.5.0"
"""Has kubernetes.core 6.6.0."""

ROOT = "ansible_collections"
COLLECTIONS = ("kubernetes/core", "community/docker")
"""Namespace and name of each."""
NAMESPACES = tuple(name.partition("/")[0] for name in COLLECTIONS)


def ensure(python: Path, version: tuple[int, int]) -> Path:
    """The folder `ansible_collections` with them; `python` has pip and is of that minor version."""
    release = ANSIBLE_FOR_PYTHON.get(version, ANSIBLE)
    names = [name.replace("/", ".") for name in COLLECTIONS]
    folder = project_cache_dir() / "collections" / "-".join([release, *names])
    if not folder.is_dir():
        with locked(folder.with_name(f"{folder.name}.lock"), why="which fetches the same collections", log=print):
            if not folder.is_dir():
                _fetch(python, release, folder)
    return folder / ROOT


def _fetch(python: Path, release: str, folder: Path) -> None:
    print(f"environment: fetching {', '.join(COLLECTIONS)} out of the PyPI package ansible {release} (50 MB)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wheel = _download(python, release, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            wanted = tuple(f"{ROOT}/{name}/" for name in COLLECTIONS)
            archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith(wanted)])
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        unpacked.rename(folder)


def _download(python: Path, release: str, folder: Path) -> Path:
    command = [str(python), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"ansible=={release}"]
    result = run_with_heartbeat(command, what=f"download ansible {release}", log=print)
    if result.code != 0:
        raise ToolError(
            f"pip download ansible=={release} failed:\n{result.tail(10)}\n"
            "Check that pip reaches a package index, then run the same command again."
        )
    return next(folder.glob("*.whl"))
