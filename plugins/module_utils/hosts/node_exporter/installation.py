# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Install node_exporter on a host, or remove it. If the new one does not answer, the host gets back what it had before."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..common.files import Changes, HostFile, read_text
from ..common.system import Answer, HostError, journal_end, listens, main_pid, run_checked, wait_until
from .host import PACKAGE, Host
from .passwords import bcrypt_hashes
from .problems import answer_problem, is_answer
from .wanted import MARK, TMPFILES, UNIT_FILES, UNITS

TRIES = 10
"""Times, one second apart, in which a service that was started must answer."""

OWN_GROUP = "node_exporter of onprem.kube_scheduling"
OLDER_GROUP = f"{OWN_GROUP} in an older group"
"""The comments of a user whom the role has created. Only he is removed. A group that is older than him stays."""

DROP_IN_FOLDER = str(Path(UNIT_FILES["package"]).parent)


class Installation:
    """One run on a host. In check mode (``dry``) nothing is changed."""

    def __init__(self, host: Host, ask: Callable[[], Answer], *, dry: bool) -> None:
        self.host, self.wanted, self.run, self.previous = host, host.wanted, host.run, host.previous
        self.ask = ask
        self.dry = dry
        self.changes = Changes(dry)
        self._beside = Path(self.wanted.binary_install_dir, ".node_exporter.new")
        self.answer = Answer(-1, "", "not asked")
        # An interrupted run may have replaced files before the start.
        self.is_new = self.previous.is_kept()
        self.started_s = 0.0

    def write(self, unit: str) -> None:
        """Keep what works, and write the files. The unit of a package is there before the package, which would start without a password."""
        wanted, host, changes = self.wanted, self.host, self.changes
        state = {"package": host.package_version, "managed": host.managed, "units": host.running_units}
        if not self.dry:
            self.previous.keep(state)
        comment = OWN_GROUP if host.gid is None else OLDER_GROUP
        self._do(host.gid is None, "Create the group", "groupadd", "--system", wanted.system_group)
        user = ["--system", "--gid", wanted.system_group, "--comment", comment, "--no-create-home", "--home-dir", "/nonexistent"]
        self._do(host.uid is None, "Create the user", "useradd", *user, "--shell", "/usr/sbin/nologin", wanted.system_user)
        for folder in (wanted.config_dir, str(Path(UNIT_FILES[wanted.method]).parent)):
            changes.make_folder(folder)
        if host.owns_textfile_dir():
            declared = changes.put(HostFile(TMPFILES, f"d {wanted.textfile_dir} 2775 root {wanted.system_group} -\n", uid=0, gid=0))
            needed = declared or not Path(wanted.textfile_dir).is_dir()
            self._do(needed, "Create the folder of the textfile collector", "systemd-tmpfiles", "--create", TMPFILES)
        web_config = wanted.web_config(bcrypt_hashes(wanted.basic_auth_users, self._kept_hashes()))
        if web_config:
            text = json.dumps(web_config, indent=2, ensure_ascii=False) + "\n"
            changes.put(HostFile(wanted.web_config_file, text, mode=0o640, uid=0, gid=host.gid or 0, shown=False))
        configuration = wanted.configuration(unit, web_config)
        text = f"{unit.strip()}\n# It tells the next run which configuration the process has.\nEnvironment={MARK}={configuration}\n"
        written = changes.put(HostFile(UNIT_FILES[wanted.method], text, uid=0, gid=0))
        self.is_new |= written or host.configuration != configuration

    def present(self, unit: str) -> None:
        """Install, start, and wait for the answer. Raises HostError with the reason, after it has restored what the host had."""
        if not self.wanted.unit:
            self.answer = self.ask()
            problem = answer_problem(self.wanted, self.wanted.url(self.host.addresses), self.answer)
            if problem:
                raise HostError(problem)
            return
        try:
            needs_program = self.wanted.method == "archive" and not self.host.is_installed()
            self.changes.do(needs_program, self._try_program)
            self.write(unit)
            self.is_new |= self.changes.do(needs_program, self._install_program)
            self.changes.do(self.is_new or not self._runs(), self._start)
            if not self.dry:
                self.answer = wait_until(self.ask, lambda answer: is_answer(self.wanted, answer), tries=TRIES)
                if not is_answer(self.wanted, self.answer):
                    raise HostError(f"Request the metrics: {self.answer}")
        except (HostError, OSError) as error:
            raise HostError(self.restore(str(error))) from error
        self._forget()
        has_web_config = self.wanted.web_config(self.wanted.basic_auth_users)
        used = {self.wanted.web_config_file: has_web_config, TMPFILES: self.wanted.textfile_dir}
        for path in [path for path, use in used.items() if not use]:
            self.changes.remove(path)
        if self.host.other:
            self._uninstall(self.host.other)

    def restore(self, reason: str) -> str:
        """Restore what the host had before this run, or before the one that was interrupted. Return the whole message."""
        unit, version = self.wanted.unit, f" {self.wanted.version}" if self.wanted.version else ""
        journal = journal_end(self.run, unit, self.started_s) if self.started_s else []
        ends = f" The journal of {unit} ends with: {' | '.join(journal)}." if journal else ""
        failures = self._restore_all() if self.previous.is_kept() and not self.dry else []
        self._beside.unlink(missing_ok=True)
        outcome = f"The rollback failed, too: {', '.join(failures)}." if failures else "The host has its earlier files and version again."
        is_full = "No space left" in reason
        remedy = "Free disk space (df -h), and run this again" if is_full else "Correct the variables, or the version, and run this again"
        return f"{self.wanted.host}: node_exporter{version} is not installed. {reason}.{ends} {outcome} {remedy}"

    def absent(self) -> None:
        """Remove node_exporter. Files of other programs stay, such as keys in the folder of the configuration."""
        managed = self.host.managed
        if managed or self.previous.is_kept():
            self.changes.remove(self.wanted.web_config_file)
        self._forget()
        for method in managed:
            self._uninstall(method)
        if managed or self.host.uid is not None:
            self._remove_leftovers()

    def result(self) -> dict[str, Any]:
        """Return the fact node_exporter_result. Without a unit of this role, the unit is the one that listens."""
        build = re.search(r'exporter_build_info{[^}]*\bversion="([^"]*)"', self.answer.text)
        source = self.wanted.address or self.host.source or self.wanted.host
        reached = f"[{source}]:" if ":" in source else f"{source}:"
        return {
            "method": self.wanted.method,
            "version": build.group(1) if build else self.wanted.version,
            "unit": self.wanted.unit or next((found.unit for found in self.host.listeners if found.unit), ""),
            "addresses": [re.sub(r"^(0\.0\.0\.0|\[::\])?:", reached, address) for address in self.host.addresses],
            "scheme": self.wanted.scheme,
            "auth": bool(self.wanted.basic_auth_users),
        }

    def _do(self, needed: bool, what: str, *words: str) -> None:
        self.changes.do(needed, run_checked, self.run, what, words)

    def _kept_hashes(self) -> dict[str, str]:
        """The hashes that the host has. A file that the role has not written has none."""
        try:
            found: dict[str, str] = json.loads(read_text(self.wanted.web_config_file) or "{}").get("basic_auth_users", {})
        except ValueError:
            return {}
        return found

    def _try_program(self) -> None:
        """Write the new program beside the old one, and let it print its version."""
        self.changes.make_folder(self.wanted.binary_install_dir)
        run_checked(self.run, "Write the program", ["install", "--mode=0755", self.wanted.new_program, str(self._beside)])
        what = "Run the program of the archive"
        output = run_checked(self.run, what, ["sh", "-c", 'exec "$0" --version 2>&1', str(self._beside)])
        if not re.search(rf"version {re.escape(self.wanted.version)}[ ,]", output):
            raise HostError(f"{what}: it is another version than {self.wanted.version}: {output.strip()}")

    def _install_program(self) -> None:
        self._beside.replace(self.wanted.installed_program)
        HostFile(self.wanted.record_file, f"{self.wanted.archive_sum} {self.host.program_sum()}\n", uid=0, gid=0).write()

    def _runs(self) -> bool:
        enabled = self.run(["systemctl", "is-enabled", "--quiet", self.wanted.unit])[0]
        return enabled == 0 and main_pid(self.run, self.wanted.unit) > 0

    def _start(self) -> None:
        if self.host.other:
            run_checked(self.run, "Stop the service of the other method", ["systemctl", "disable", "--now", UNITS[self.host.other]])
        self.started_s = time.time()
        for words in (["daemon-reload"], ["enable", self.wanted.unit], ["restart", self.wanted.unit]):
            run_checked(self.run, "Start the service", ["systemctl", *words])

    def _restore_all(self) -> list[str]:
        """Restore files, package, user and services. Return what has failed."""
        earlier, failures = self.previous.state(), []
        units = [unit for unit in (self.wanted.unit, UNITS.get(self.host.other, "")) if unit]
        for unit in units:
            if unit not in earlier["units"]:
                self.run(["systemctl", "disable", "--now", unit])  # it may not exist
        self.previous.restore()
        try:
            if self.host.package_version != earlier["package"]:
                version = earlier["package"]
                self._apt(*(["install", "--allow-downgrades", f"{PACKAGE}={version}"] if version else ["purge", PACKAGE]))
            self._forget()
        except HostError as error:
            failures.append(str(error))
        self.run(["systemctl", "daemon-reload"])
        if not earlier["managed"]:
            self._remove_leftovers()
        for unit in earlier["units"]:
            if unit in units:
                self.run(["systemctl", "enable", unit])
                code, _output, error_text = self.run(["systemctl", "restart", unit])
                # Its URL is not known: the variables are those of the new configuration.
                if code != 0 or not wait_until(partial(listens, self.run, unit), bool, tries=TRIES):
                    failures.append(" ".join(error_text.split()) or f"{unit} listens at no port")
        return failures

    def _forget(self) -> None:
        if not self.dry:
            self.previous.forget()
            self._beside.unlink(missing_ok=True)

    def _uninstall(self, method: str) -> None:
        """Remove a service with its program. The unit is the last file: it tells the next run what an interrupted one has left."""
        self.changes.do(True, self.run, ["systemctl", "disable", "--now", UNITS[method]])
        if method == "package":
            self.changes.do(True, self._apt, "purge", PACKAGE)
        else:
            self.changes.remove(self.wanted.installed_program)
            self.changes.remove(self.wanted.record_file)
        self.changes.remove(UNIT_FILES[method])
        self.changes.remove_empty(DROP_IN_FOLDER)
        for words in (["daemon-reload"], ["reset-failed", UNITS[method]]):
            self.changes.do(True, self.run, ["systemctl", *words])

    def _apt(self, *words: str) -> None:
        options = ["--yes", "--quiet", "--no-install-recommends", "--option=DPkg::Lock::Timeout=300"]
        run_checked(self.run, f"apt-get {words[0]}", ["apt-get", *options, *words])

    def _remove_leftovers(self) -> None:
        """Remove the folders and the user that both methods have."""
        self.changes.remove(TMPFILES)
        for folder in (self.wanted.config_dir, self.wanted.textfile_dir, DROP_IN_FOLDER):
            self.changes.remove_empty(folder)
        user = self.wanted.system_user
        entry = self.run(["getent", "passwd", user])[1].split(":")
        comment = entry[4] if len(entry) > 4 else ""
        # A group of the name of a user is removed with its last user.
        self._do(comment == OLDER_GROUP, "Keep the group", "usermod", "--gid", "65534", user)
        self._do(comment in (OWN_GROUP, OLDER_GROUP), "Remove the user", "userdel", user)
