# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Programs in archives, which are files on the controller or URLs, and actions that bring programs to hosts."""

from __future__ import annotations

import fcntl
import os
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


class ProgramArchive(NamedTuple):
    """An archive with a program.

    ``place`` is its path or its URL, which ``variable`` names. ``checksum`` is the variable with its ``sum``. ``program`` is the path at
    which the controller keeps the program. ``release`` names a good archive.
    """

    place: str
    sum: str
    program: Path
    variable: str
    checksum: str
    release: str

    @property
    def is_url(self) -> bool:
        """Return whether the archive must be downloaded."""
        return "://" in self.place

    def take(self) -> str:
        """Write the program, if the controller does not have it. Return the reason why this is not possible.

        Only one process does it, because many hosts have the same program.
        """
        self.program.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.program.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            return "" if self.program.is_file() else self._take()
        except (OSError, HTTPException, ValueError, EOFError, tarfile.TarError) as error:
            reason = without_logins(" ".join(str(error).split()))
            copy = ", or give the archive as a file on the controller" if self.is_url else ""
            what = f"{without_logins(self.place)}, which {self.variable} names, cannot be read ({reason})"
            return f"{what}: correct {self.variable} or {self.checksum}{copy}"
        finally:
            os.close(folder)

    def _take(self) -> str:
        shown = without_logins(self.place)
        with tempfile.TemporaryDirectory(prefix="new-", dir=self.program.parent) as scratch:
            archive = Path(scratch, "archive") if self.is_url else Path(self.place).expanduser()
            if self.is_url:
                with archive.open("wb") as output:
                    shutil.copyfileobj(open_url(self.place, timeout=60), output)
            found = sum_of(archive)
            if found != self.sum:
                return f"{shown} has the SHA-256 sum {found}, and {self.checksum} is {self.sum}: copy the archive again, or correct the sum"
            with tarfile.open(archive) as opened:
                member = next((one for one in opened if one.isfile() and posixpath.basename(one.name) == self.program.name), None)
                if member is None:
                    return f"{shown} has no file {self.program.name}: use {self.release}"
                with Path(scratch, self.program.name).open("wb") as output:
                    shutil.copyfileobj(opened.extractfile(member), output)
            Path(scratch, self.program.name).replace(self.program)
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
