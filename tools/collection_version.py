# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes the version of galaxy.yml into the documents and definitions that name it. `make version VERSION=1.0.1` changes galaxy.yml first.

The wheel, the image and the programs read galaxy.yml themselves. `make deploy` would render the same version into deploy/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tools.errors import ToolError, exit_with
from tools.paths import ROOT
from tools.working_copy import repository_files

NUMBER = r"(?:0|[1-9]\d*)"
VERSION = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}(-(alpha|beta|rc)\.{NUMBER})?")
IN_GALAXY = re.compile(r"(?<=^version: )(?P<version>\S+)$", re.M)
PLACES = (
    re.compile(rf"(?<=onprem-kube_scheduling-)(?P<version>{VERSION.pattern})(?=\.tar\.gz)"),
    re.compile(rf"(?<=/services:)(?P<version>{VERSION.pattern})"),
    re.compile(rf"(?<=/services-with-agents:)(?P<version>{VERSION.pattern})"),
    re.compile(rf"(?<=/kube-scheduling-ee:)(?P<version>{VERSION.pattern})"),
    re.compile(rf"(?<=newTag: )(?P<version>{VERSION.pattern})"),
    # In a requirements.yml, after the name of the collection.
    re.compile(rf'(?<=- name: onprem\.kube_scheduling\n    version: ">=)(?P<version>{VERSION.pattern})'),
    # Tags.
    re.compile(rf"(?<=/kube_scheduling\.git,v)(?P<version>{VERSION.pattern})"),
    re.compile(rf"(?<=Without `,v)(?P<version>{VERSION.pattern})(?=`)"),
    re.compile(rf"(?<=awx_setup_project_branch: v)(?P<version>{VERSION.pattern})"),
    re.compile(rf"(?<=git push origin v)(?P<version>{VERSION.pattern})"),
    re.compile(rf"(?<=git clone --branch v)(?P<version>{VERSION.pattern})"),
)
"""The texts that name the version of the collection. The group is the version."""
SUFFIXES = {".md", ".yml", ".yaml"}
LEFT_OUT = {"changelogs", "lab", "tests"}
"""The changelog has older versions, and the others have versions of other programs, or none."""


def main() -> int:
    wanted = os.environ.get("VERSION", "")
    if wanted:
        before = current(ROOT)
        set_version(ROOT / "galaxy.yml", wanted)
        print(f"galaxy.yml: {before} is now {wanted}" if wanted != before else f"galaxy.yml has the version {wanted} already")
    for file in write(ROOT, current(ROOT)):
        print(file)
    return 0


def current(root: Path) -> str:
    """Return the version in galaxy.yml."""
    found = IN_GALAXY.search((root / "galaxy.yml").read_text(encoding="utf-8"))
    if not found:
        raise ToolError("galaxy.yml has no line `version:`")
    return found["version"]


def set_version(galaxy: Path, version: str) -> None:
    """Write the version into galaxy.yml. Raises ToolError if Galaxy would refuse it."""
    if not VERSION.fullmatch(version):
        raise ToolError(f"VERSION={version} is no semantic version: use three numbers, such as 1.0.1, or 1.1.0-rc.1 for a pre-release.")
    galaxy.write_text(IN_GALAXY.sub(version, galaxy.read_text(encoding="utf-8")), encoding="utf-8")


def write(root: Path, version: str) -> list[Path]:
    """Write the version into all places, and return the changed files."""
    changed = []
    for name in files_with_versions():
        before = (root / name).read_text(encoding="utf-8")
        after = before
        for place in PLACES:
            after = place.sub(version, after)
        if after != before:
            (root / name).write_text(after, encoding="utf-8")
            changed.append(name)
    return changed


def named(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each version that a file names, with the file."""
    for name in files_with_versions():
        text = (root / name).read_text(encoding="utf-8") if (root / name).is_file() else ""
        for place in PLACES:
            yield from ((name, found["version"]) for found in place.finditer(text))


def files_with_versions() -> list[Path]:
    """Return the files that can name the version, relative to the root."""
    return [
        name for name in repository_files() if name.suffix in SUFFIXES and name.parts[0] not in LEFT_OUT and name != Path("CHANGELOG.md")
    ]


if __name__ == "__main__":
    exit_with(main, "make version")
