# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The contents of a host with units of the scheduler. They are read when they are needed, and nothing is changed."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..common.files import HostFile, read_text
from ..common.network import name_problems, port_problems
from ..common.previous import Previous
from ..common.system import ARCHITECTURES, Run, main_pid, process_value
from .wanted import MARK, MINIMUM_SYSTEMD, PYTHONS, Unit, made_units

READ_PYTHON = "import os, sys; print(os.path.realpath(sys.executable), '%d.%d' % sys.version_info[:2])"


class Host:
    """The host, as far as the wanted units are concerned.

    ``wanted`` has the variables of the role without their prefix. In addition, ``host`` is the name in the inventory, ``units_folder`` and
    ``system_folder`` are those of the units and of systemd, ``program`` is the name of kube-scheduler with its hash, ``services`` is the
    hash of the extender, ``ports`` and ``names`` are used by the units, ``kubernetes_version`` is that of the API server, and ``units``
    and ``files`` are those of `made_units`, the extenders first.
    """

    def __init__(self, wanted: SimpleNamespace, run: Run) -> None:
        self.wanted, self.run = wanted, run
        self.user_of_tasks = getpass.getuser() if os.getuid() else ""  # empty for root
        self.machine = os.uname().machine
        self.program = f"{wanted.program_folder}/{wanted.program}"
        names = {*self.own_names(), *(unit["name"] for unit in wanted.units)}
        self.previous = Previous(f"{wanted.units_folder}/previous", [self.unit_file(name) for name in sorted(names)])

    @cached_property
    def systemd(self) -> int:
        """The version of the systemd that runs, or 0."""
        found = re.match(r"\d+", self.run(["systemctl", "show", "--property=Version", "--value"])[1])
        return int(found.group()) if found else 0

    @cached_property
    def python(self) -> tuple[str, str]:
        """The path and the version of the Python for the extenders. Both are empty if there is none."""
        path, version = self.run([self.wanted.python, "-c", READ_PYTHON])[1].strip().rpartition(" ")[::2]
        return path, version

    @property
    def services(self) -> str:
        """The folder of the extender."""
        return f"{self.wanted.program_folder}/services-{self.wanted.services}-{self.python[1]}-{self.machine}"

    @cached_property
    def units(self) -> list[Unit]:
        """The wanted units, the extenders first."""
        return made_units(self.wanted.units, self.wanted.files, self.python[0], self.services)

    def unit_file(self, name: str) -> str:
        """Return the path of a unit."""
        return f"{self.wanted.system_folder}/{name}"

    def own_names(self) -> list[str]:
        """Return the names of the units of the role. The scheduler is the first one, because it asks the extenders."""
        found = [f for kind in ("scheduler", "extender-*") for f in Path(self.wanted.system_folder).glob(f"kube-scheduling-{kind}.service")]
        return sorted((file.name for file in found), reverse=True)

    def runs(self, name: str) -> bool:
        """Return whether the process of a unit has the unit that is the one of systemd."""
        found = re.search(rf"^Environment={MARK}=(.*)$", read_text(self.unit_file(name)), re.MULTILINE)
        return found is not None and process_value(self.run, name, MARK) == found.group(1)

    @property
    def differs(self) -> bool:
        """A unit or a file is not the wanted one, a unit does not run, or an earlier run was interrupted."""
        if self.previous.is_kept() or self.own_names() != sorted((unit.name for unit in self.units), reverse=True):
            return True
        return not all(
            read_text(self.unit_file(unit.name)) == unit.marked_text
            and self.runs(unit.name)
            and all(file.is_there() for file in files_of(unit))
            for unit in self.units
        )

    def found(self) -> dict[str, Any]:
        """Return the problems, what differs, the installed profiles, and what the controller needs to bring the programs."""
        problems = [self.wanted.host + text for text in self._problems()]
        advice = "run the playbook onprem.kube_scheduling.site or onprem.kube_scheduling.scheduler"
        differs = self.wanted.state == "present" and not problems and self.differs
        programs = {"program": self.program, "services": self.services}
        return {
            "problems": problems,
            "missing": [f"{self.wanted.host}: units differ from the variables, or do not run: {advice}"] if differs else [],
            "profiles": [] if self.user_of_tasks else self._profiles(),
            "needs": [name for name, path in programs.items() if not Path(path).exists()],
            "python": self.python[1],
            "machine": self.machine,
        }

    def _profiles(self) -> list[str]:
        """Return the profiles in the configuration that the role has written."""
        unit = read_text(self.unit_file("kube-scheduling-scheduler.service"))
        paths = re.findall(r"^LoadCredential=scheduler\.yaml:(.+)$", unit, re.MULTILINE)
        return [name for path in paths for name in re.findall(r"^[ -]*schedulerName: *[\"']?([^\s\"']+)", read_text(path), re.MULTILINE)]

    def _problems(self) -> Iterator[str]:
        if self.user_of_tasks:
            yield f": the tasks run as {self.user_of_tasks}, and the units need root: set extended_scheduler_become: true"
        elif not self.systemd:
            yield " does not run systemd: choose another host, or extended_scheduler_shape: second_scheduler"
        elif self.wanted.state == "present":
            yield from self._program_problems()
            yield from self._network_problems()

    def _program_problems(self) -> Iterator[str]:
        name, version = self.wanted.python, self.python[1]
        if self.systemd < MINIMUM_SYSTEMD:
            yield f" has systemd {self.systemd}, and the units need {MINIMUM_SYSTEMD} or later: upgrade the host, or choose another one"
        if self.machine not in ARCHITECTURES:
            yield f" is {self.machine}, and the extender has libraries only for {' and '.join(ARCHITECTURES)}: choose another host"
        if not version:
            yield f" has no program {name}: install Python {PYTHONS[0]} or later, and set extended_scheduler_python to its path"
        elif version not in PYTHONS:
            needed = f"and the extender needs one from {PYTHONS[0]} to {PYTHONS[-1]}"
            yield f": {name} is Python {version}, {needed}: install one, and set extended_scheduler_python to its path"

    def _network_problems(self) -> Iterator[str]:
        own = {main_pid(self.run, name) for name in self.own_names()} - {0}  # 0 is also the kernel
        yield from port_problems(self.run, self.wanted.ports, own, str(self.wanted.secure_port))
        yield from name_problems(self.wanted.names)


def files_of(unit: Unit) -> list[HostFile]:
    """Return the files in the folder of a unit. Only root can read them."""
    return [HostFile(f"{unit.folder}/{name}", text, mode=0o600, shown=False) for name, text in unit.files.items()]
