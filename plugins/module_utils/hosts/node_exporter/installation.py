# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Install node_exporter on a host, or remove it. If the new one does not answer, the host gets back what it had before."""

from __future__ import annotations

import json
import pwd
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..common.files import HostFile, make_folder, read_text, remove_empty_folder, remove_file, remove_tree
from ..common.system import Answer, HostError, Run, journal_end, listens, main_pid, run_checked, wait_until
from .host import PACKAGE, Host
from .passwords import bcrypt_hashes
from .problems import answer_problems, is_answer
from .wanted import MARK, TMPFILES, UNIT_FILES, UNITS, Wanted

TRIES = 10
"""Times, one second apart, in which a service that was started must answer."""

OWN_GROUP = "node_exporter of onprem.kube_scheduling"
OLDER_GROUP = f"{OWN_GROUP} in an older group"
"""The comments of a user whom the role has created. Only he is removed. A group that is older than him stays."""


class Installation:
    """One run on a host. ``dry`` is check mode, in which nothing is changed."""

    def __init__(self, host: Host, run: Run, ask: Callable[[], Answer], *, dry: bool) -> None:
        self.host = host
        self.wanted: Wanted = host.wanted
        self.run = run
        self.ask = ask
        self.dry = dry
        self.changed = False
        self.diffs: list[dict[str, str]] = []
        self.answer = Answer(-1, "", "not asked")
        self.is_new = host.previous.is_kept()
        """True if the service must be started again. An interrupted run may have replaced files before the start."""
        self.was_started = False

    def write(self, unit: str) -> None:
        """Keep what works, and write the files. The unit of a package is there before the package, which would start without a password."""
        if not self.dry:
            self.host.previous.keep(self._state())
        self._make_user()
        for folder in (self.wanted.config_dir, str(Path(UNIT_FILES[self.wanted.method]).parent)):
            self._do(not Path(folder).is_dir(), make_folder, folder)
        if self.host.owns_textfile_dir():
            declared = self._put(HostFile(TMPFILES, f"d {self.wanted.textfile_dir} 2775 root {self.wanted.system_group} -\n", uid=0, gid=0))
            create = ["systemd-tmpfiles", "--create", TMPFILES]
            self._do(declared or not Path(self.wanted.textfile_dir).is_dir(), run_checked, self.run, "Create the folder", create)
        web_config = self.wanted.web_config(bcrypt_hashes(self.wanted.basic_auth_users, self._kept_hashes()))
        if web_config:
            text = json.dumps(web_config, indent=2, ensure_ascii=False) + "\n"
            self._put(HostFile(self.wanted.web_config_file, text, mode=0o640, uid=0, gid=self.host.gid or 0), shown=False)
        configuration = self.wanted.configuration(unit, web_config)
        text = f"{unit.strip()}\n# It tells the next run which configuration the process has.\nEnvironment={MARK}={configuration}\n"
        written = self._put(HostFile(UNIT_FILES[self.wanted.method], text, uid=0, gid=0))
        self.is_new = self.is_new or written or self.host.configuration != configuration

    def present(self, unit: str) -> None:
        """Install, start, and wait for the answer. Raises HostError with the reason, after it has restored what the host had."""
        if not self.wanted.unit:
            self.answer = self.ask()
            problems = answer_problems(self.wanted, self._url(), self.answer)
            if problems:
                raise HostError("\n".join(problems))
            return
        try:
            self.write(unit)
            if self.wanted.method == "archive" and not self.host.has_archive():
                self._do(True, self._install_program)
                self.is_new = True
            self._do(self.is_new or not self._runs(), self._start)
            if not self.dry:
                self.answer = wait_until(self.ask, lambda answer: is_answer(self.wanted, answer), tries=TRIES)
                if not is_answer(self.wanted, self.answer):
                    raise HostError(f"Request the metrics: {self.answer}")
        except (HostError, OSError) as error:
            raise HostError(self.restore(str(error))) from error
        self._tidy()

    def restore(self, reason: str) -> str:
        """Restore the files and the version from before this run, or before the one that was interrupted. Return the whole message."""
        journal = journal_end(self.run, self.wanted.unit) if self.was_started else []
        remove_tree(self.wanted.scratch)
        failures = self._restore_all() if self.host.previous.is_kept() and not self.dry else []
        version = f" {self.wanted.version}" if self.wanted.version else ""
        ends = f" The journal of {self.wanted.unit} ends with: {' | '.join(journal)}." if journal else ""
        outcome = f"The rollback failed, too: {', '.join(failures)}." if failures else "The host has its earlier files and version again."
        full = re.search("No space left|Wrote only", reason)
        remedy = "Free disk space (df -h), and run this again" if full else "Correct the variables, or the version, and run this again"
        return f"{self.wanted.host}: node_exporter{version} is not installed. {reason}.{ends} {outcome} {remedy}"

    def absent(self) -> None:
        """Remove node_exporter. Files of other programs stay, such as keys in the folder of the configuration."""
        managed = self.host.managed
        if managed or self.host.previous.is_kept():
            self._remove(self.wanted.web_config_file)
        if not self.dry:
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

    def _url(self) -> str:
        return self.wanted.url(self.host.addresses)

    def _state(self) -> dict[str, Any]:
        return {"package": self.host.package_version, "managed": self.host.managed, "units": self.host.running_units}

    def _do(self, needed: bool, action: Callable[..., Any], *arguments: Any) -> None:
        """Change something, if it is needed. In check mode it is only counted."""
        self.changed |= needed
        if needed and not self.dry:
            action(*arguments)

    def _put(self, file: HostFile, *, shown: bool = True) -> bool:
        """Write a file, and return whether it has changed. A file with hashes of passwords is not shown."""
        differs = not file.is_there()
        if differs and shown:
            self.diffs.append(file.diff())
        self._do(differs, file.write)
        return differs

    def _remove(self, path: str) -> bool:
        there = Path(path).is_file()
        self._do(there, remove_file, path)
        return there

    def _kept_hashes(self) -> dict[str, str]:
        """The hashes that the host has. A file that the role has not written has none."""
        try:
            found: dict[str, str] = json.loads(read_text(self.wanted.web_config_file) or "{}").get("basic_auth_users", {})
        except ValueError:
            return {}
        return found

    def _make_user(self) -> None:
        user, group = self.wanted.system_user, self.wanted.system_group
        comment = OLDER_GROUP if self.host.gid is not None else OWN_GROUP
        command = ["useradd", "--system", "--gid", group, "--comment", comment, "--no-create-home", "--home-dir", "/nonexistent"]
        self._do(self.host.gid is None, run_checked, self.run, "Create the group", ["groupadd", "--system", group])
        command += ["--shell", "/usr/sbin/nologin", user]
        self._do(self.host.uid is None, run_checked, self.run, "Create the user", command)

    def _install_program(self) -> None:
        """Replace the program by the one that was unpacked, after it has printed the expected version."""
        unpacked = f"{self.wanted.scratch}/node_exporter"
        output = run_checked(self.run, "Run the program of the archive", ["sh", "-c", 'exec "$0" --version 2>&1', unpacked])
        if not re.search(rf"version {re.escape(self.wanted.version)}[ ,]", output):
            raise HostError(f"Run the program of the archive: it is another version than {self.wanted.version}: {output.strip()}")
        Path(unpacked).chmod(0o755)
        Path(unpacked).replace(self.wanted.installed_program)
        HostFile(self.wanted.record_file, f"{self.wanted.archive_sum} {self.host.program_sum()}\n", uid=0, gid=0).write()

    def _runs(self) -> bool:
        is_enabled = self.run(["systemctl", "is-enabled", "--quiet", self.wanted.unit])[0] == 0
        return is_enabled and main_pid(self.run, self.wanted.unit) > 0

    def _start(self) -> None:
        if self.host.other:
            run_checked(self.run, "Stop the service of the other method", ["systemctl", "disable", "--now", UNITS[self.host.other]])
        self.was_started = True
        for words in (["daemon-reload"], ["enable", self.wanted.unit], ["restart", self.wanted.unit]):
            run_checked(self.run, "Start the service", ["systemctl", *words])

    def _restore_all(self) -> list[str]:
        """Restore files, package, user and services. Return what has failed."""
        earlier = self.host.previous.state()
        own = [unit for unit in (self.wanted.unit, UNITS.get(self.host.other, "")) if unit]
        failures = []
        for unit in own:
            if unit not in earlier["units"]:
                self.run(["systemctl", "disable", "--now", unit])  # a unit that does not exist
        self.host.previous.restore()
        if self.host.package_version != earlier["package"]:
            words = ["install", "--allow-downgrades", f"{PACKAGE}={earlier['package']}"] if earlier["package"] else ["purge", PACKAGE]
            code, output, error = self._apt(*words)
            failures += [] if code == 0 else [" ".join((error or output).split())]
        if not failures:
            self._forget()
        self.run(["systemctl", "daemon-reload"])
        if not earlier["managed"]:
            self._remove_leftovers()
        for unit in own:
            if unit in earlier["units"]:
                code, _, error = self.run(["systemctl", "restart", unit])
                self.run(["systemctl", "enable", unit])
                if code != 0:
                    failures.append(" ".join(error.split()))
                elif not self._listens_again(unit):
                    failures.append(f"{unit} listens at no port")
        return failures

    def _listens_again(self, unit: str) -> bool:
        # Its URL is not known: the variables are those of the new configuration.
        return wait_until(lambda: listens(self.run, unit), bool, tries=TRIES)

    def _forget(self) -> None:
        self.host.previous.forget()
        remove_tree(self.wanted.scratch)

    def _tidy(self) -> None:
        """Remove the earlier files, those without a use, and the installation of the other method."""
        if not self.dry:
            self._forget()
        used = {
            self.wanted.web_config_file: bool(self.wanted.web_config(self.wanted.basic_auth_users)),
            self.wanted.record_file: self.wanted.method == "archive",
            TMPFILES: bool(self.wanted.textfile_dir),
        }
        for path in (path for path, is_used in used.items() if not is_used):
            self._remove(path)
        if self.host.other:
            self._uninstall(self.host.other)

    def _uninstall(self, method: str) -> None:
        """Remove a service with its program. The unit is the last one: it tells the next run what an interrupted one has left."""
        self._do(True, self.run, ["systemctl", "disable", "--now", UNITS[method]])
        if method == "package":
            self._do(True, self._purge)
        else:
            self._remove(self.wanted.installed_program)
            self._remove(self.wanted.record_file)
        self._remove(UNIT_FILES[method])
        if not self.dry:
            if method == "package":
                remove_empty_folder(str(Path(UNIT_FILES[method]).parent))
            self.run(["systemctl", "daemon-reload"])
            self.run(["systemctl", "reset-failed", UNITS[method]])

    def _purge(self) -> None:
        code, output, error = self._apt("purge", PACKAGE)
        if code != 0:
            raise HostError(f"{self.wanted.host}: {PACKAGE} cannot be removed: {' '.join((error or output).split())}")

    def _apt(self, *words: str) -> tuple[int, str, str]:
        return self.run(["apt-get", "--yes", "--quiet", "--no-install-recommends", "--option=DPkg::Lock::Timeout=300", *words])

    def _remove_leftovers(self) -> None:
        """Remove the folders and the user that both methods have."""
        self._remove(TMPFILES)
        for folder in (self.wanted.config_dir, self.wanted.textfile_dir, str(Path(UNIT_FILES["package"]).parent)):
            if not self.dry:
                self.changed |= remove_empty_folder(folder)
        user = self.wanted.system_user
        comment = pwd.getpwnam(user).pw_gecos if self.host.uid is not None else ""
        if comment == OLDER_GROUP:
            # A group of the name of a user is removed with its last user.
            self._do(True, run_checked, self.run, "Keep the group", ["usermod", "--gid", "65534", user])
        if comment in (OWN_GROUP, OLDER_GROUP):
            self._do(True, run_checked, self.run, "Remove the user", ["userdel", user])
