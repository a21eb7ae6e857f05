# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds Go programs through the module proxy: once, into a cache folder keyed by what went into them.

LAB_BIN_DIR names a folder with programs one already has; then nothing is built.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.go_toolchain import find_go
from lab.layout import cache_dir
from lab.locks import locked
from lab.progress import run_with_heartbeat

GIGABYTE = 10**9
WARM_BUILD_BYTES = 1 * GIGABYTE


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    cold_build: str
    """The duration of the build with empty caches on two cores, for the progress line."""


@dataclass(frozen=True)
class GoModule:
    """A folder with go.mod, go.sum and sources, and the programs that are built from it.

    ``stamps``: values of Go variables that a plain build leaves empty, such as versions. ``largest``: the module, as Go's module cache
    names its folder, whose presence shows that most has been downloaded. ``cold_build`` and ``cold_build_bytes``: the time and
    the disk space for all programs with empty caches on two cores. ``tags``: the build tags.
    """

    folder: Path
    programs: tuple[Program, ...]
    stamps: Mapping[str, str]
    largest: str
    cold_build: str
    cold_build_bytes: int
    tags: tuple[str, ...] = ()

    def flags(self) -> list[str]:
        """Flags of `go build`."""
        linker = " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in self.stamps.items())])
        tags = ["-tags", ",".join(self.tags)] if self.tags else []
        return ["-trimpath", "-buildvcs=false", *tags, "-ldflags", linker]

    def cache_key(self) -> str:
        """Short hash over everything that decides what the programs are."""
        sums = self.folder / "go.sum"
        parts = [
            (self.folder / "go.mod").read_bytes(),
            # A module that needs no other module has no go.sum.
            sums.read_bytes() if sums.exists() else b"",
            *(file.read_bytes() for file in sorted(self.folder.glob("*.go"))),
            "\0".join(self.flags()).encode(),
            f"{platform.system()}/{platform.machine()}".encode(),
        ]
        return hashlib.sha256(b"\0\0".join(parts)).hexdigest()[:12]

    def missing(self, folder: Path) -> list[str]:
        """Names of the programs that `folder` lacks."""
        return [program.name for program in self.programs if not os.access(folder / program.name, os.X_OK)]

    def ensure(self, log: Callable[[str], None]) -> Path:
        """Folder that holds all programs; builds the missing ones. Raises LabError with what to do."""
        given = os.environ.get("LAB_BIN_DIR")
        if given:
            return self._checked(Path(given).expanduser().resolve())
        if platform.system() != "Linux":
            raise LabError(f"the lab runs on Linux only, this is {platform.system()}: use a Linux machine or VM")
        key = self.cache_key()
        folder = cache_dir() / key
        lacking = self.missing(folder)
        if lacking:
            why = f"which builds {', '.join(lacking)} ({self.cold_build} with cold caches)"
            with locked(cache_dir() / f"{key}.lock", why=why, log=log):
                _build(self, folder, log)
        return folder

    def _checked(self, folder: Path) -> Path:
        lacking = self.missing(folder)
        if lacking:
            raise LabError(
                f"LAB_BIN_DIR={folder} has no executable {', '.join(lacking)}: put them there, "
                "or unset LAB_BIN_DIR to have all of them built"
            )
        return folder


@dataclass(frozen=True)
class _Build:
    """One build: the module, the go command, its environment and the folder of the programs."""

    module: GoModule
    go: Path
    environment: dict[str, str]
    folder: Path
    log: Callable[[str], None]

    def one(self, program: Program) -> None:
        number = f"{self.module.programs.index(program) + 1}/{len(self.module.programs)}"
        self.log(f"building {program.name} ({number}), takes up to {program.cold_build} cold")
        # Under its final name only when complete, so that an interrupted build leaves nothing half done.
        unfinished = self.folder / f".{program.name}.{os.getpid()}"
        try:
            result = run_with_heartbeat(
                [str(self.go), "build", *self.module.flags(), "-o", str(unfinished), program.package],
                what=program.name,
                log=self.log,
                detail=_downloads,
                env=self.environment,
                cwd=self.module.folder,
            )
            if result.code != 0:
                raise LabError(f"building {program.name} failed: {result.tail(12)}\n{_hint(result.output)}")
            unfinished.replace(self.folder / program.name)
        finally:
            unfinished.unlink(missing_ok=True)
        self.log(f"  {program.name} done in {result.seconds:.0f} s")


def _build(module: GoModule, folder: Path, log: Callable[[str], None]) -> None:
    lacking = module.missing(folder)
    if not lacking:
        return
    folder.mkdir(parents=True, exist_ok=True)
    build = _Build(module, find_go(log), _build_environment(), folder, log)
    _check_disk(build)
    log(f"binaries: building {len(lacking)} of {len(module.programs)} into {folder} ({module.cold_build} with cold caches)")
    for program in module.programs:
        if program.name in lacking:
            build.one(program)


def _downloads(output: str) -> str:
    count = output.count("go: downloading")
    return f"({count} modules downloaded)" if count else ""


def _hint(output: str) -> str:
    if "no space left" in output:
        return "The disk is full: free some space, or set XDG_CACHE_HOME, GOCACHE, GOMODCACHE and TMPDIR to a larger disk."
    if "proxy" in output or "dial tcp" in output:
        return "The Go module proxy could not be reached: set GOPROXY to one that can, then run the same command again."
    return "Run the same command again; what was built so far is kept."


def _build_environment() -> dict[str, str]:
    fixed = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    return os.environ | fixed


def _check_disk(build: _Build) -> None:
    """Refuse before a build of minutes what would end with a full disk."""
    modules, cache = _go_caches(build)
    needed = WARM_BUILD_BYTES if (modules / build.module.largest).is_dir() else build.module.cold_build_bytes
    for place in (modules, cache, build.folder):
        existing = next(path for path in (place, *place.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if free < needed:
            raise LabError(
                f"disk: building needs {needed / GIGABYTE:.0f} GB in {place}, {free / GIGABYTE:.1f} GB are free. "
                "Free some space, set GOMODCACHE, GOCACHE and XDG_CACHE_HOME to a larger disk, "
                "or set LAB_BIN_DIR to a folder that already has the binaries."
            )


def _go_caches(build: _Build) -> tuple[Path, Path]:
    """Go's module cache and build cache."""
    answer = subprocess.run(
        [build.go, "env", "GOMODCACHE", "GOCACHE"],
        capture_output=True,
        text=True,
        check=True,
        env=build.environment,
        cwd=build.module.folder,
    )
    modules, cache = answer.stdout.split("\n")[:2]
    return Path(modules), Path(cache)
