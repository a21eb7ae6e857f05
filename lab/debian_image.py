# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image of the container engine with the root file system that debootstrap makes. Its archive is kept in the cache."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.kind import debootstrap
from lab.kind.commands import run
from lab.layout import cache_dir
from lab.locks import locked

SYSTEM_UNITS = "etc/systemd/system"


@dataclass(frozen=True)
class DebianImage:
    """A Debian release with some packages. Everything that decides the content is in the name of the image.

    ``name``: the reference without its release and key. ``unneeded``: patterns of files that are removed.
    ``emptied``: files that are made empty. ``masked``: units that systemd does not start. ``changes``: instructions of a Dockerfile.
    """

    name: str
    release: str
    packages: tuple[str, ...]
    unneeded: tuple[str, ...]
    emptied: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        parts = (self.release, *self.packages, *self.unneeded, *self.emptied, *self.masked, *self.changes)
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
        return f"{self.name}-{self.release}-{key}"

    def ensure(self, log: Callable[[str], None], *, install: bool) -> str:
        """Import the image into the container engine if it has none, and return the reference. `install`: as in `debootstrap.make`."""
        if subprocess.run(["docker", "image", "inspect", self.reference], capture_output=True).returncode == 0:
            return self.reference
        archive = self.archive(log, install=install)
        changes = [word for change in self.changes for word in ("--change", change)]
        run(
            ["docker", "import", *changes, str(archive), self.reference],
            what="docker import",
            log=log,
            remedy="Start the container engine: docker info must answer.",
        )
        return self.reference

    def archive(self, log: Callable[[str], None], *, install: bool) -> Path:
        """Return the archive of the root file system. It is made if the cache lacks it."""
        archive = cache_dir() / f"{self.reference.rpartition('/')[2].replace(':', '-')}.tar"
        with locked(archive.with_suffix(".lock"), why=f"which makes the image {self.reference}", log=log):
            if not archive.is_file():
                self._make(archive, log, install=install)
        return archive

    def _make(self, archive: Path, log: Callable[[str], None], *, install: bool) -> None:
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            root, unfinished = Path(scratch, "root"), Path(scratch, archive.name)
            debootstrap.make(root, self.packages, self.unneeded, log, what=f"image {self.reference}", install=install, release=self.release)
            for name in self.emptied:
                (root / name).write_text("")
            for unit in self.masked:
                (root / SYSTEM_UNITS / unit).symlink_to("/dev/null")
            run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(unfinished), "."], what="tar", log=log)
            # Under its final name only when complete, so that an interrupted run leaves nothing half done.
            unfinished.rename(archive)
