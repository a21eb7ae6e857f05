# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables of the role node_exporter on the controller, and the archive that it has."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.program_archive import ProgramArchive

RELEASE = "the archive of a release of node_exporter"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armv7", "armv6l": "armv6", "i386": "386", "i686": "386"}
"""The names of architectures in the archives, where they are others than those of the kernel."""

FACTS = ("architecture", "distribution", "distribution_version", "os_family", "service_mgr")
NAMES = ("state", "method", "version", "binary_install_dir", "config_dir", "system_user", "system_group", "textfile_dir")
NAMES += ("web_listen_address", "web_telemetry_path", "web_disable_exporter_metrics", "tls_server_config", "http_server_config")
NAMES += ("enabled_collectors", "disabled_collectors", "log_level", "log_format")


def text(value):
    """Return a value as text. In YAML, 1.9 is a number."""
    return "" if value is None else str(value)


def wanted_variables(given, address, task_vars):
    """Return the variables without their prefix, as the host gets them. The users with their passwords are not among them."""
    found = {name: given(name) for name in NAMES}
    listened = found["web_listen_address"]
    return found | {
        "version": text(found["version"]),
        "web_listen_address": [str(one) for one in (listened if isinstance(listened, list) else [listened])],
        "web_disable_exporter_metrics": boolean(found["web_disable_exporter_metrics"]),
        "host": task_vars["inventory_hostname"],
        "address": text(address),
        "facts": {name: text(task_vars["ansible_facts"].get(name)) for name in FACTS},
    }


def passwords(given):
    """Return the password of each user."""
    return {str(user): str(password) for user, password in given("basic_auth_users").items()}


def architecture_of(variables):
    """Return the name of the host's architecture in archives."""
    found = variables["facts"]["architecture"]
    return ARCHITECTURES.get(found, found)


def find_archive(given, variables):
    """Return the archive for the host."""
    architecture, sums = architecture_of(variables), given("checksum")
    checksum = text(sums.get(architecture) if isinstance(sums, dict) else sums).removeprefix("sha256:").lower()
    name = "archive_path" if given("archive_path") else "binary_url"
    place = text(given(name)).replace("{version}", variables["version"]).replace("{architecture}", architecture)
    return ProgramArchive(place, checksum, "node_exporter", f"node_exporter_{name}", "node_exporter_checksum", RELEASE)


def archive_problem(archive, variables):
    """Return why the archive cannot be installed. One that must be downloaded is read when it is needed."""
    if not archive.sum:
        return f"{variables['host']} is {architecture_of(variables)}, and node_exporter_checksum has no sum for it: add one"
    return "" if archive.is_url else archive.file_problem()
