# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The wanted node_exporter: the variables of the role, and what follows from them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

UNITS = {"package": "prometheus-node-exporter.service", "archive": "node_exporter.service"}
UNIT_FILES = {
    "package": "/etc/systemd/system/prometheus-node-exporter.service.d/kube-scheduling.conf",
    "archive": "/etc/systemd/system/node_exporter.service",
}
TMPFILES = "/etc/tmpfiles.d/node_exporter.conf"
HASH = re.compile(r"\$2[abxy]?\$")
"""The beginning of a bcrypt hash in place of a password."""

MARK = "NODE_EXPORTER_CONFIGURATION"
"""The environment variable that tells the next run the configuration of the process."""


class Wanted(SimpleNamespace):
    """The variables of the role without their prefix, and the names that follow from them.

    In addition, ``host`` is the name in the inventory, ``facts`` has some of its facts, ``address`` is the variable ``ip`` of kubespray,
    ``archive_sum`` is the SHA-256 sum of the archive, and ``new_program`` is the path on the host of the program in it.
    """

    def __init__(self, **variables: Any) -> None:
        super().__init__(**variables)
        self.unit = UNITS.get(self.method, "")  # the role installs none for the method present
        self.installed_program = f"{self.binary_install_dir}/node_exporter"
        self.web_config_file = f"{self.config_dir}/web_config.yml"
        self.record_file = f"{self.config_dir}/installed_archive"  # the sums of the archive and of the program in it
        self.scheme = "https" if self.tls_server_config else "http"
        self.listen = [(address.rpartition(":")[0], address.rpartition(":")[2]) for address in self.web_listen_address]
        self.interfaces = list(dict.fromkeys(name for name, _port in self.listen if not re.match(r"$|[0-9.]+$|\[", name)))
        keys = ("cert_file", "key_file", "client_ca_file")
        self.secret_files = [self.tls_server_config[key] for key in keys if self.tls_server_config.get(key)]
        # Both are empty if only hashes are known.
        known = [user for user, word in self.basic_auth_users.items() if not HASH.match(word)]
        self.known_user = known[0] if known else ""
        self.known_password = self.basic_auth_users.get(self.known_user, "")

    def addresses(self, of_interfaces: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the listen addresses. An interface becomes its own addresses."""
        found = []
        for name, port in self.listen:
            own = [f"[{one}]" if ":" in one else one for one in of_interfaces.get(name, ())] if name in self.interfaces else [name]
            found += [f"{one}:{port}" for one in own]
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
        options += [("web.listen-address", list(addresses)), ("web.telemetry-path", self.web_telemetry_path)]
        return [_quoted(word) for name, value in options for word in _words(name, value)]

    def configuration(self, unit: str, web_config: Mapping[str, Any]) -> str:
        """Return the sum of all that makes a restart necessary."""
        parts = [unit, web_config, self.archive_sum if self.method == "archive" else ""]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{name}"]
    return [f"--{name}={item}" for item in (value if isinstance(value, list) else [value])]


def _quoted(word: str) -> str:
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        word = word.replace(sign, escaped)
    return f'"{word}"'
