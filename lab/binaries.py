# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seven programs of a cluster: built once from go.mod, kept in a cache keyed by what went into them.

LAB_BIN_DIR names a folder with binaries one already has; then nothing is built.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.go_toolchain import find_go
from lab.layout import SOURCES, cache_dir
from lab.locks import locked
from lab.progress import run_with_heartbeat

KUBERNETES_VERSION = "1.36.3"
GIGABYTE = 10**9
COLD_BUILD_BYTES = 6 * GIGABYTE
WARM_BUILD_BYTES = 1 * GIGABYTE


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    cold_build: str
    """How long the build takes with empty caches on two cores, for the progress line."""


PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3", "1 minute"),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "5 minutes"),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", "3 minutes"),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", "20 s"),
    Program("kubectl", "k8s.io/kubernetes/cmd/kubectl", "1 minute"),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", "30 s"),
    Program("kwokctl", "sigs.k8s.io/kwok/cmd/kwokctl", "30 s"),
)


def build_flags() -> list[str]:
    """Flags of `go build`. Unstamped binaries call themselves v0.0.0-master, over which clients stumble."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    stamps = {
        "k8s.io/component-base/version.gitVersion": f"v{KUBERNETES_VERSION}",
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBERNETES_VERSION}",
    }
    linker = " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in stamps.items())])
    return ["-trimpath", "-buildvcs=false", "-ldflags", linker]


def cache_key() -> str:
    """Short hash over everything that decides what the binaries are."""
    parts = [
        (SOURCES / "go.mod").read_bytes(),
        (SOURCES / "go.sum").read_bytes(),
        "\0".join(build_flags()).encode(),
        f"{platform.system()}/{platform.machine()}".encode(),
    ]
    return hashlib.sha256(b"\0\0".join(parts)).hexdigest()[:12]


def ensure(log: Callable[[str], None] = print) -> Path:
    """Folder that holds all seven programs; builds the missing ones."""
    given = os.environ.get("LAB_BIN_DIR")
    if given:
        return _checked(Path(given).expanduser().resolve())
    if platform.system() != "Linux":
        raise LabError(f"the lab runs on Linux only, this is {platform.system()}: use a Linux machine or VM")
    folder = cache_dir() / cache_key()
    if not missing(folder):
        return folder
    with locked(cache_dir() / f"{cache_key()}.lock", why="which builds the same binaries", log=log):
        _build(folder, log)
    return folder


def missing(folder: Path) -> list[str]:
    """Names of the programs that `folder` lacks."""
    return [program.name for program in PROGRAMS if not os.access(folder / program.name, os.X_OK)]


def _checked(folder: Path) -> Path:
    lacking = missing(folder)
    if lacking:
        raise LabError(
            f"LAB_BIN_DIR={folder} has no executable {', '.join(lacking)}: put them there, or unset LAB_BIN_DIR to have all of them built"
        )
    return folder


@dataclass(frozen=True)
class _Build:
    """Where and with what to build."""

    go: Path
    environment: dict[str, str]
    folder: Path
    log: Callable[[str], None]

    def one(self, program: Program) -> None:
        number = f"{PROGRAMS.index(program) + 1}/{len(PROGRAMS)}"
        self.log(f"building {program.name} ({number}), takes up to {program.cold_build} cold")
        # Under its final name only when complete, so that an interrupted build leaves nothing half done.
        unfinished = self.folder / f".{program.name}.{os.getpid()}"
        try:
            result = run_with_heartbeat(
                [str(self.go), "build", *build_flags(), "-o", str(unfinished), program.package],
                what=program.name,
                log=self.log,
                detail=_downloads,
                env=self.environment,
                cwd=SOURCES,
            )
            if result.code != 0:
                raise LabError(f"building {program.name} failed: {result.tail(12)}\n{_hint(result.output)}")
            unfinished.replace(self.folder / program.name)
        finally:
            unfinished.unlink(missing_ok=True)
        self.log(f"  {program.name} done in {result.seconds:.0f} s")


def _build(folder: Path, log: Callable[[str], None]) -> None:
    lacking = missing(folder)
    if not lacking:
        return
    folder.mkdir(parents=True, exist_ok=True)
    build = _Build(find_go(log), _build_environment(), folder, log)
    _check_disk(build)
    log(f"binaries: building {len(lacking)} of {len(PROGRAMS)} into {folder} (5 to 10 minutes with cold caches)")
    for program in PROGRAMS:
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
    warm = (modules / "k8s.io" / f"kubernetes@v{KUBERNETES_VERSION}").is_dir()
    needed = WARM_BUILD_BYTES if warm else COLD_BUILD_BYTES
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
        cwd=SOURCES,
    )
    modules, cache = answer.stdout.split("\n")[:2]
    return Path(modules), Path(cache)
