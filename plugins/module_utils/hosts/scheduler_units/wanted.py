# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The wanted units of a host, and what follows from them and from the Python of the host."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PYTHON, SERVICES = "@PYTHON@", "@SERVICES@"
"""Places in the texts for the path of the host's Python, and for the folder of the extender, which depends on it."""

MARK = "KUBE_SCHEDULING_UNIT"
"""The environment variable that tells the next run the unit of the process."""

MINIMUM_SYSTEMD = 252
"""The first version of systemd on which the units were tried."""

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python for which services/requirements.txt has wheels."""


class Unit(NamedTuple):
    """A unit with the words of its command line, and the files in its folder. It is ready when ``url`` answers."""

    name: str
    text: str
    folder: str
    words: list[str]
    environment: dict[str, str]
    url: str
    files: dict[str, str]

    @property
    def hash(self) -> str:
        """The value by which the unit and its process are compared."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @property
    def marked_text(self) -> str:
        """The text of the unit, with its hash in the environment of the process."""
        return f"{self.text.strip()}\n# It tells the next run which unit the process has.\nEnvironment={MARK}={self.hash}\n"

    @property
    def check(self) -> list[str]:
        """The command that checks the files. It runs in their folder, as the unit does in that of its credentials."""
        # Of two equal options of kube-scheduler, the last one counts.
        options = ["--check-config"] if self.environment else ["--write-config-to=/dev/null", "--secure-port=0"]
        values = [f"{name}={value}" for name, value in self.environment.items()]
        return ["env", f"--chdir={self.folder}", *values, *self.words, *options]


def made_units(units: Sequence[Mapping[str, Any]], files: Mapping[str, dict[str, str]], python: str, services: str) -> list[Unit]:
    """Return the units for a Python of the host and the folder of the extender. ``files`` has the files by the name of their unit."""
    text = json.dumps(units).replace(PYTHON, python).replace(SERVICES, services)
    return [Unit(**unit, files=files[unit["name"]]) for unit in json.loads(text)]
