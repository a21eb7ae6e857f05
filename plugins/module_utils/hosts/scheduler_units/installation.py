# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Install the units on a host, or remove them. If a new one is not ready, the units that worked last run again.

The programs and the folders of the files have a hash in their names, and are never changed. So a change replaces only units, and the
earlier units still find their files.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.files import Changes, HostFile, read_text
from ..common.system import Answer, HostError, journal_end, klog_error, run_checked, wait_until
from .host import Host, files_of
from .wanted import Unit

OWN_FILES = ("healthy*", "scheduler-*", "extender-*", "units-*")
"""The files in the folder of the units. Earlier versions of the role had a link to the units that worked last."""
OWN_PROGRAMS = ("kube-scheduler-*", "services-*", ".kube-scheduler-*", ".services-*")
JOURNAL_S = 300
"""The age of lines of the journal if the start was in an earlier task."""


class Installation:
    """One run on a host. In check mode (``dry``) nothing is changed. ``ask`` sends a request to a URL."""

    def __init__(self, host: Host, ask: Callable[[str], Answer], *, dry: bool) -> None:
        self.host, self.wanted, self.run, self.previous = host, host.wanted, host.run, host.previous
        self.ask, self.dry = ask, dry
        self.changes = Changes(dry)
        self.started, self.started_s = "kube-scheduling-scheduler.service", time.time() - JOURNAL_S

    def present(self, sources: Mapping[str, str]) -> None:
        """Install and start the units, and wait until they are ready.

        Raises HostError with the reason, after it has restored the earlier units. Otherwise they stay kept. ``sources`` has the paths of
        the programs that the host does not have yet.
        """
        if not self.host.differs:
            return
        self.changes.changed = True
        if self.dry:
            self._write_units()
            return
        try:
            self._write_programs(sources)
            written = self._write_files()
            refused = list(self._refusals())
            if refused:
                raise HostError("\n".join([*refused, f"No unit of {self.wanted.host} was changed"]))
            self.previous.keep({"units": self.host.own_names()})
            self._start({*written, *self._write_units()})
        except (HostError, OSError) as error:
            raise HostError(self.restore(str(error))) from error

    def accept(self) -> None:
        """Forget the earlier units, and remove what the new ones do not need."""
        self.changes.do(self.previous.is_kept(), self.previous.forget)
        wanted = {unit["name"] for unit in self.wanted.units}
        self._remove_units([name for name in self.host.own_names() if name not in wanted])
        self._remove_files()

    def restore(self, reason: str = "") -> str:
        """Restore the units that worked last, if a change has begun. Return the whole message."""
        parts = [reason]
        if self.previous.is_kept() and not self.dry:
            journal = journal_end(self.run, self.started, self.started_s)
            parts.append(f"The journal of {self.started} ends with: {' | '.join(journal)[-1000:]}" if journal else "")
            parts.append(self._restore_units())
            self.changes.changed = True
        text = ". ".join(re.sub(r"[. ]+$", "", part) for part in parts if part)
        return text if text.startswith(self.wanted.host) or not text else f"{self.wanted.host}: {text}"

    def absent(self) -> None:
        """Stop the units, and remove all files of the role."""
        self.changes.do(self.previous.is_kept(), self.previous.forget)
        self._remove_units(self.host.own_names())
        self._remove_files()
        for folder in (self.wanted.units_folder, str(Path(self.wanted.units_folder).parent), self.wanted.program_folder):
            self.changes.remove_empty(folder)

    def _write_programs(self, sources: Mapping[str, str]) -> None:
        self.changes.make_folder(self.wanted.program_folder)
        program, services = Path(self.host.program), Path(self.host.services)
        if not program.exists():
            beside = str(program.with_name(f".{program.name}"))
            run_checked(self.run, "Write kube-scheduler", ["install", "--mode=0755", sources["program"], beside])
            Path(beside).replace(program)
        if not services.exists():
            new = services.with_name(f".{services.name}")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            self._install_services(str(new), sources["services"])
            (new / "libraries").replace(services)
            shutil.rmtree(new)

    def _install_services(self, folder: str, archive: str) -> None:
        """Install the wheels and the collection for the Python of the host. These are the steps of services/Containerfile."""
        python = self.host.python[0]
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
        for unit in self.host.units:
            for folder in (self.wanted.units_folder, unit.folder):
                Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            written += [unit.name for file in files_of(unit) if self.changes.put(file)]
        return written

    def _refusals(self) -> Iterator[str]:
        """Yield a sentence for each program that refuses its files, an unfit kube-scheduler, and each API server that is not reached."""
        host = self.wanted.host
        for unit in self.host.units if self.wanted.validate else ():
            code, _output, error = self.run(unit.check)
            if code != 0:
                lines = [klog_error(line) for line in error.splitlines() if line][-3:]
                refuses = f"{unit.name} refuses its settings" if unit.environment else "kube-scheduler refuses the configuration"
                yield f"{host}: {refuses}: {' '.join(lines)[:1000]}"
        version = self.run([self.host.program, "--version"])[1].strip()
        found = re.search(r"v1\.(\d+)", version)
        minor = int(self.wanted.kubernetes_version.split(".")[1])
        if not found or int(found.group(1)) not in (minor, minor - 1):
            yield (
                f"{host}: kube-scheduler is {version or 'unknown'}, and the API server is {self.wanted.kubernetes_version}: use a "
                "kube-scheduler of the same minor version or of the one before, for the architecture of the host"
            )
        kubeconfigs = [unit.files["kubeconfig"] for unit in self.host.units]
        for server in sorted({url for text in kubeconfigs for url in re.findall(r"server: *\"?(https?://[^\s\"]+)", text)}):
            answer = self.ask(f"{server}/healthz")
            if answer.status not in (200, 401, 403):  # the answer of the API server does not matter
                yield (
                    f"{host} does not reach the API server {server}, which the kubeconfig names ({answer}): open the connection, or give "
                    "kubeconfigs with an address that the host reaches"
                )

    def _write_units(self) -> list[str]:
        """Make the units those of systemd. Return the names of those that were not."""
        files = {unit.name: HostFile(self.host.unit_file(unit.name), unit.marked_text) for unit in self.host.units}
        return [name for name, file in files.items() if self.changes.put(file)]

    def _start(self, written: Collection[str]) -> None:
        """Start the extenders, and then the scheduler: without its extender, it places pods without scores."""
        units = self.host.units
        self._systemctl("daemon-reload")
        self._systemctl("enable", *(unit.name for unit in units))
        for group in (units[:-1], units[-1:]):
            for unit in group:
                if unit.name in written or not self.host.runs(unit.name):
                    self.started, self.started_s = unit.name, time.time()
                    self._systemctl("restart", unit.name)
            for unit in group:
                self._wait(unit)

    def _wait(self, unit: Unit) -> None:
        self.started = unit.name

        def is_ready(answer: Answer) -> bool:
            # A kube-scheduler before 1.31 has no such page. Others are ready when they have listed the nodes and the pods.
            return answer.status in (200, 404) and self.host.runs(unit.name)

        timeout_s = max(self.wanted.wait_timeout, 1)
        answer = wait_until(lambda: self.ask(unit.url), is_ready, tries=timeout_s)
        if not is_ready(answer):
            raise HostError(f"{unit.name} is not ready after {timeout_s} s: {answer}")

    def _restore_units(self) -> str:
        earlier: list[str] = self.previous.state()["units"]
        try:
            self._remove_units([name for name in self.host.own_names() if name not in earlier])
            self.previous.restore()
            self._systemctl("daemon-reload")
            for name in reversed(earlier):
                self._systemctl("enable", name)
                if not self.host.runs(name):
                    self._systemctl("restart", name)
        except (HostError, OSError) as error:
            return f"The rollback failed, too: {error}"
        self.previous.forget()
        return "The units that worked last run again" if earlier else "The host had no units that worked, so these are removed"

    def _remove_units(self, names: Collection[str]) -> None:
        for name in names:
            self.changes.do(True, self._systemctl, "disable", "--now", name)
            self.changes.remove(self.host.unit_file(name))
        if names and not self.dry:
            self._systemctl("daemon-reload")

    def _remove_files(self) -> None:
        """Remove the programs and files that no unit names."""
        texts = "".join(read_text(self.host.unit_file(name)) for name in self.host.own_names())
        for folder, patterns in ((self.wanted.units_folder, OWN_FILES), (self.wanted.program_folder, OWN_PROGRAMS)):
            for path in [path for pattern in patterns for path in Path(folder).glob(pattern)]:
                if self.dry or str(path) not in texts:
                    remove: Callable[..., Any] = shutil.rmtree if path.is_dir() and not path.is_symlink() else Path.unlink
                    self.changes.do(True, remove, path)

    def _systemctl(self, *words: str) -> None:
        run_checked(self.run, f"systemctl {' '.join(words)}", ["systemctl", "--quiet", *words])
