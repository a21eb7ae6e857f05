# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The contents of a host. They are read when they are needed, and nothing is changed."""

from __future__ import annotations

import getpass
import grp
import hashlib
import os
import pwd
import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Optional

from ..common.files import read_text
from ..common.previous import Previous
from ..common.system import Run, main_pid
from .wanted import MARK, TMPFILES, UNIT_FILES, UNITS, Wanted

PACKAGE = "prometheus-node-exporter"
PREVIOUS = "/var/lib/node_exporter.kube-scheduling-previous"


class Listener(NamedTuple):
    """A program that listens at a port. Without a process it is the kernel, such as its NFS."""

    address: str
    pid: int
    unit: str
    program: str


class Host:
    """The host, as far as the wanted node_exporter is concerned."""

    def __init__(self, wanted: Wanted, run: Run) -> None:
        self.wanted = wanted
        self.run = run
        files = [wanted.web_config_file, wanted.installed_program, wanted.record_file, TMPFILES, *UNIT_FILES.values()]
        self.previous = Previous(PREVIOUS, files)

    @cached_property
    def user_of_tasks(self) -> str:
        """The user as whom the tasks run. It is empty for root."""
        return getpass.getuser() if os.getuid() else ""

    @property
    def uid(self) -> Optional[int]:
        try:
            return pwd.getpwnam(self.wanted.system_user).pw_uid
        except KeyError:
            return None

    @property
    def gid(self) -> Optional[int]:
        try:
            return grp.getgrnam(self.wanted.system_group).gr_gid
        except KeyError:
            return None

    @property
    def running_units(self) -> list[str]:
        return [unit for unit in UNITS.values() if main_pid(self.run, unit)]

    @cached_property
    def configuration(self) -> str:
        """The configuration of the process that runs. It is empty if none of this role runs."""
        pid = main_pid(self.run, self.wanted.unit)
        found = re.search(rf"(?:^|\0){MARK}=([^\0]*)", read_text(f"/proc/{pid}/environ") if pid else "")
        return found.group(1) if found else ""

    @cached_property
    def managed(self) -> list[str]:
        """The methods whose unit this role has written."""
        return [method for method, file in UNIT_FILES.items() if MARK in read_text(file)]

    @property
    def other(self) -> str:
        """The other method with which this role has installed node_exporter, if the method has changed."""
        return next((method for method in self.managed if method != self.wanted.method), "")

    @property
    def package_version(self) -> str:
        code, output, _ = self.run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", PACKAGE])
        status, _, version = output.partition(" ")
        return version.strip() if code == 0 and status == "installed" else ""

    def has_package(self) -> bool:
        """Return whether the package is installed in a version that begins with the wanted one."""
        return bool(re.match(re.escape(self.wanted.version) + r"($|[-+.~])" if self.wanted.version else ".", self.package_version))

    def has_archive(self) -> bool:
        """Return whether the program of the archive is installed, and unchanged."""
        return read_text(self.wanted.record_file).split() == [self.wanted.archive_sum, self.program_sum()]

    def program_sum(self) -> str:
        """Return the SHA-256 sum of the program of an archive. It is empty if there is none."""
        program = Path(self.wanted.installed_program)
        return hashlib.sha256(program.read_bytes()).hexdigest() if program.is_file() else ""

    def owns_textfile_dir(self) -> bool:
        """Return whether the role makes the folder of the textfile collector. A folder of others keeps its mode."""
        folder = self.wanted.textfile_dir
        declared = re.match(r"d (\S+) ", read_text(TMPFILES))
        return bool(folder) and (bool(declared and declared.group(1) == folder) or not Path(folder).is_dir())

    @cached_property
    def interfaces(self) -> dict[str, list[str]]:
        """The addresses of each wanted interface."""
        command = ["ip", "-oneline", "address", "show", "dev"]
        return {name: own_addresses(self.run([*command, name])[1]) for name in self.wanted.interfaces}

    @cached_property
    def addresses(self) -> list[str]:
        """The addresses at which node_exporter listens."""
        return self.wanted.addresses(self.interfaces)

    @cached_property
    def source(self) -> str:
        """The address with which the host reaches others, by IPv6 if it has no IPv4. A host without a route has its first address."""
        for family, other in (("-4", "192.0.2.1"), ("-6", "2001:db8::1")):
            routes = self.run(["ip", family, "-oneline", "route", "get", other])[1]  # sends no packet
            shown = self.run(["ip", family, "-oneline", "address", "show", "scope", "global"])[1]
            found = re.search(r" src (\S+)", routes) or re.search(r" inet6? ([^/\s]+)", shown)
            if found:
                return found.group(1)
        return ""

    @cached_property
    def listeners(self) -> list[Listener]:
        """The programs that listen at the wanted ports."""
        lines = self.run(["ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes"])[1].splitlines()
        found = []
        for line in lines:
            words = line.split(maxsplit=5)
            if len(words) > 4 and words[3].rpartition(":")[2] in self.wanted.ports:
                process = re.search(r'\("([^"]*)",pid=(\d+)', line)
                pid = int(process.group(2)) if process else 0
                units = re.findall(r"/([^/\n]*\.(?:service|scope))", read_text(f"/proc/{pid}/cgroup") if pid else "")
                found.append(Listener(words[3], pid, units[-1] if units else "", process.group(1) if process else "kernel"))
        return found

    @cached_property
    def unreadable(self) -> dict[str, str]:
        """The secret files that the service cannot read, with the reason. A user who does not exist yet has no right."""
        uid, gid, found = self.uid, self.gid, {}
        groups = "--clear-groups" if uid is None else "--init-groups"
        as_service = ["setpriv", "--reuid", str(65534 if uid is None else uid), "--regid", str(65534 if gid is None else gid), groups]
        for file in self.wanted.secret_files:
            code, _, error = self.run([*as_service, "--", "head", "-c", "1", file])
            if code != 0:
                found[file] = error.strip().rpartition(": ")[2]
        return found


def own_addresses(output: str) -> list[str]:
    """Return the global addresses in the output of `ip -oneline address`.

    A floating address, such as of keepalived or kube-vip, has no network, and may move to another host. It is left out if the interface has
    another address of the same family.
    """
    found: list[tuple[str, str, bool]] = []
    for line in output.splitlines():
        match = re.search(r" (inet6?) ([^/\s]+)(?:/(\d+))? .*\bscope global ", line + " ")
        if match and not re.search(r" (temporary|deprecated|tentative|dadfailed)\b", line):
            family, address, length = match.groups()
            found.append((family, address, length in (None, "32" if family == "inet" else "128")))
    fixed = {family for family, _, floats in found if not floats}
    return [address for family, address, floats in found if not (floats and family in fixed)]
