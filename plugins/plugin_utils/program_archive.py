# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Programs of the controller, in archives that are files or URLs, and actions that bring them to hosts."""

from __future__ import annotations

import fcntl
import posixpath
import shutil
import tarfile
import tempfile
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils.urls import open_url
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.filter.without_logins import without_logins
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.file_sum import sum_of

CACHE = "~/.cache/onprem-kube-scheduling"
"""The folder of the controller with the programs for hosts."""


class ProgramArchive(NamedTuple):
    """An archive with the program ``name``.

    ``place`` is its path or its URL, which ``place_variable`` names. ``sum_variable`` names its ``sum``. ``release`` names a good archive.
    """

    place: str
    sum: str
    name: str
    place_variable: str
    sum_variable: str
    release: str

    @property
    def program(self) -> Path:
        """Return the path at which the controller keeps the program."""
        return Path(CACHE, self.name, self.sum[:12], self.name).expanduser()

    @property
    def is_url(self) -> bool:
        """Return whether the archive must be downloaded."""
        return "://" in self.place

    def take(self) -> str:
        """Write the program, if the controller does not have it. Return the reason why this is not possible.

        Only one process does it, because many hosts have the same program.
        """
        try:
            self.program.parent.mkdir(parents=True, exist_ok=True)
            with Path(self.program.parent, "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                return "" if self.program.is_file() else self._take()
        except (OSError, HTTPException, ValueError, EOFError, tarfile.TarError) as error:
            return self._unreadable(error)

    def file_problem(self) -> str:
        """Return the reason why the archive, if it is a file, cannot be used. Nothing is written."""
        try:
            return "" if self.is_url else self._sum_problem(Path(self.place).expanduser())
        except OSError as error:
            return self._unreadable(error)

    def _unreadable(self, error: Exception) -> str:
        reason = " ".join(str(error).split())
        copy = ", or give the archive as a file on the controller" if self.is_url else ""
        what = f"{self.place}, which {self.place_variable} names, cannot be read ({reason})"
        return without_logins(f"{what}: correct {self.place_variable} or {self.sum_variable}{copy}")

    def _sum_problem(self, archive: Path) -> str:
        found = sum_of(archive)
        what = f"{without_logins(self.place)} has the SHA-256 sum {found}, and {self.sum_variable} is {self.sum}"
        return "" if found == self.sum else f"{what}: copy the archive again, or correct the sum"

    def _take(self) -> str:
        with tempfile.TemporaryDirectory(prefix="new-", dir=self.program.parent) as scratch:
            archive = Path(scratch, "archive") if self.is_url else Path(self.place).expanduser()
            if self.is_url:
                with archive.open("wb") as output:
                    shutil.copyfileobj(open_url(self.place, timeout=60), output)
            problem = self._sum_problem(archive)
            if problem:
                return problem
            with tarfile.open(archive) as opened:
                member = next((one for one in opened if one.isfile() and posixpath.basename(one.name) == self.name), None)
                if member is None:
                    return f"{without_logins(self.place)} has no file {self.name}: use {self.release}"
                with Path(scratch, self.name).open("wb") as output:
                    shutil.copyfileobj(opened.extractfile(member), output)
            Path(scratch, self.name).replace(self.program)
        return ""


class ProgramAction(ActionBase):
    """An action that brings files to the host."""

    def _brought(self, files):
        """Copy files to the temporary folder of the host, which Ansible removes. Return their paths there."""
        folder, found = self._connection._shell.tmpdir or self._make_tmp_path(), {}
        for name, file in files.items():
            if file:
                found[name] = self._connection._shell.join_path(folder, name)
                self._transfer_file(str(file), found[name])
        self._fixup_perms2((folder, *found.values()))
        return found
