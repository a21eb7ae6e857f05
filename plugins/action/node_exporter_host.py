# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Give the variables of the role node_exporter to the module on the host, and bring the program of the archive there."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.program_archive import ProgramAction, ProgramArchive
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables

RELEASE = "the archive of a release of node_exporter"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armv7", "armv6l": "armv6", "i386": "386", "i686": "386"}
"""The names of architectures in the archives, where they are others than those of the kernel."""

FACTS = ("distribution", "distribution_version", "os_family", "service_mgr")
NAMES = ("state", "method", "version", "binary_install_dir", "config_dir", "system_user", "system_group", "textfile_dir")
NAMES += ("web_listen_address", "web_telemetry_path", "web_disable_exporter_metrics", "tls_server_config", "http_server_config")
NAMES += ("enabled_collectors", "disabled_collectors", "log_level", "log_format")


class ActionModule(ProgramAction):
    """The action of node_exporter_host."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module."""
        result, state = super().run(tmp, task_vars), self._task.args["state"]
        given = RoleVariables("node_exporter", self._templar, task_vars)
        archive, problems, program = find_archive(given, task_vars), [], ""
        if given("method") == "archive" and given("state") == "present":
            if state == "checked":
                problems = [problem for problem in [archive_problem(archive, task_vars)] if problem]
            elif state == "present" and not self._task.check_mode and not task_vars["__node_exporter_checked"]["is_installed"]:
                problem = archive.take()
                if problem:
                    return result | {"failed": True, "msg": problem}
                program = self._brought({"node_exporter": archive.program})["node_exporter"]
        address = text(self._templar.template(task_vars.get("ip")))
        arguments = {
            **self._task.args,
            "problems": problems,
            "variables": wanted_variables(given, task_vars) | {"address": address, "archive_sum": archive.sum, "new_program": program},
            "basic_auth_users": {str(user): str(password) for user, password in given("basic_auth_users").items()},
        }
        return result | self._execute_module(module_args=arguments, task_vars=task_vars)


def text(value):
    """Return a value as text. In YAML, 1.9 is a number."""
    return "" if value is None else str(value)


def wanted_variables(given, task_vars):
    """Return the variables without their prefix, as the host gets them. The users with their passwords are not among them."""
    found = {name: given(name) for name in NAMES}
    listened = found["web_listen_address"]
    return found | {
        "version": text(found["version"]),
        "web_listen_address": [str(one) for one in (listened if isinstance(listened, list) else [listened])],
        "web_disable_exporter_metrics": boolean(found["web_disable_exporter_metrics"]),
        "name": task_vars["inventory_hostname"],
        "facts": {name: text(task_vars["ansible_facts"].get(name)) for name in FACTS},
    }


def find_archive(given, task_vars):
    """Return the archive for the host."""
    architecture, sums = architecture_of(task_vars), given("checksum")
    checksum = text(sums.get(architecture) if isinstance(sums, dict) else sums).removeprefix("sha256:").lower()
    name = "archive_path" if given("archive_path") else "binary_url"
    place = text(given(name)).replace("{version}", text(given("version"))).replace("{architecture}", architecture)
    return ProgramArchive(place, checksum, "node_exporter", f"node_exporter_{name}", "node_exporter_checksum", RELEASE)


def archive_problem(archive, task_vars):
    """Return why the archive cannot be installed. One that must be downloaded is read when it is needed."""
    if archive.sum:
        return archive.file_problem()
    return f"{task_vars['inventory_hostname']} is {architecture_of(task_vars)}, and node_exporter_checksum has no sum for it: add one"


def architecture_of(task_vars):
    """Return the name of the host's architecture in archives."""
    found = text(task_vars["ansible_facts"].get("architecture"))
    return ARCHITECTURES.get(found, found)
