# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with chosen contents, and the variables of the role with their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.host import Host

from tools.paths import ROOT

DEFAULTS = yaml.safe_load((ROOT / "roles" / "node_exporter" / "defaults" / "main.yml").read_text())
SUM = "ab" * 32
ARCHIVE = {"method": "archive", "version": "1.11.1", "archive_sum": SUM}
FACTS = {"architecture": "x86_64", "distribution": "Debian", "distribution_version": "12", "os_family": "Debian", "service_mgr": "systemd"}
SECURED = {"tls_server_config": {"cert_file": "/etc/tls/cert.pem", "key_file": "/etc/tls/key.pem"}}


def wanted(facts: Mapping[str, str] | None = None, **variables: Any) -> dict[str, Any]:
    """Return the variables of the role for a host, without their prefix."""
    given = (
        {name.removeprefix("node_exporter_"): value for name, value in DEFAULTS.items()}
        | {"archive_sum": "", "new_program": "", "address": ""}
        | variables
    )
    addresses = given["web_listen_address"]
    given["web_listen_address"] = addresses if isinstance(addresses, list) else [addresses]
    return given | {"name": "node-3", "facts": FACTS | dict(facts or {})}


class HostWith(Host):
    """A host whose programs answer with these texts. A key is a part of the command line. Other programs fail."""

    uid: int | None = 997
    gid: int | None = 997

    def __init__(self, wanted: Mapping[str, Any], answers: Mapping[str, str] | None = None, **contents: Any) -> None:
        super().__init__(self._answer, **wanted)
        self.answers = answers or {}
        self.__dict__.update({"user_of_tasks": "", "listeners": [], "unreadable": {}, "managed": [], "configuration": "", **contents})

    def _answer(self, words: Sequence[str]) -> tuple[int, str, str]:
        command = " ".join(words)
        return next(((0, text, "") for part, text in self.answers.items() if part in command), (1, "", "no such program"))
