# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Install node_exporter on a host, or remove it. If the new one does not answer, the host gets back what it had before."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..common.files import Changes, HostFile, read_text
from ..common.system import Answer, HostError, journal_end, listens, main_pid, run_checked, wait_until
from .host import HASH, MARK, PACKAGE, TMPFILES, UNIT_FILES, UNITS, Host

TRIES = 10
"""Times, one second apart, in which a service that was started must answer."""

OWN_GROUP = "node_exporter of onprem.kube_scheduling"
OLDER_GROUP = f"{OWN_GROUP} in an older group"
"""The comments of a user whom the role has created. Only he is removed. A group that is older than him stays."""

DROP_IN_FOLDER = str(Path(UNIT_FILES["package"]).parent)
APT = ["--yes", "--quiet", "--no-install-recommends", "--allow-downgrades", "--option=DPkg::Lock::Timeout=300"]
APT += [f"--option=DPkg::Options::=--force-{choice}" for choice in ("confdef", "confold")]
"""Recommended packages have timers that run smartctl, ipmitool and other programs as root. unattended-upgrades may have the lock."""
COST = 10
"""The logarithm of the number of rounds of bcrypt. node_exporter calculates as many for the first request of each password."""
LONGEST_PASSWORD_BYTES = 72
"""bcrypt ignores the rest of a password."""


class Installation:
    """One run on a host. In check mode (``dry``) nothing is changed."""

    def __init__(self, host: Host, ask: Callable[[], Answer], *, dry: bool) -> None:
        self.host, self.run, self.ask, self.dry = host, host.run, ask, dry
        self.changes = Changes(dry)
        self._beside = Path(host.binary_install_dir, ".node_exporter.new")
        self.answer = Answer(-1, "", "not asked")
        self.started_s = 0.0

    def present(self, unit: str) -> None:
        """Install, start, and wait for the answer. Raises HostError with the reason, after it has restored what the host had."""
        host, changes = self.host, self.changes
        if not host.unit:
            self.answer = self.ask()
            for problem in host.missing(self.answer):
                raise HostError(problem)
            return
        is_new = host.previous.is_kept()  # an interrupted run may have replaced files before the start
        needed, has_archive = not host.is_installed(), host.method == "archive"
        try:
            changes.do(needed and has_archive, self._try_program)
            is_new |= self._write(unit)
            is_new |= changes.do(needed, self._install_program if has_archive else self._install_package)
            enabled = self.run(["systemctl", "is-enabled", "--quiet", host.unit])[0] == 0
            changes.do(is_new or not enabled or not main_pid(self.run, host.unit), self._start)
            if not self.dry:
                self.answer = wait_until(self.ask, host.is_answer, tries=TRIES)
                if not host.is_answer(self.answer):
                    raise HostError(f"Request the metrics: {self.answer}")
        except (HostError, OSError) as error:
            raise HostError(self._restore(str(error))) from error
        self._forget()
        for method in host.managed:
            if method != host.method:
                self._uninstall(method)

    def absent(self) -> None:
        """Remove node_exporter. Files of other programs stay, such as keys in the folder of the configuration."""
        managed = self.host.managed
        if managed or self.host.previous.is_kept():
            self.changes.remove(self.host.web_config_file)
        self._forget()
        for method in managed:
            self._uninstall(method)
        if managed or self.host.uid is not None:
            self._remove_leftovers()

    def result(self) -> dict[str, Any]:
        """Return the fact node_exporter_result. Without a unit of this role, the unit is the one that listens."""
        host, build = self.host, re.search(r'exporter_build_info{[^}]*\bversion="([^"]*)"', self.answer.text)
        source = host.address or host.source or host.name
        reached = f"[{source}]:" if ":" in source else f"{source}:"
        return {
            "method": host.method,
            "version": build.group(1) if build else host.version,
            "unit": host.unit or next((found.unit for found in host.listeners if found.unit), ""),
            "addresses": [re.sub(r"^(0\.0\.0\.0|\[::\])?:", reached, address) for address in host.addresses],
            "scheme": host.scheme,
            "auth": bool(host.basic_auth_users),
        }

    def _write(self, unit: str) -> bool:
        """Keep what works, and write the files. Return whether the service needs a start.

        They are there before the package, whose service would otherwise start without a password.
        """
        host, changes, group = self.host, self.changes, self.host.system_group
        if not self.dry:
            units = [one for one in host.own_units if main_pid(self.run, one)]
            host.previous.keep({"package": host.package_version, "managed": host.managed, "units": units})
        comment = OWN_GROUP if host.gid is None else OLDER_GROUP
        self._do(host.gid is None, "Create the group", "groupadd", "--system", group)
        user = ["--system", "--gid", group, "--comment", comment, "--no-create-home", "--home-dir", "/nonexistent"]
        self._do(host.uid is None, "Create the user", "useradd", *user, "--shell", "/usr/sbin/nologin", host.system_user)
        for folder in (host.config_dir, str(Path(UNIT_FILES[host.method]).parent)):
            changes.make_folder(folder)
        if host.owns_textfile_dir():
            declared = changes.put(HostFile(TMPFILES, f"d {host.textfile_dir} 2775 root {group} -\n", uid=0, gid=0))
            needed = declared or not Path(host.textfile_dir).is_dir()
            self._do(needed, "Create the folder of the textfile collector", "systemd-tmpfiles", "--create", TMPFILES)
        elif not host.textfile_dir:
            changes.remove(TMPFILES)
        web_config = host.web_config(bcrypt_hashes(host.basic_auth_users, read_text(host.web_config_file)))
        if web_config:
            text = json.dumps(web_config, indent=2, ensure_ascii=False) + "\n"
            changes.put(HostFile(host.web_config_file, text, mode=0o640, uid=0, gid=host.gid or 0, shown=False))
        else:
            changes.remove(host.web_config_file)
        command = " \\\n  ".join([host.program if host.method == "archive" else f"/usr/bin/{PACKAGE}", *host.arguments()])
        parts = [unit, command, web_config, host.archive_sum if host.method == "archive" else ""]
        configuration = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        mark = f"# It tells the next run which configuration the process has.\nEnvironment={MARK}={configuration}"
        text = f"{unit.strip()}\nExecStart={command}\n{mark}\n"
        written = changes.put(HostFile(UNIT_FILES[host.method], text, uid=0, gid=0))
        return written or host.configuration != configuration

    def _do(self, needed: bool, what: str, *words: str) -> None:
        self.changes.do(needed, run_checked, self.run, what, words)

    def _try_program(self) -> None:
        """Write the new program beside the old one, and let it print its version."""
        self.changes.make_folder(self.host.binary_install_dir)
        run_checked(self.run, "Write the program", ["install", "--mode=0755", self.host.new_program, str(self._beside)])
        what = "Run the program of the archive"
        output = run_checked(self.run, what, ["sh", "-c", 'exec "$0" --version 2>&1', str(self._beside)])
        if not re.search(rf"version {re.escape(self.host.version)}[ ,]", output):
            raise HostError(f"{what}: it is another version than {self.host.version}: {output.strip()}")

    def _install_program(self) -> None:
        self._beside.replace(self.host.program)
        HostFile(self.host.record_file, f"{self.host.archive_sum} {self.host.program_sum()}\n", uid=0, gid=0).write()

    def _install_package(self) -> None:
        # Another apt may read the lists.
        wait_until(lambda: self.run(["apt-get", "--quiet", "update"])[0], lambda code: code == 0, tries=5, delay_s=6)
        self._apt("install", f"{PACKAGE}={self.host.version}*" if self.host.version else PACKAGE)

    def _apt(self, *words: str) -> None:
        run_checked(self.run, "apt-get", ["apt-get", *APT, *words])

    def _start(self) -> None:
        for unit in self.host.own_units[1:]:
            run_checked(self.run, "Stop the service of the other method", ["systemctl", "disable", "--now", unit])
        self.started_s = time.time()
        for words in (["daemon-reload"], ["enable", self.host.unit], ["restart", self.host.unit]):
            run_checked(self.run, "Start the service", ["systemctl", *words])

    def _restore(self, reason: str) -> str:
        """Restore what the host had before this run, or before the one that was interrupted. Return the whole message."""
        unit, version = self.host.unit, f" {self.host.version}" if self.host.version else ""
        journal = journal_end(self.run, unit, self.started_s) if self.started_s else []
        ends = f" The journal of {unit} ends with: {' | '.join(journal)}." if journal else ""
        failures = self._restore_all() if self.host.previous.is_kept() and not self.dry else []
        self._beside.unlink(missing_ok=True)
        outcome = f"The rollback failed, too: {', '.join(failures)}." if failures else "The host has its earlier files and version again."
        remedy = "Free disk space (df -h)" if "No space left" in reason else "Correct the variables, or the version"
        return f"{self.host.name}: node_exporter{version} is not installed. {reason}.{ends} {outcome} {remedy}, and run this again"

    def _restore_all(self) -> list[str]:
        """Restore files, package, user and services. Return what has failed."""
        host, failures = self.host, []
        earlier = host.previous.state()
        for unit in host.own_units:
            if unit not in earlier["units"]:
                self.run(["systemctl", "disable", "--now", unit])  # it may not exist
        host.previous.restore()
        try:
            version = earlier["package"]
            if host.package_version != version:
                self._apt(*(["install", f"{PACKAGE}={version}"] if version else ["purge", PACKAGE]))
            self._forget()
        except HostError as error:
            failures.append(str(error))
        self.run(["systemctl", "daemon-reload"])
        if not earlier["managed"]:
            self._remove_leftovers()
        for unit in earlier["units"]:
            self.run(["systemctl", "enable", unit])
            code, _output, error_text = self.run(["systemctl", "restart", unit])
            # Its URL is not known: the variables are those of the new configuration.
            if code != 0 or not wait_until(partial(listens, self.run, unit), bool, tries=TRIES):
                failures.append(" ".join(error_text.split()) or f"{unit} listens at no port")
        return failures

    def _forget(self) -> None:
        if not self.dry:
            self.host.previous.forget()
            self._beside.unlink(missing_ok=True)

    def _uninstall(self, method: str) -> None:
        """Remove a service with its program. The unit is the last file: it tells the next run what an interrupted one has left."""
        changes = self.changes
        changes.do(True, self.run, ["systemctl", "disable", "--now", UNITS[method]])
        if method == "package":
            changes.do(True, self._apt, "purge", PACKAGE)
        else:
            changes.remove(self.host.program)
            changes.remove(self.host.record_file)
        changes.remove(UNIT_FILES[method])
        changes.remove_empty(DROP_IN_FOLDER)
        for words in (["daemon-reload"], ["reset-failed", UNITS[method]]):
            changes.do(True, self.run, ["systemctl", *words])

    def _remove_leftovers(self) -> None:
        """Remove the folders and the user that both methods have."""
        self.changes.remove(TMPFILES)
        for folder in (self.host.config_dir, self.host.textfile_dir, DROP_IN_FOLDER):
            self.changes.remove_empty(folder)
        user = self.host.system_user
        comment = (self.run(["getent", "passwd", user])[1].split(":") + [""] * 5)[4]
        # A group of the name of a user is removed with its last user.
        self._do(comment == OLDER_GROUP, "Keep the group", "usermod", "--gid", "65534", user)
        self._do(comment in (OWN_GROUP, OLDER_GROUP), "Remove the user", "userdel", user)


def bcrypt_hashes(users: Mapping[str, str], web_config: str) -> dict[str, str]:
    """Return the hash of each user's password. Raises HostError if a password cannot be hashed.

    A password that is a hash stays as it is. A hash in the present web configuration is kept as long as it is one of the same password.
    """
    try:
        kept = json.loads(web_config or "{}").get("basic_auth_users", {})
    except ValueError:  # the role has not written it
        kept = {}
    return {user: word if HASH.match(word) else _hash_of(user, word, str(kept.get(user, ""))) for user, word in users.items()}


def _hash_of(user: str, password: str, kept: str) -> str:
    """Return the hash of a password, which libcrypt of the host makes. A kept hash has the salt and the cost for another one."""
    if len(password.encode()) > LONGEST_PASSWORD_BYTES:
        raise HostError(f"the password of user {user} has more than {LONGEST_PASSWORD_BYTES} bytes, which bcrypt ignores: shorten it")
    # Managed hosts need not have the library bcrypt. On the controller the kept hash, which has the salt, would have to be read before.
    name = ctypes.util.find_library("crypt")
    library: Any = ctypes.CDLL(name) if name else None
    if hasattr(library, "crypt_gensalt"):
        crypt, make_salt = library.crypt, library.crypt_gensalt
        crypt.argtypes, crypt.restype = [ctypes.c_char_p] * 2, ctypes.c_char_p
        make_salt.argtypes, make_salt.restype = [ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int], ctypes.c_char_p
        if HASH.match(kept) and crypt(password.encode(), kept.encode()) == kept.encode():
            return kept
        found = (crypt(password.encode(), make_salt(b"$2b$", COST, None, 0) or b"*") or b"").decode("ascii", "replace")
        if HASH.match(found):
            return str(found)
    raise HostError(f"the host cannot hash the password of user {user}: give its bcrypt hash (htpasswd -nBC {COST} {user})")
