# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The collections kubernetes.core, community.docker and awx.awx, taken out of the PyPI package `ansible`.

That needs no second package source beside pip's. Only these collections of the package are kept. Scenarios of molecule reach the nodes of a
kind cluster, which are containers, by a connection of community.docker. playbooks/awx.yml has modules of awx.awx.
"""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from lab.progress import run_with_heartbeat
from tools.errors import ToolError

OLDEST_PYTHON = (3, 11)
ANSIBLE_FOR_OLDEST_PYTHON = "12.3.0"
"""Newest `ansible` for this Python; it has kubernetes.core 6.2.0 and awx.awx 24.6.1."""


@dataclass(frozen=True)
class Source:
    """A release of `ansible`, and the collections that are taken from it: namespace and name of each."""

    release: str
    collections: tuple[str, ...]


SOURCES = (
    # It has kubernetes.core 6.6.0.
    Source("14.5.0", ("kubernetes/core", "community/docker")),
    # The last one with awx.awx, which is 24.6.1.
    Source("13.8.0", ("awx/awx",)),
)

ROOT = "ansible_collections"
COLLECTIONS = tuple(name for source in SOURCES for name in source.collections)


def ensure(python: Path, version: tuple[int, int]) -> dict[str, Path]:
    """Return the folder of each namespace; `python` has pip and is of that minor version."""
    found = {}
    for source in SOURCES:
        folder = _ensure(python, source, ANSIBLE_FOR_OLDEST_PYTHON if version == OLDEST_PYTHON else source.release)
        for name in source.collections:
            namespace = name.partition("/")[0]
            found[namespace] = folder / ROOT / namespace
    return found


def _ensure(python: Path, source: Source, release: str) -> Path:
    names = [name.replace("/", ".") for name in source.collections]
    folder = project_cache_dir() / "collections" / "-".join([release, *names])
    if not folder.is_dir():
        with locked(folder.with_name(f"{folder.name}.lock"), why="which fetches the same collections", log=print):
            if not folder.is_dir():
                _fetch(python, release, source.collections, folder)
    return folder


def _fetch(python: Path, release: str, collections: tuple[str, ...], folder: Path) -> None:
    print(f"environment: fetching {', '.join(collections)} out of the PyPI package ansible {release} (50 MB)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wheel = _download(python, release, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            wanted = tuple(f"{ROOT}/{name}/" for name in collections)
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
