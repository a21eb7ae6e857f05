# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Release archives of node_exporter: an old version, a new one, and one that does not start. They are built from source."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lab import binaries
from lab.go_build import GIGABYTE, GoModule, Program
from lab.kind.archive import architecture, reproducible
from lab.layout import SOURCES, cache_dir

OLD_VERSION = "1.11.1"
BROKEN_VERSION = "1.99.0"

# A go.mod of its own, because a module has one version in a go.mod.
OLD = replace(
    binaries.NODE_EXPORTER,
    folder=SOURCES / "hosts" / "node_exporter",
    # Names of their own, because LAB_BIN_DIR is one folder for all programs.
    programs=(replace(binaries.NODE_EXPORTER.programs[0], name="node_exporter-old"),),
    stamps={"github.com/prometheus/common/version.Version": OLD_VERSION},
    largest=f"github.com/prometheus/node_exporter@v{OLD_VERSION}",
)

BROKEN = GoModule(
    folder=SOURCES / "hosts" / "broken",
    programs=(Program("node_exporter-broken", "."),),
    stamps={"main.version": BROKEN_VERSION},
    largest="",
    cold_build_bytes=1 * GIGABYTE,
)

RELEASES = {
    "old": (OLD_VERSION, OLD),
    "new": (binaries.NODE_EXPORTER_VERSION, binaries.NODE_EXPORTER),
    "broken": (BROKEN_VERSION, BROKEN),
}


@dataclass(frozen=True)
class ReleaseArchive:
    """An archive as a release of node_exporter has it."""

    version: str
    path: str
    checksum: str
    """The checksum as Ansible's modules read it."""


def ensure(log: Callable[[str], None]) -> dict[str, ReleaseArchive]:
    """Return the archives by the keys of `RELEASES`. They are made if the cache lacks them."""
    return {name: _archive(version, module, log) for name, (version, module) in RELEASES.items()}


def _archive(version: str, module: GoModule, log: Callable[[str], None]) -> ReleaseArchive:
    program = module.ensure(log) / module.programs[0].name
    path = cache_dir() / f"release-{module.cache_key()}" / f"node_exporter-{version}.linux-{architecture()}.tar.gz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.unfinished")
        write(unfinished, program, folder=path.name.removesuffix(".tar.gz"))
        unfinished.replace(path)
    return ReleaseArchive(version, str(path), f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")


def write(path: Path, program: Path, *, folder: str) -> None:
    """Write an archive with the program in `folder`. The same program gives the same archive."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        archive.add(program.parent, arcname=folder, recursive=False, filter=reproducible)
        archive.add(program, arcname=f"{folder}/node_exporter", filter=reproducible)
