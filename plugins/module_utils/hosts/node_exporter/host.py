# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A host with the variables of the role, and the reasons for which it cannot be used. Nothing is changed."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

from ..common.files import read_text
from ..common.previous import Previous
from ..common.system import Answer, Listener, Run, listeners, process_value

PACKAGE = "prometheus-node-exporter"
UNITS = {"package": f"{PACKAGE}.service", "archive": "node_exporter.service"}
UNIT_FILES = {
    "package": f"/etc/systemd/system/{PACKAGE}.service.d/kube-scheduling.conf",
    "archive": "/etc/systemd/system/node_exporter.service",
}
TMPFILES = "/etc/tmpfiles.d/node_exporter.conf"
PREVIOUS = "/var/lib/node_exporter.kube-scheduling-previous"
MARK = "NODE_EXPORTER_CONFIGURATION"
"""The environment variable that tells the next run the configuration of the process."""
HASH = re.compile(r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}\Z")
"""A bcrypt hash in place of a password."""
FIRST_RELEASES = {"Debian": "12", "Ubuntu": "24.04"}
"""The first releases whose package has node_exporter 1.5.0: several listen addresses, and the option web.config.file."""


class Host(SimpleNamespace):
    """The variables of the role without their prefix, and the contents of the host, which are read when they are needed.

    In addition, ``name`` is that in the inventory, ``facts`` has some of its facts, ``address`` is the variable ``ip`` of kubespray,
    ``archive_sum`` is the SHA-256 sum of the archive, and ``new_program`` is the path on the host of the program in it.
    """

    def __init__(self, run: Run, **variables: Any) -> None:
        super().__init__(run=run, **variables)
        self.unit = UNITS.get(self.method, "")  # the role installs none for the method present
        self.program = f"{self.binary_install_dir}/node_exporter"
        self.web_config_file = f"{self.config_dir}/web_config.yml"
        self.record_file = f"{self.config_dir}/installed_archive"  # the sums of the archive and of the program in it
        self.scheme = "https" if self.tls_server_config else "http"
        # It is empty if only hashes are known.
        self.known_user = next((user for user, word in self.basic_auth_users.items() if not HASH.match(word)), "")
        self.previous = Previous(PREVIOUS, [self.web_config_file, self.program, self.record_file, TMPFILES, *UNIT_FILES.values()])
        self.user_of_tasks = getpass.getuser() if os.getuid() else ""  # empty for root

    @property
    def uid(self) -> Optional[int]:
        return self._number("passwd", self.system_user)

    @property
    def gid(self) -> Optional[int]:
        return self._number("group", self.system_group)

    def _number(self, database: str, name: str) -> Optional[int]:
        found = re.match(r"[^:]*:[^:]*:(\d+)", self.run(["getent", database, name])[1])
        return int(found.group(1)) if found else None

    @cached_property
    def configuration(self) -> str:
        """The configuration of the process that runs. It is empty if none of this role runs."""
        return process_value(self.run, self.unit, MARK)

    @cached_property
    def managed(self) -> list[str]:
        """The methods whose unit this role has written."""
        return [method for method, file in UNIT_FILES.items() if MARK in read_text(file)]

    @property
    def own_units(self) -> list[str]:
        """The unit of the method, and after it that of the other one if this role has written it."""
        return [self.unit, *(UNITS[method] for method in self.managed if method != self.method)]

    @property
    def package_version(self) -> str:
        output = self.run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", PACKAGE])[1]
        return output.partition(" ")[2] if output.startswith("installed ") else ""

    def is_installed(self) -> bool:
        """Return whether the package has a version that begins with the wanted one, or the program is that of the archive, unchanged."""
        if self.method == "archive":
            return read_text(self.record_file).split() == [self.archive_sum, self.program_sum()]
        return bool(re.match(re.escape(self.version) + r"($|[-+.~])" if self.version else ".", self.package_version))

    def program_sum(self) -> str:
        """Return the SHA-256 sum of the program of an archive. It is empty if there is none."""
        program = Path(self.program)
        return hashlib.sha256(program.read_bytes()).hexdigest() if program.is_file() else ""

    def owns_textfile_dir(self) -> bool:
        """Return whether the role makes the folder of the textfile collector. A folder of others keeps its mode."""
        folder = self.textfile_dir
        return bool(folder) and (f"d {folder} " in read_text(TMPFILES) or not Path(folder).is_dir())

    @cached_property
    def interfaces(self) -> dict[str, list[str]]:
        """The addresses of each wanted interface."""
        names = [address.rpartition(":")[0] for address in self.web_listen_address]
        command = ["ip", "-oneline", "address", "show", "dev"]
        return {name: own_addresses(self.run([*command, name])[1]) for name in names if not re.match(r"$|[0-9.]+$|\[", name)}

    @cached_property
    def addresses(self) -> list[str]:
        """The addresses at which node_exporter listens. An interface becomes its own addresses."""
        parts = [address.rpartition(":") for address in self.web_listen_address]
        found = [f"{one}:{port}" for name, _colon, port in parts for one in self.interfaces.get(name, [name])]
        return list(dict.fromkeys(found))

    @property
    def url(self) -> str:
        """The URL at which the host asks itself."""
        first = re.sub(r"^(0\.0\.0\.0)?:", "127.0.0.1:", next(iter(self.addresses), "127.0.0.1:9100"))
        return f"{self.scheme}://{first.replace('[::]:', '[::1]:')}{self.web_telemetry_path}"

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
        return listeners(self.run, {address.rpartition(":")[2] for address in self.web_listen_address})

    @cached_property
    def unreadable(self) -> dict[str, str]:
        """The secret files that the service cannot read, with the reason. A user who does not exist yet has no right."""
        files = [self.tls_server_config.get(key) for key in ("cert_file", "key_file", "client_ca_file")]
        groups = "--clear-groups" if self.uid is None else "--init-groups"
        ids = [str(65534 if number is None else number) for number in (self.uid, self.gid)]
        as_service = ["setpriv", "--reuid", ids[0], "--regid", ids[1], groups, "--", "head", "-c", "1"]
        answers = {file: self.run([*as_service, file]) for file in files if file}
        return {file: error.strip().rpartition(": ")[2] for file, (code, _output, error) in answers.items() if code != 0}

    def web_config(self, hashes: Mapping[str, str]) -> dict[str, Any]:
        """Return the content of the web configuration. It is empty if node_exporter needs none."""
        parts = {"tls_server_config": self.tls_server_config, "http_server_config": self.http_server_config, "basic_auth_users": hashes}
        return {key: value for key, value in parts.items() if value}

    def arguments(self) -> list[str]:
        """Return the arguments of the program, quoted for the unit."""
        options: list[tuple[str, Any]] = []
        for item in self.enabled_collectors:
            for name, given in ({item: {}} if isinstance(item, str) else item).items():
                options.append((f"collector.{name}", True))
                # With the package of Debian 12, whose default excludes lo, device-include alone is an error.
                if name == "netdev" and "device-include" in given and "device-exclude" not in given:
                    options.append(("collector.netdev.device-exclude", ""))
                options += [(f"collector.{name}.{option}", value) for option, value in given.items()]
        options += [(f"collector.{name}", False) for name in self.disabled_collectors]
        if self.textfile_dir and "collector.textfile.directory" not in dict(options):
            options.append(("collector.textfile.directory", self.textfile_dir))
        if self.web_config(self.basic_auth_users):
            options.append(("web.config.file", self.web_config_file))
        if self.web_disable_exporter_metrics:
            options.append(("web.disable-exporter-metrics", True))
        options += [("log.level", self.log_level), ("log.format", self.log_format)]
        options += [("web.listen-address", self.addresses), ("web.telemetry-path", self.web_telemetry_path)]
        words = [word for name, value in options for word in _words(name, value)]
        return [json.dumps(word, ensure_ascii=False).replace("%", "%%").replace("$", "$$") for word in words]

    def problems(self) -> Iterator[str]:
        """Yield the end of a sentence for each reason why the role cannot do its work on the host."""
        if self.user_of_tasks:
            become = "run the playbook with -b (--become), or set ansible_become: true"
            yield f": the tasks run as {self.user_of_tasks}, and the role needs root: {become}"
        if self.state == "present":
            yield from self._system_problems()
        if self.state == "present" and self.unit:
            yield from self._use_problems()

    def _system_problems(self) -> Iterator[str]:
        name, version, manager = (self.facts[fact] for fact in ("distribution", "distribution_version", "service_mgr"))
        is_package, to_archive = self.method == "package", "set node_exporter_method: archive"
        if self.unit and manager != "systemd":
            remedy = "install node_exporter in another way, and set node_exporter_method: present"
            yield f" has {manager} as its service manager, and the role needs systemd: {remedy}"
        if is_package and self.facts["os_family"] != "Debian":
            yield f" runs {name}, and node_exporter_method: package is for Debian and Ubuntu: {to_archive}"
        elif is_package and _numbers(version) < _numbers(FIRST_RELEASES.get(name, "")):
            yield f" runs {name} {version}, whose package is older than node_exporter 1.5.0: {to_archive}"
        for interface, addresses in self.interfaces.items():
            if not addresses:
                names_it = "and node_exporter_web_listen_address names it: ip address shows those that it has"
                yield f" has no interface {interface} with a global address, {names_it}"

    def _use_problems(self) -> Iterator[str]:
        """Yield one for each program of others that listens at a wanted address, and for each file that the service cannot read."""
        for found in self.listeners:
            if found.unit not in self.own_units and in_conflict(found.address, self.addresses):
                unit, other = f"unit {found.unit}" if found.unit else "no unit", "node_exporter_web_listen_address to another port"
                replaced = self.method == "package" and found.unit == UNITS["archive"]
                yield (
                    f": {found.address} is used by {found.program} (PID {found.pids[0]}, {unit}): "
                    f"{'set node_exporter_method: archive, which replaces it, or ' if replaced else ''}stop it, or set {other}. "
                    "If it is a node_exporter that stays, set node_exporter_method: present"
                )
        user, group = self.system_user, self.system_group
        missing = "" if self.gid is not None else f". The group does not exist yet: groupadd --system {group}"
        for file, reason in self.unreadable.items():
            allow = f"allow it with chgrp {group} and chmod g+r for the file, and g+x for its folders"
            remedy = ("create it" if "No such file" in reason else allow) + missing
            yield f": {user}, the user of the service, cannot read {file} ({reason}), which node_exporter_tls_server_config names: {remedy}"

    def is_answer(self, answer: Answer) -> bool:
        """Return whether node_exporter has answered.

        With hashes only, the password is not known, and 401 is an answer. A server that requires a client certificate ends the connection.
        """
        if answer.status == -1:
            not_reached = r"(?i)refused|timed out|unreachable|no route|assign requested"
            return "Require" in str(self.tls_server_config.get("client_auth_type", "")) and not re.search(not_reached, answer.error)
        return answer.status == 200 or (answer.status == 401 and bool(self.basic_auth_users) and not self.known_user)

    def missing(self, answer: Answer) -> list[str]:
        """Return what an installation lacks, or why a node_exporter that another tool keeps cannot be used."""
        name, unit, url, advice = self.name, self.unit, self.url, "run the playbook onprem.kube_scheduling.site"
        if unit and self.method not in self.managed:
            return [f"{name} has no {unit} of this role: {advice}"]
        if unit and not self.configuration:
            return [f"{name}: {unit} does not run: see journalctl --unit {unit}"]
        if not unit:
            advice = "correct node_exporter_web_listen_address, or set node_exporter_method to package or archive"
        if not self.is_answer(answer):
            start = "" if unit else "start node_exporter there, "
            return [f"{name}: {url} does not answer with metrics ({answer}): {start}{advice}"]
        is_other = answer.status == 200 and "exporter_build_info" not in answer.text
        return [f"{name}: {url} answers, and it is no node_exporter: {advice}"] if is_other else []


def own_addresses(output: str) -> list[str]:
    """Return the global addresses in the output of `ip -oneline address`.

    A floating address, such as of keepalived or kube-vip, has no network, and may move to another host. It is left out if the interface has
    another address of the same family.
    """
    lines = [line for line in output.splitlines() if not re.search(r" (temporary|deprecated|tentative|dadfailed)\b", line)]
    matches = [re.search(r" (inet6?) ([^/\s]+)(?:/(\d+))? .*\bscope global\b", line) for line in lines]
    found = [(match[1], match[2], match[3] in (None, "32" if match[1] == "inet" else "128")) for match in matches if match]
    fixed = {family for family, _address, floats in found if not floats}
    own = [address for family, address, floats in found if not (floats and family in fixed)]
    return [f"[{address}]" if ":" in address else address for address in own]


def in_conflict(address: str, wanted: list[str]) -> bool:
    """Return whether a listener uses one of the wanted addresses, or one of both listens at all addresses.

    0.0.0.0 of another program is all of IPv4. That of node_exporter is all of both, as * is.
    """
    everywhere = {"*", *("[::]" if one.startswith("[") else "0.0.0.0" for one in wanted)}
    anywhere = any(re.match(r"(0\.0\.0\.0|\[::\])?:", one) for one in wanted)
    return anywhere or address in wanted or address.rpartition(":")[0] in everywhere


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{name}"]
    return [f"--{name}={item}" for item in (value if isinstance(value, list) else [value])]
