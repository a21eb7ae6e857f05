# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of a Go build, and the estimate of the time that the rest of a build takes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

LIST_FORMAT = '{{.ImportPath}}|{{.DepOnly}}|{{.Dir}}|{{join .GoFiles ","}}|{{join .Imports ","}}'
"""The format of `go list -deps -f` that `read` reads."""
SHORTEST_MEASUREMENT_S = 15.0
"""The rest of a build is estimated from this time on."""


@dataclass(frozen=True)
class Package:
    """A Go package. ``program``: it was named in the command. ``size``: bytes of its sources. The time of its compilation follows them."""

    program: bool
    size: int
    imports: tuple[str, ...]


def read(output: str) -> dict[str, Package]:
    """Return the packages by their import paths, programs in the order of the command. Lines about downloads are skipped."""
    packages = {}
    for line in output.splitlines():
        if line.count("|") == 4:
            path, only_imported, folder, files, imports = line.split("|")
            size = sum(Path(folder, file).stat().st_size for file in files.split(",") if file)
            packages[path] = Package(only_imported == "false", size, tuple(imports.split(",")))
    return packages


def executable(path: str) -> str:
    """Return the name that Go gives a program: the last element of its import path that is not a major version."""
    elements = path.split("/")
    return elements[-2] if len(elements) > 1 and re.fullmatch(r"v([2-9]|[1-9]\d+)", elements[-1]) else elements[-1]


class Progress:
    """Tells what `go build -v` has compiled, and the time that the rest takes at the speed up to now."""

    def __init__(self, packages: Mapping[str, Package]) -> None:
        self._packages = packages
        self._started = time.monotonic()

    def __call__(self, output: str) -> str:
        compiled = {line for line in output.splitlines() if line in self._packages}
        done = self._with_imports(compiled)
        text = f"({len(done):,} of {len(self._packages):,} packages"
        seconds = time.monotonic() - self._started
        if seconds < SHORTEST_MEASUREMENT_S or not compiled:
            return f"{text})"
        left = seconds / self._size(compiled) * self._size(self._packages.keys() - done)
        return f"{text}, {about_minutes(left)} left)"

    def _with_imports(self, compiled: set[str]) -> set[str]:
        """Add what Go has in its cache and does not compile: a package comes after those that it imports."""
        done, found = set(compiled), list(compiled)
        while found:
            new = self._packages.keys() & set(self._packages[found.pop()].imports) - done
            done |= new
            found += new
        return done

    def _size(self, paths: Iterable[str]) -> int:
        return sum(self._packages[path].size for path in paths)


def about_minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"about {minutes} minute{'s' if minutes > 1 else ''}" if minutes else "less than a minute"
