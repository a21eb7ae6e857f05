# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The collection kubernetes.core, taken out of the PyPI package `ansible`.

That needs no second package source beside pip's. Only this one collection of the package is kept.
"""

from __future__ import annotations

import shutil
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

WANTED = "ansible_collections/kubernetes/"


def ensure(python: Path, version: tuple[int, int]) -> Path:
    """The folder `ansible_collections/kubernetes`; `python` has pip and is of that minor version."""
    release = ANSIBLE_FOR_PYTHON.get(version, ANSIBLE)
    folder = project_cache_dir() / "collections" / release
    wanted = folder / WANTED
    if not wanted.is_dir():
        with locked(folder.with_suffix(".lock"), why="which fetches the same collection", log=print):
            if not wanted.is_dir():
                _fetch(python, release, folder)
    return wanted


def _fetch(python: Path, release: str, folder: Path) -> None:
    print(f"environment: fetching kubernetes.core out of the PyPI package ansible {release} (50 MB)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wheel = _download(python, release, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith(WANTED)])
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        shutil.rmtree(folder, ignore_errors=True)
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
