# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The contents of a host. They are read when they are needed, and nothing is changed."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Optional

from ..common.files import read_text
from ..common.previous import Previous
from ..common.system import Listener, Run, listeners, main_pid, process_value
from .wanted import MARK, TMPFILES, UNIT_FILES, UNITS, Wanted

PACKAGE = "prometheus-node-exporter"
PREVIOUS = "/var/lib/node_exporter.kube-scheduling-previous"


class Host:
    """The host, as far as the wanted node_exporter is concerned."""

    def __init__(self, wanted: Wanted, run: Run) -> None:
        self.wanted = wanted
        self.run = run
        files = [wanted.web_config_file, wanted.installed_program, wanted.record_file, TMPFILES, *UNIT_FILES.values()]
        self.previous = Previous(PREVIOUS, files)
        self.user_of_tasks = getpass.getuser() if os.getuid() else ""  # empty for root

    @property
    def uid(self) -> Optional[int]:
        return _number(self.run(["id", "-u", self.wanted.system_user])[1])

    @property
    def gid(self) -> Optional[int]:
        return _number(self.run(["getent", "group", self.wanted.system_group])[1])

    @property
    def running_units(self) -> list[str]:
        return [unit for unit in UNITS.values() if main_pid(self.run, unit)]

    @cached_property
    def configuration(self) -> str:
        """The configuration of the process that runs. It is empty if none of this role runs."""
        return process_value(self.run, self.wanted.unit, MARK)

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
        output = self.run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", PACKAGE])[1]
        return output.partition(" ")[2] if output.startswith("installed ") else ""

    def is_installed(self) -> bool:
        """Return whether the package has a version that begins with the wanted one, or the program is that of the archive, unchanged."""
        if self.wanted.method == "archive":
            return read_text(self.wanted.record_file).split() == [self.wanted.archive_sum, self.program_sum()]
        return bool(re.match(re.escape(self.wanted.version) + r"($|[-+.~])" if self.wanted.version else ".", self.package_version))

    def program_sum(self) -> str:
        """Return the SHA-256 sum of the program of an archive. It is empty if there is none."""
        program = Path(self.wanted.installed_program)
        return hashlib.sha256(program.read_bytes()).hexdigest() if program.is_file() else ""

    def owns_textfile_dir(self) -> bool:
        """Return whether the role makes the folder of the textfile collector. A folder of others keeps its mode."""
        folder = self.wanted.textfile_dir
        return bool(folder) and (f"d {folder} " in read_text(TMPFILES) or not Path(folder).is_dir())

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
        return listeners(self.run, {port for _name, port in self.wanted.listen})

    @cached_property
    def unreadable(self) -> dict[str, str]:
        """The secret files that the service cannot read, with the reason. A user who does not exist yet has no right."""
        groups = "--clear-groups" if self.uid is None else "--init-groups"
        ids = [str(65534 if number is None else number) for number in (self.uid, self.gid)]
        as_service = ["setpriv", "--reuid", ids[0], "--regid", ids[1], groups, "--", "head", "-c", "1"]
        answers = {file: self.run([*as_service, file]) for file in self.wanted.secret_files}
        return {file: error.strip().rpartition(": ")[2] for file, (code, _output, error) in answers.items() if code != 0}


def _number(output: str) -> Optional[int]:
    """Return the number in the output of `id`, or in an entry of `getent`."""
    found = re.match(r"(?:[^:]*:[^:]*:)?(\d+)", output)
    return int(found.group(1)) if found else None


def own_addresses(output: str) -> list[str]:
    """Return the global addresses in the output of `ip -oneline address`.

    A floating address, such as of keepalived or kube-vip, has no network, and may move to another host. It is left out if the interface has
    another address of the same family.
    """
    lines = [line for line in output.splitlines() if not re.search(r" (temporary|deprecated|tentative|dadfailed)\b", line)]
    matches = [re.search(r" (inet6?) ([^/\s]+)(?:/(\d+))? .*\bscope global\b", line) for line in lines]
    found = [(match[1], match[2], match[3] in (None, "32" if match[1] == "inet" else "128")) for match in matches if match]
    fixed = {family for family, _address, floats in found if not floats}
    return [address for family, address, floats in found if not (floats and family in fixed)]
