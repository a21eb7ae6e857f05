# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small base image with Debian's Python, made by debootstrap. It stands for the Python image of a registry where none can be pulled."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.kind import debootstrap, packages
from lab.kind.commands import run
from lab.layout import cache_dir
from lab.locks import locked

PYTHON = "3.11"
"""The Python of the release of debootstrap."""

PACKAGES = ("python3", "ca-certificates")
UNNEEDED = (
    *("var/cache/apt/*", "var/lib/apt/lists/*", "var/lib/dpkg/info", "var/log/*"),
    *("usr/share/man", "usr/share/doc", "usr/share/locale", "usr/share/info"),
)


def name() -> str:
    """Return the name of the image. It changes with the content."""
    key = hashlib.sha256("\0".join((debootstrap.RELEASE, *PACKAGES, *UNNEEDED)).encode()).hexdigest()[:12]
    return f"kube-scheduling.lab/python:{PYTHON}-{debootstrap.RELEASE}-{key}"


def ensure(log: Callable[[str], None]) -> str:
    """Import the image into the container engine if it has none, and return the name. The archive is kept in the cache."""
    if subprocess.run(["docker", "image", "inspect", name()], capture_output=True).returncode == 0:
        return name()
    archive = cache_dir() / f"{name().rpartition(':')[2]}.tar"
    with locked(archive.with_suffix(".lock"), why="which makes the base image", log=log):
        if not archive.is_file():
            _make(archive, log)
    run(
        ["docker", "import", str(archive), name()],
        what="docker import",
        log=log,
        remedy="Start the container engine: docker info must answer.",
    )
    return name()


def _make(archive: Path, log: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        root, unfinished = Path(scratch, "root"), Path(scratch, archive.name)
        debootstrap.make(root, PACKAGES, UNNEEDED, log, what=f"base image {name()}", install=packages.permitted())
        run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(unfinished), "."], what="tar", log=log)
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        unfinished.rename(archive)
