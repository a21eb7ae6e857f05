# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The wanted node_exporter: the variables of the role, and what follows from them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNITS = {"package": "prometheus-node-exporter.service", "archive": "node_exporter.service"}
UNIT_FILES = {
    "package": "/etc/systemd/system/prometheus-node-exporter.service.d/kube-scheduling.conf",
    "archive": "/etc/systemd/system/node_exporter.service",
}
TMPFILES = "/etc/tmpfiles.d/node_exporter.conf"
MARK = "NODE_EXPORTER_CONFIGURATION"
"""The environment variable that tells the next run the configuration of the process."""


@dataclass(frozen=True)
class Wanted:
    """The variables of the role, without their prefix."""

    host: str
    facts: Mapping[str, str]
    address: str
    """The variable ``ip`` of kubespray, or an empty text."""
    archive_sum: str
    state: str
    method: str
    version: str
    binary_install_dir: str
    config_dir: str
    system_user: str
    system_group: str
    web_listen_address: Sequence[str]
    web_telemetry_path: str
    web_disable_exporter_metrics: bool
    tls_server_config: Mapping[str, Any]
    http_server_config: Mapping[str, Any]
    enabled_collectors: Sequence[Any]
    disabled_collectors: Sequence[str]
    textfile_dir: str
    log_level: str
    log_format: str
    basic_auth_users: Mapping[str, str]

    @property
    def unit(self) -> str:
        """The service. It is empty if the role installs none."""
        return UNITS.get(self.method, "")

    @property
    def installed_program(self) -> str:
        """The program of an archive."""
        return f"{self.binary_install_dir}/node_exporter"

    @property
    def scratch(self) -> str:
        """The folder in which the archive is unpacked."""
        return f"{self.binary_install_dir}/.node_exporter-unpacked"

    @property
    def web_config_file(self) -> str:
        return f"{self.config_dir}/web_config.yml"

    @property
    def record_file(self) -> str:
        """The file with the sums of the archive and of the program in it."""
        return f"{self.config_dir}/installed_archive"

    @property
    def scheme(self) -> str:
        return "https" if self.tls_server_config else "http"

    @property
    def interfaces(self) -> list[str]:
        """The listen addresses that are names of interfaces, without the port."""
        names = [_split(wanted)[0] for wanted in self.web_listen_address]
        return list(dict.fromkeys(name for name in names if not re.match(r"$|[0-9.]+$|\[", name)))

    @property
    def ports(self) -> list[str]:
        return list(dict.fromkeys(_split(wanted)[1] for wanted in self.web_listen_address))

    @property
    def secret_files(self) -> list[str]:
        """The files that the service reads by itself."""
        return [name for key in ("cert_file", "key_file", "client_ca_file") if (name := self.tls_server_config.get(key))]

    @property
    def known_user(self) -> tuple[str, str]:
        """The first user whose password is known, with it. With hashes only, both are empty."""
        return next(((user, word) for user, word in self.basic_auth_users.items() if not re.match(r"\$2[abxy]?\$", word)), ("", ""))

    def addresses(self, of_interfaces: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the listen addresses. An interface becomes its own addresses."""
        found = []
        for wanted in self.web_listen_address:
            name, port = _split(wanted)
            own = [f"[{one}]:{port}" if ":" in one else f"{one}:{port}" for one in of_interfaces.get(name, ())]
            found += own if name in self.interfaces else [wanted]
        return list(dict.fromkeys(found))

    def url(self, addresses: Sequence[str]) -> str:
        """Return the URL at which the host asks itself."""
        first = re.sub(r"^(0\.0\.0\.0)?:", "127.0.0.1:", next(iter(addresses), "127.0.0.1:9100"))
        return f"{self.scheme}://{first.replace('[::]:', '[::1]:')}{self.web_telemetry_path}"

    def web_config(self, hashes: Mapping[str, str]) -> dict[str, Any]:
        """Return the content of the web configuration. It is empty if node_exporter needs none."""
        parts = {"tls_server_config": self.tls_server_config, "http_server_config": self.http_server_config, "basic_auth_users": hashes}
        return {key: value for key, value in parts.items() if value}

    def arguments(self, addresses: Sequence[str]) -> list[str]:
        """Return the arguments of the program, quoted for the unit."""
        found: list[str] = []

        def add(name: str, value: Any) -> None:
            if isinstance(value, bool):
                found.append(f"--{'' if value else 'no-'}{name}")
            else:
                found.extend(f"--{name}={item}" for item in (value if isinstance(value, (list, tuple)) else [value]))

        for item in self.enabled_collectors:
            for name, options in ({item: {}} if isinstance(item, str) else item).items():
                add(f"collector.{name}", True)
                # With the package of Debian 12, whose default excludes lo, device-include alone is an error.
                if name == "netdev" and "device-include" in options and "device-exclude" not in options:
                    add("collector.netdev.device-exclude", "")
                for option, value in options.items():
                    add(f"collector.{name}.{option}", value)
        for name in self.disabled_collectors:
            add(f"collector.{name}", False)
        if self.textfile_dir and not any(word.startswith("--collector.textfile.directory=") for word in found):
            add("collector.textfile.directory", self.textfile_dir)
        if self.web_config(self.basic_auth_users):
            add("web.config.file", self.web_config_file)
        if self.web_disable_exporter_metrics:
            add("web.disable-exporter-metrics", True)
        add("log.level", self.log_level)
        add("log.format", self.log_format)
        add("web.listen-address", list(addresses))
        add("web.telemetry-path", self.web_telemetry_path)
        return [_quoted(word) for word in found]

    def configuration(self, unit: str, web_config: Mapping[str, Any]) -> str:
        """Return the sum of all that makes a restart necessary."""
        parts = [unit, web_config, self.archive_sum if self.method == "archive" else ""]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _split(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host, port


def _quoted(word: str) -> str:
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        word = word.replace(sign, escaped)
    return f'"{word}"'
