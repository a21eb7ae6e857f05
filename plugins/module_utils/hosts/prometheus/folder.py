# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The folder on the host of a Prometheus with the targets, the scrape configuration, the recording rules and the password."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.files import Changes, HostFile, read_text
from ..common.system import HostError, Run, run_checked

TARGETS, RULES, SCRAPE, PASSWORD, LOADED = "targets.yml", "rules.yml", "scrape.yml", "password", "loaded"
CHECKS = {RULES: "rules", SCRAPE: "config"}
"""The files that Prometheus reads when it is reloaded, and the arguments of promtool for them."""


@dataclass
class PrometheusFolder:
    """One run for the folder. An empty ``service`` is not reloaded, and without ``promtool`` nothing is checked."""

    path: str
    run: Run
    changes: Changes
    service: str
    promtool: str

    def problems(self, host: str, owner: str) -> list[str]:
        """Return each reason why the files cannot be written. The owner of the password is empty if he is not needed."""
        elsewhere = (
            "put the hosts of Prometheus into the group prometheus of the inventory, or set node_exporter_prometheus_dir to "
            '"" if no Prometheus is to be configured'
        )
        found = []
        existing = next(place for place in (Path(self.path), *Path(self.path).parents) if place.exists())
        if not os.access(existing, os.W_OK):
            become = "run the playbook with -b (--become), choose another node_exporter_prometheus_dir"
            found.append(f"{host}: {existing} cannot be written, and {self.path} would be in it: {become}, {elsewhere}")
        if owner and self._uid(owner) == -1:
            found.append(f"{host} has no user {owner}: set node_exporter_prometheus_user to the user of Prometheus, {elsewhere}")
        if self.promtool and not shutil.which(self.promtool):
            found.append(f"{host} has no command {self.promtool}: correct node_exporter_prometheus_promtool")
        return found

    def write(self, texts: Mapping[str, str], password: str, owner: str) -> None:
        """Write the files, let promtool check them, and reload Prometheus if it has not loaded them. It reads the targets by itself.

        Raises HostError, after the files are as before, if promtool or the reload refuses them.
        """
        before = {name: read_text(self._place(name)) for name in texts if Path(self._place(name)).is_file()}
        self.changes.make_folder(self.path)
        if password:
            self.changes.put(HostFile(self._place(PASSWORD), password, mode=0o400, uid=self._uid(owner), shown=False))
        else:
            self.changes.remove(self._place(PASSWORD))
        try:
            self.changes.put(HostFile(self._place(TARGETS), texts[TARGETS]))
            files = [HostFile(self._place(name), texts[name]) for name in CHECKS]
            for file in files:
                self._check(file)
            written = [self.changes.put(file) for file in files]
            sums = [f"{name} {hashlib.sha256(texts[name].encode()).hexdigest()}\n" for name in CHECKS]
            record = HostFile(self._place(LOADED), "".join(sums), shown=False)
            # Files of another program may have been loaded by hand. So new files are loaded, whatever the record says.
            if self.service and (any(written) or not record.is_there()):
                self._reload()
                self.changes.put(record)
        except (HostError, OSError):
            for name in texts:
                Path(self._place(name)).unlink(missing_ok=True)
                if name in before:
                    HostFile(self._place(name), before[name]).write()
            raise

    def remove(self) -> None:
        """Remove the files, and the folder if nothing of others is in it."""
        removed = [self.changes.remove(self._place(name)) for name in (TARGETS, RULES, SCRAPE, PASSWORD)]
        # This record is removed last, so that the next run repeats a reload that has failed.
        if self.service and (any(removed) or Path(self._place(LOADED)).is_file()):
            self._reload()
        self.changes.remove(self._place(LOADED))
        self.changes.remove_empty(self.path)

    def _place(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _uid(self, user: str) -> int:
        found = self.run(["id", "-u", user])[1].strip() if user else ""
        return int(found) if found else -1

    def _check(self, file: HostFile) -> None:
        """Let promtool check a file that will be replaced."""
        if self.promtool and not self.changes.dry and not file.is_there():
            new = replace(file, path=f"{file.path}.new")
            try:
                new.write()
                command = [self.promtool, "check", CHECKS[Path(file.path).name], new.path]
                run_checked(self.run, f"{self.promtool} refuses {file.path}", command)
            finally:
                Path(new.path).unlink(missing_ok=True)

    def _reload(self) -> None:
        # A Prometheus that does not run is started, as by ansible.builtin.systemd_service.
        is_active = self.run(["systemctl", "is-active", "--quiet", self.service])[0] == 0
        words = ["systemctl", "reload" if is_active else "start", self.service]
        self.changes.do(True, run_checked, self.run, f"{self.service} cannot load the files in {self.path}", words)
