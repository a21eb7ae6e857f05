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
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import go_packages
from lab.errors import LabError
from lab.go_packages import LIST_FORMAT, Progress
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


@dataclass(frozen=True)
class GoModule:
    """A folder with go.mod, go.sum and sources, and the programs that are built from it.

    ``stamps``: values of Go variables that a plain build leaves empty, such as versions. ``largest``: the module, as Go's module cache
    names its folder, whose presence shows that most has been downloaded. ``cold_build_bytes``: the disk space for all programs with
    empty caches. ``tags``: the build tags.
    """

    folder: Path
    programs: tuple[Program, ...]
    stamps: Mapping[str, str]
    largest: str
    cold_build_bytes: int
    tags: tuple[str, ...] = ()

    def flags(self) -> list[str]:
        """Flags of `go build`."""
        linker = " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in self.stamps.items())])
        # The linker omits the debug information (-w). A tenth of the time of compilation is for writing it.
        return ["-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", *self.tag_flags(), "-ldflags", linker]

    def tag_flags(self) -> list[str]:
        """Flags of `go build` and `go list` for the build tags."""
        return ["-tags", ",".join(self.tags)] if self.tags else []

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
            with locked(cache_dir() / f"{key}.lock", why=f"which builds {', '.join(lacking)}", log=log):
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

    def programs(self, programs: list[Program]) -> None:
        """Build the programs in one command, so that one is linked while the next one is compiled."""
        paths = [program.package for program in programs]
        # This downloads the modules. `go build` would not compile before that either.
        packages = go_packages.read(self._run("list", "-deps", "-f", LIST_FORMAT, *self.module.tag_flags(), *paths, detail=_downloads))
        names = [go_packages.executable(path) for path, package in packages.items() if package.program]
        unfinished = self.folder / ".unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        work = unfinished / "work"
        work.mkdir(parents=True)
        # In a folder with the group bit, Go copies programs. Without it, it moves them when they are complete.
        unfinished.chmod(0o700)
        self.environment["GOTMPDIR"] = str(work)
        try:
            self._run("build", "-v", *self.module.flags(), "-o", f"{unfinished}/", *paths, detail=Progress(packages), ignored=packages)
        finally:
            # What is complete is kept, also after an error or an interrupt.
            for name, program in zip(names, programs, strict=True):
                if (unfinished / name).exists():
                    (unfinished / name).replace(self.folder / program.name)
            shutil.rmtree(unfinished)

    def _run(self, command: str, *arguments: str, detail: Callable[[str], str], ignored: Collection[str] = ()) -> str:
        """Run a command of Go. The lines `ignored` are no part of an error."""
        result = run_with_heartbeat(
            [str(self.go), command, *arguments],
            what=f"go {command}",
            log=self.log,
            detail=detail,
            env=self.environment,
            cwd=self.module.folder,
        )
        if result.code != 0:
            text = "\n".join([line for line in result.output.splitlines() if line and line not in ignored][-12:])
            raise LabError(f"go {command} in {self.module.folder} failed: {text}\n{_hint(result.output)}")
        return result.output


def _build(module: GoModule, folder: Path, log: Callable[[str], None]) -> None:
    missing = module.missing(folder)
    if not missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    build = _Build(module, find_go(log), _build_environment(), folder, log)
    _check_disk(build)
    log(f"binaries: building {', '.join(missing)} into {folder}")
    started = time.monotonic()
    build.programs([program for program in module.programs if program.name in missing])
    absent = module.missing(folder)
    if absent:
        raise LabError(f"go build in {module.folder} ended without an error and without {', '.join(absent)}")
    log(f"binaries: built in {time.monotonic() - started:.0f} s")


def _downloads(output: str) -> str:
    count = output.count("go: downloading")
    return f"({count} modules downloaded)" if count else ""


def _hint(output: str) -> str:
    if "no space left" in output:
        return "The disk is full: free some space, or set XDG_CACHE_HOME, GOCACHE and GOMODCACHE to a larger disk."
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
