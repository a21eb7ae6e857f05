# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""kube-scheduler and its extenders as units of systemd. If a new unit is not ready, the units that worked last run again.

The programs and the folders of the files have a hash in their names, and are never changed. So a change replaces only units, and the
earlier units still find their files.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from .common.files import Changes, HostFile, read_text
from .common.previous import Previous
from .common.system import (
    ARCHITECTURES,
    Answer,
    HostError,
    Run,
    journal_end,
    klog_error,
    main_pid,
    name_problems,
    port_problems,
    process_value,
    run_checked,
    wait_until,
)

PYTHON, SERVICES = "@PYTHON@", "@SERVICES@"
"""Places in the texts for the path of the host's Python, and for the folder of the extender, which depends on it."""
MARK = "KUBE_SCHEDULING_UNIT"
"""The environment variable that tells the next run the unit of the process."""
MINIMUM_SYSTEMD = 252
"""The first version of systemd on which the units were tried."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python for which services/requirements.txt has wheels."""
READ_PYTHON = "import os, sys; print(os.path.realpath(sys.executable), '%d.%d' % sys.version_info[:2])"
OWN_FILES = ("healthy*", "scheduler-*", "extender-*", "units-*")
"""The files in the folder of the units. Earlier versions of the role had a link to the units that worked last."""
OWN_PROGRAMS = ("kube-scheduler-*", "services-*", ".kube-scheduler-*", ".services-*")
SCHEDULER = "kube-scheduling-scheduler.service"
JOURNAL_S = 300
"""The age of lines of the journal if the start was in an earlier task."""


class Unit(NamedTuple):
    """A unit, and the files in its folder, which the command ``check`` checks there. It is ready when ``url`` answers."""

    name: str
    text: str
    folder: str
    check: list[str]
    url: str
    files: dict[str, str]

    @property
    def marked_text(self) -> str:
        """The text of the unit, with its hash in the environment of the process."""
        mark = hashlib.sha256(self.text.encode()).hexdigest()[:12]
        return f"{self.text.strip()}\n# It tells the next run which unit the process has.\nEnvironment={MARK}={mark}\n"

    @property
    def host_files(self) -> list[HostFile]:
        """The files in the folder. Only root can read them."""
        return [HostFile(f"{self.folder}/{name}", text, mode=0o600, shown=False) for name, text in self.files.items()]


def made_units(units: Sequence[Mapping[str, Any]], files: Mapping[str, dict[str, str]], python: str, services: str) -> list[Unit]:
    """Return the units for a Python of the host and the folder of the extender. ``files`` has the files by the name of their unit."""
    text = json.dumps(units).replace(PYTHON, python).replace(SERVICES, services)
    return [Unit(**unit, files=files[unit["name"]]) for unit in json.loads(text)]


class UnitsHost:
    """A host, and a method for each state of the module scheduler_units_host, which returns a part of its result.

    ``wanted.variables`` has the variables of the role without their prefix. In addition, ``units_folder`` and ``system_folder`` are those
    of the units and of systemd, ``program`` is the name of kube-scheduler with its hash, ``services`` is the hash of the extender,
    ``ports`` and ``names`` are used by the units, ``kubernetes_version`` is that of the API server, and ``units`` has a part of each
    `Unit`, the extenders first.
    """

    def __init__(self, wanted: SimpleNamespace, run: Run, ask: Callable[[str], Answer], changes: Changes) -> None:
        self.host, self.sources, self.wanted = wanted.host, wanted.sources, SimpleNamespace(**wanted.variables)
        self.run, self.ask, self.changes = run, ask, changes
        self.user = getpass.getuser() if os.getuid() else ""  # empty for root
        self.machine = os.uname().machine
        self.python_path, _space, self.python = run([self.wanted.python, "-c", READ_PYTHON])[1].strip().rpartition(" ")
        self.program = f"{self.wanted.program_folder}/{self.wanted.program}"
        self.services = f"{self.wanted.program_folder}/services-{self.wanted.services}-{self.python}-{self.machine}"
        self.units = made_units(self.wanted.units, wanted.files, self.python_path, self.services)
        names = {*self.own_names(), *(unit.name for unit in self.units)}
        self.previous = Previous(f"{self.wanted.units_folder}/previous", [self.unit_file(name) for name in sorted(names)])
        self.started, self.started_s = SCHEDULER, time.time() - JOURNAL_S

    def checked(self) -> dict[str, Any]:
        """Return the problems, what differs, the installed profiles, and what the controller needs to bring the programs."""
        problems = [self.host + text for text in self._problems()]
        advice = "run the playbook onprem.kube_scheduling.site or onprem.kube_scheduling.scheduler"
        differs = self.wanted.state == "present" and not problems and self._differs()
        # The configuration that the role has written.
        paths = re.findall(r"^LoadCredential=scheduler\.yaml:(.+)$", read_text(self.unit_file(SCHEDULER)), re.MULTILINE)
        config = "\n".join(read_text(path) for path in paths if not self.user)
        return {
            "problems": problems,
            "missing": [f"{self.host}: units differ from the variables, or do not run: {advice}"] if differs else [],
            "profiles": re.findall(r"^[ -]*schedulerName: *[\"']?([^\s\"']+)", config, re.MULTILINE),
            "needs": [name for name in ("program", "services") if not Path(getattr(self, name)).exists()],
            "python": self.python,
            "machine": self.machine,
            "hostname": socket.gethostname(),
        }

    def present(self) -> None:
        """Install and start the units, and wait until they are ready.

        Raises HostError with the reason, after it has restored the earlier units. Otherwise they stay kept. ``sources`` has the paths of
        the programs that the host does not have yet.
        """
        if not self._differs():
            return
        self.changes.changed = True
        if self.changes.dry:
            self._write_units()
            return
        try:
            self._write_programs()
            written = self._write_files()
            refused = list(self._refusals())
            if refused:
                raise HostError("\n".join([*refused, f"No unit of {self.host} was changed"]))
            self.previous.keep({"units": self.own_names()})
            self._start({*written, *self._write_units()})
        except (HostError, OSError) as error:
            raise HostError(self._restore(str(error))) from error

    def accepted(self) -> None:
        """Forget the earlier units, and remove what the wanted ones do not need."""
        self.changes.do(self.previous.is_kept(), self.previous.forget)
        wanted = [unit.name for unit in self.units]
        self._remove_units([name for name in self.own_names() if name not in wanted])
        texts = "".join(read_text(self.unit_file(name)) for name in self.own_names())
        for folder, patterns in ((self.wanted.units_folder, OWN_FILES), (self.wanted.program_folder, OWN_PROGRAMS)):
            for path in [path for pattern in patterns for path in Path(folder).glob(pattern) if str(path) not in texts]:
                remove: Callable[..., Any] = shutil.rmtree if path.is_dir() and not path.is_symlink() else Path.unlink
                self.changes.do(True, remove, path)

    def restored(self) -> dict[str, Any]:
        """Restore the units that worked last, if a change has begun."""
        return {"text": self._restore("")}

    def absent(self) -> None:
        """Stop the units, and remove all files of the role. There are no wanted units."""
        self.accepted()
        for folder in (self.wanted.units_folder, str(Path(self.wanted.units_folder).parent), self.wanted.program_folder):
            self.changes.remove_empty(folder)

    def unit_file(self, name: str) -> str:
        """Return the path of a unit."""
        return f"{self.wanted.system_folder}/{name}"

    def own_names(self) -> list[str]:
        """Return the names of the units of the role. The scheduler is the first one, because it asks the extenders."""
        found = [f for kind in ("scheduler", "extender-*") for f in Path(self.wanted.system_folder).glob(f"kube-scheduling-{kind}.service")]
        return sorted((file.name for file in found), reverse=True)

    def _runs(self, name: str) -> bool:
        """Return whether the process of a unit has the unit that is the one of systemd."""
        found = re.search(rf"^Environment={MARK}=(.*)$", read_text(self.unit_file(name)), re.MULTILINE)
        return found is not None and process_value(self.run, name, MARK) == found.group(1)

    def _differs(self) -> bool:
        """Return whether a unit or a file is not the wanted one, a unit does not run, or an earlier run was interrupted."""
        if self.previous.is_kept() or self.own_names() != sorted((unit.name for unit in self.units), reverse=True):
            return True
        return not all(
            read_text(self.unit_file(unit.name)) == unit.marked_text
            and self._runs(unit.name)
            and all(file.is_there() for file in unit.host_files)
            for unit in self.units
        )

    def _problems(self) -> Iterator[str]:
        """Yield the end of a sentence for each reason why the host cannot be used."""
        found = re.match(r"\d+", self.run(["systemctl", "show", "--property=Version", "--value"])[1])
        if self.user:
            yield f": the tasks run as {self.user}, and the units need root: set extended_scheduler_become: true"
        elif not found:
            yield " does not run systemd: choose another host, or extended_scheduler_shape: second_scheduler"
        elif self.wanted.state == "present":
            yield from self._program_problems(int(found.group()))
            own = {main_pid(self.run, name) for name in self.own_names()} - {0}  # 0 is also the kernel
            yield from port_problems(self.run, self.wanted.ports, own, str(self.wanted.secure_port))
            yield from name_problems(self.wanted.names)

    def _program_problems(self, systemd: int) -> Iterator[str]:
        name = self.wanted.python
        if systemd < MINIMUM_SYSTEMD:
            yield f" has systemd {systemd}, and the units need {MINIMUM_SYSTEMD} or later: upgrade the host, or choose another one"
        if self.machine not in ARCHITECTURES:
            yield f" is {self.machine}, and the extender has libraries only for {' and '.join(ARCHITECTURES)}: choose another host"
        if not self.python:
            yield f" has no program {name}: install Python {PYTHONS[0]} or later, and set extended_scheduler_python to its path"
        elif self.python not in PYTHONS:
            needed = f"and the extender needs one from {PYTHONS[0]} to {PYTHONS[-1]}"
            yield f": {name} is Python {self.python}, {needed}: install one, and set extended_scheduler_python to its path"

    def _write_programs(self) -> None:
        self.changes.make_folder(self.wanted.program_folder)
        program, services = Path(self.program), Path(self.services)
        if not program.exists():
            beside = str(program.with_name(f".{program.name}"))
            run_checked(self.run, "Write kube-scheduler", ["install", "--mode=0755", self.sources["program"], beside])
            Path(beside).replace(program)
        if not services.exists():
            new = services.with_name(f".{services.name}")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            self._install_services(str(new), self.sources["services"])
            (new / "libraries").replace(services)
            shutil.rmtree(new)

    def _install_services(self, folder: str, archive: str) -> None:
        """Install the wheels and the collection for the Python of the host. These are the steps of services/Containerfile."""
        python = self.python_path
        options = ["--quiet", "--no-cache-dir", "--no-compile", "--no-index", "--find-links=wheelhouse", "--no-deps", "--require-hashes"]
        for words in (
            ["tar", "--extract", "--no-same-owner", f"--file={archive}"],
            [python, "-m", "pip", "install", *options, "--requirement=requirements.txt", "--target=libraries"],
            [python, "image_slim.py", "libraries"],
            [python, "image_elf.py", "libraries"],
            ["cp", "--recursive", "collection/.", "libraries"],
            [python, "image_bytecode.py", "libraries"],
        ):
            environment = [f"--chdir={folder}", "PYTHONPATH=pip.whl", "PYTHONDONTWRITEBYTECODE=1"]
            run_checked(self.run, "Install the extender", ["env", *environment, *words])

    def _write_files(self) -> list[str]:
        """Write the files of the units. Return the names of the units with a file that differed."""
        written = []
        for unit in self.units:
            for folder in (self.wanted.units_folder, unit.folder):
                Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            written += [unit.name for file in unit.host_files if self.changes.put(file)]
        return written

    def _refusals(self) -> Iterator[str]:
        """Yield a sentence for each program that refuses its files, an unfit kube-scheduler, and each API server that is not reached."""
        for unit in self.units if self.wanted.validate else ():
            # The folder is that of the files, as it is that of the credentials for the unit.
            code, _output, error = self.run(["env", f"--chdir={unit.folder}", *unit.check])
            if code != 0:
                lines = [klog_error(line) for line in error.splitlines() if line][-3:]
                refuses = "kube-scheduler refuses the configuration" if unit.name == SCHEDULER else f"{unit.name} refuses its settings"
                yield f"{self.host}: {refuses}: {' '.join(lines)[:1000]}"
        version = self.run([self.program, "--version"])[1].strip()
        found = re.search(r"v1\.(\d+)", version)
        minor = int(self.wanted.kubernetes_version.split(".")[1])
        if not found or int(found.group(1)) not in (minor, minor - 1):
            yield (
                f"{self.host}: kube-scheduler is {version or 'unknown'}, and the API server is {self.wanted.kubernetes_version}: use a "
                "kube-scheduler of the same minor version or of the one before, for the architecture of the host"
            )
        kubeconfigs = "\n".join(unit.files["kubeconfig"] for unit in self.units)
        for server in sorted(set(re.findall(r"server: *\"?(https?://[^\s\"]+)", kubeconfigs))):
            answer = self.ask(f"{server}/healthz")
            if answer.status not in (200, 401, 403):  # the answer of the API server does not matter
                yield (
                    f"{self.host} does not reach the API server {server}, which the kubeconfig names ({answer}): open the connection, or "
                    "give kubeconfigs with an address that the host reaches"
                )

    def _write_units(self) -> list[str]:
        """Make the units those of systemd. Return the names of those that were not."""
        return [unit.name for unit in self.units if self.changes.put(HostFile(self.unit_file(unit.name), unit.marked_text))]

    def _start(self, written: Collection[str]) -> None:
        """Start the extenders, and then the scheduler: without its extender, it places pods without scores."""
        self._systemctl("daemon-reload")
        self._systemctl("enable", *(unit.name for unit in self.units))
        for group in (self.units[:-1], self.units[-1:]):
            for unit in group:
                if unit.name in written or not self._runs(unit.name):
                    self.started, self.started_s = unit.name, time.time()
                    self._systemctl("restart", unit.name)
            for unit in group:
                self._wait(unit)

    def _wait(self, unit: Unit) -> None:
        self.started = unit.name
        timeout_s = max(self.wanted.wait_timeout, 1)

        def look() -> tuple[bool, Answer]:
            answer = self.ask(unit.url)
            # A kube-scheduler before 1.31 has no such page. Others are ready when they have listed the nodes and the pods.
            return answer.status in (200, 404) and self._runs(unit.name), answer

        is_ready, answer = wait_until(look, lambda found: found[0], tries=timeout_s)
        if not is_ready:
            raise HostError(f"{unit.name} is not ready after {timeout_s} s: {answer}")

    def _restore(self, reason: str) -> str:
        """Restore the units that worked last, if a change has begun. Return the whole message."""
        parts = [reason]
        if self.previous.is_kept() and not self.changes.dry:
            journal = journal_end(self.run, self.started, self.started_s)
            parts.append(f"The journal of {self.started} ends with: {' | '.join(journal)[-1000:]}" if journal else "")
            parts.append(self._restore_units())
            self.changes.changed = True
        text = ". ".join(re.sub(r"[. ]+$", "", part) for part in parts if part)
        return text if text.startswith(self.host) or not text else f"{self.host}: {text}"

    def _restore_units(self) -> str:
        earlier: list[str] = self.previous.state()["units"]
        try:
            self._remove_units([name for name in self.own_names() if name not in earlier])
            self.previous.restore()
            self._systemctl("daemon-reload")
            for name in reversed(earlier):
                self._systemctl("enable", name)
                if not self._runs(name):
                    self._systemctl("restart", name)
        except (HostError, OSError) as error:
            return f"The rollback failed, too: {error}"
        self.previous.forget()
        return "The units that worked last run again" if earlier else "The host had no units that worked, so these are removed"

    def _remove_units(self, names: Collection[str]) -> None:
        for name in names:
            self.changes.do(True, self._systemctl, "disable", "--now", name)
            self.changes.remove(self.unit_file(name))
        if names and not self.changes.dry:
            self._systemctl("daemon-reload")

    def _systemctl(self, *words: str) -> None:
        run_checked(self.run, f"systemctl {' '.join(words)}", ["systemctl", "--quiet", *words])
