# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The releases of ansible-core that the collection is tested with, and the requirements of an environment with one of them.

`make env` takes the newest one for its Python. `ANSIBLE_CORE=2.19` chooses another one, also for the checks: `make unit ANSIBLE_CORE=2.19`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lab.layout import project_cache_dir
from tools.errors import ToolError
from tools.paths import ROOT

DEVEL = "devel"
DEVEL_SOURCE = "ansible-core @ https://github.com/ansible/ansible/archive/devel.tar.gz"
"""The development branch. No package index has it."""


@dataclass(frozen=True)
class Release:
    """One minor version: the requirement, and the oldest and the newest Python of its controllers.

    ``constraints`` are versions in place of those in tools/constraints.txt, which this release refuses.
    """

    requirement: str
    oldest_python: tuple[int, int]
    newest_python: tuple[int, int]
    constraints: Mapping[str, str] = field(default_factory=dict)

    def supports(self, python: tuple[int, int]) -> bool:
        return self.oldest_python <= python <= self.newest_python


RELEASES: Mapping[str, Release] = {
    "2.18": Release("ansible-core==2.18.19", (3, 11), (3, 13), {"resolvelib": "1.0.1"}),
    "2.19": Release("ansible-core==2.19.14", (3, 11), (3, 13)),
    "2.20": Release("ansible-core==2.20.10", (3, 12), (3, 14)),
    "2.21": Release("ansible-core==2.21.5", (3, 12), (3, 14)),
    DEVEL: Release(DEVEL_SOURCE, (3, 13), (3, 14)),
}
OLDEST = next(iter(RELEASES))


def release(wanted: str, python: tuple[int, int]) -> Release:
    """Return the wanted release. Raises ToolError if it is not known, or if its controllers cannot have this Python."""
    found = RELEASES.get(wanted)
    if found is None:
        raise ToolError(f"ANSIBLE_CORE={wanted} is not known: use {', '.join(RELEASES)}, or unset it for the newest one.")
    if not found.supports(python):
        oldest, newest = (".".join(map(str, version)) for version in (found.oldest_python, found.newest_python))
        raise ToolError(
            f"ansible-core {wanted} runs with Python {oldest} to {newest}, and the interpreter is Python {python[0]}.{python[1]}. "
            f"Name another one: make env ANSIBLE_CORE={wanted} BASE_PYTHON=/path/to/python{newest}"
        )
    return found


def requirements_with(wanted: Release, files: Sequence[Path]) -> list[Path]:
    """Return copies of files with requirements or constraints, in the cache, that ask for this release in place of the pinned one."""
    texts = {file: _changed(file.read_text(encoding="utf-8"), wanted) for file in files}
    folder = project_cache_dir() / "requirements" / hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:12]
    copies = []
    for file, text in texts.items():
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
        copies.append(copy)
    return copies


def _changed(text: str, wanted: Release) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        name = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        if name == "ansible-core":
            # The file has a line for each group of Pythons. Only one of them is kept.
            lines += [] if wanted.requirement in lines else _lines_of(wanted)
        elif name in wanted.constraints:
            lines.append(f"{name}=={wanted.constraints[name]}")
        else:
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _lines_of(wanted: Release) -> list[str]:
    if wanted.requirement != DEVEL_SOURCE:
        return [wanted.requirement]
    # The environments are cached by the content of these files. The day makes a new one, because the branch changes.
    return [f"# {today()}", wanted.requirement]


def today() -> str:
    """Return the date in UTC."""
    return datetime.now(UTC).date().isoformat()
