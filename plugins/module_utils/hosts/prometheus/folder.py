# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The folder on the host of a Prometheus with the targets, the scrape configuration, the recording rules and the password."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Optional

from ..common.files import HostFile, make_folder, read_text, remove_empty_folder, remove_file
from ..common.system import HostError, Run, run_checked

TARGETS, SCRAPE, RULES, PASSWORD, LOADED = "targets.yml", "scrape.yml", "rules.yml", "password", "loaded"


@dataclass
class PrometheusFolder:
    """One run for the folder. ``dry`` is check mode, in which nothing is changed."""

    path: str
    run: Run
    dry: bool
    service: str = ""
    """The unit of Prometheus, which is reloaded. It is empty if the role reloads nothing."""
    promtool: str = ""
    changed: bool = False
    diffs: list[dict[str, str]] = field(default_factory=list)

    def problems(self, host: str, folder: str, user: str) -> list[str]:
        """Return each reason why the files cannot be written. ``folder`` is as in the variable, and a user without a name is not needed."""
        elsewhere = (
            "name the hosts of Prometheus with -e site_prometheus_hosts=HOSTS, or set node_exporter_prometheus_dir to "
            '"" if no Prometheus is to be configured'
        )
        found = []
        existing = next(place for place in (Path(self.path), *Path(self.path).parents) if place.exists())
        if not os.access(existing, os.W_OK):
            found.append(
                f"{host}: {existing} cannot be written, and {folder} would be in it: run the playbook with -b (--become), choose another "
                f"node_exporter_prometheus_dir, {elsewhere}"
            )
        if user and _uid(user) is None:
            found.append(f"{host} has no user {user}: set node_exporter_prometheus_user to the user of Prometheus, {elsewhere}")
        if self.promtool and not shutil.which(self.promtool):
            found.append(f"{host} has no command {self.promtool}: correct node_exporter_prometheus_promtool")
        return found

    def write(self, texts: Mapping[str, str], password: Optional[str], owner: str) -> None:
        """Write the files, let promtool check them, and reload Prometheus if it has not loaded them.

        Prometheus reads the targets by itself. Raises HostError, after the files are as before, if promtool or the reload refuses them.
        """
        before = {name: read_text(self._place(name)) for name in (TARGETS, SCRAPE, RULES) if Path(self._place(name)).is_file()}
        self.changed |= not Path(self.path).is_dir()
        if not self.dry:
            make_folder(self.path)
        if password is None:
            self._remove(PASSWORD)
        else:
            uid = _uid(owner) if owner else None
            self._put(HostFile(self._place(PASSWORD), password, mode=0o400, uid=-1 if uid is None else uid), shown=False)
        try:
            self._put(HostFile(self._place(TARGETS), texts[TARGETS]))
            loaded = [HostFile(self._place(name), texts[name]) for name in (RULES, SCRAPE)]
            for file, command in zip(loaded, ("rules", "config")):
                self._check(file, command)
            written = [self._put(file) for file in loaded]
            sums = {"scrape": texts[SCRAPE], "rules": texts[RULES]}
            lines = [f"{name} {hashlib.sha256(text.encode()).hexdigest()}\n" for name, text in sums.items()]
            record = HostFile(self._place(LOADED), "".join(lines))
            # Files of another program may have been loaded by hand. So new files are loaded, whatever the record says.
            if self.service and (any(written) or not record.is_there()):
                self._reload()
                self._put(record, shown=False)
        except (HostError, OSError):
            for name in (TARGETS, SCRAPE, RULES):
                if name in before:
                    HostFile(self._place(name), before[name]).write()
                else:
                    remove_file(self._place(name))
            raise

    def remove(self) -> None:
        """Remove the files, and the folder if nothing of others is in it."""
        removed = [self._remove(name) for name in (TARGETS, SCRAPE, RULES, PASSWORD)]
        # This record is removed last, so that the next run repeats a reload that has failed.
        if self.service and (any(removed) or Path(self._place(LOADED)).is_file()):
            self._reload()
        self._remove(LOADED)
        if not self.dry:
            self.changed |= remove_empty_folder(self.path)

    def _place(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _put(self, file: HostFile, *, shown: bool = True) -> bool:
        if file.is_there():
            return False
        self.changed = True
        if shown:
            self.diffs.append(file.diff())
        if not self.dry:
            file.write()
        return True

    def _remove(self, name: str) -> bool:
        there = Path(self._place(name)).is_file()
        self.changed |= there
        if there and not self.dry:
            remove_file(self._place(name))
        return there

    def _check(self, file: HostFile, command: str) -> None:
        """Let promtool check a file that will be replaced."""
        if not self.promtool or self.dry or file.is_there():
            return
        new = replace(file, path=f"{file.path}.new")
        try:
            new.write()
            run_checked(self.run, f"{self.promtool} refuses {file.path}", [self.promtool, "check", command, new.path])
        finally:
            remove_file(new.path)

    def _reload(self) -> None:
        self.changed = True
        if not self.dry:
            # A Prometheus that does not run is started, as by ansible.builtin.systemd_service.
            words = ["reload" if self.run(["systemctl", "is-active", "--quiet", self.service])[0] == 0 else "start", self.service]
            run_checked(self.run, f"{self.service} cannot load the files in {self.path}", ["systemctl", *words])


def _uid(user: str) -> Optional[int]:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None
