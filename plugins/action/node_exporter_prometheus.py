# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Give the variables of the scraped hosts and the texts of the files to the module on the host of Prometheus."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.filter.without_logins import without_logins
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.host import HASH
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus import PASSWORD, RULES, SCRAPE, TARGETS
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables, plain

NAMES = ("dir", "user", "service", "promtool", "url", "job", "interval", "username", "password")
NAMES += ("objects", "secret", "render_to", "targets")


class ActionModule(ActionBase):
    """The action of node_exporter_prometheus."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module."""
        result, read = super().run(tmp, task_vars), RoleVariables("node_exporter", self._templar, task_vars)
        given = {name: str(read(f"prometheus_{name}") or "") for name in NAMES}
        tls, hosts = read("prometheus_tls_config"), {name: task_vars["hostvars"][name] for name in read("__scraped")}
        all_users = [*(variables.get("node_exporter_basic_auth_users") for variables in hosts.values()), read("basic_auth_users")]
        users = {str(user): str(word) for one in all_users for user, word in (one or {}).items()}
        username = given["username"] = given["username"] or next(iter(users), "")
        known = users.get(username, "")
        password = given.pop("password") or ("" if HASH.match(known) else known)
        folder = str(Path(given["dir"]).expanduser().resolve()) if given["dir"] else ""
        url = urlsplit(given["url"])
        login = {"url_username": unquote(url.username), "url_password": unquote(url.password or "")} if url.username else {}
        variables = {
            **given,
            "url": without_logins(given["url"]),
            "host": task_vars["inventory_hostname"],
            "folder": folder,
            "owner": given["user"] if username else "",
            "hosts": {name: self._host(one, name, given, read, task_vars) for name, one in hosts.items()},
            "problems": _mistakes(given, tls, hosts, users, password),
            "texts": {SCRAPE: _scrape_text(given, tls, folder), RULES: read("__rules")},
        }
        arguments = {
            "state": self._task.args["state"],
            "variables": variables,
            "secrets": {"password": password if username else "", **login},
        }
        result |= self._execute_module(module_args=arguments, task_vars=task_vars)
        return result | ({"msg": without_logins(result["msg"])} if "msg" in result else {})

    def _host(self, variables, name, given, read, task_vars):
        """Return the variables of a scraped host, and whether Prometheus reaches its loopback address.

        A host is the machine of Prometheus if both have no connection. A Prometheus of the operator is in a pod.
        """
        connections = {variables.get("ansible_connection"), self._templar.template(task_vars.get("ansible_connection"))}
        is_here = given["objects"] == "none" and (name == task_vars["inventory_hostname"] or connections == {"local"})
        installed, address = variables.get("node_exporter_result") or {}, variables.get("node_exporter_scrape_address")
        own_name = variables.get("node_exporter_kube_node_name") or variables.get("kube_override_hostname")
        found = {
            "address": address or next(iter(installed.get("addresses") or []), ""),
            "node": own_name or str((variables.get("ansible_facts") or {}).get("nodename") or "").lower(),
            "scheme": installed.get("scheme"),
            "default_scheme": "https" if variables.get("node_exporter_tls_server_config") else "http",
            "path": variables.get("node_exporter_web_telemetry_path") or read("web_telemetry_path"),
            "reaches_itself": is_here or bool(address),
        }
        return plain(found)


def _scrape_text(given, tls, folder):
    """Return the text of the scrape configuration."""
    job = {"job_name": given["job"], "scrape_interval": given["interval"], "file_sd_configs": [{"files": [f"{folder}/{TARGETS}"]}]}
    if given["username"]:
        job["basic_auth"] = {"username": given["username"], "password_file": f"{folder}/{PASSWORD}"}
    if tls:
        job["tls_config"] = tls
    use = f"#   scrape_config_files: [{folder}/{SCRAPE}]\n#   rule_files: [{folder}/{RULES}]\n"
    use = f"# Name it in the configuration of Prometheus, and the rules, too:\n#\n{use}"
    return f"{use}---\n{yaml.safe_dump({'scrape_configs': [job]}, sort_keys=False)}"


def _mistakes(given, tls, hosts, users, password):
    """Return what does not match in the variables."""
    found, has_objects, username = [], given["objects"] != "none", given["username"]
    is_used = given["dir"] or has_objects
    if is_used and not hosts:
        remedy = "give an inventory that has the nodes, or name them"
        found.append(f"node_exporter_prometheus_targets is {given['targets']}, and no host matches it: {remedy}")
    if is_used and users and username not in users:
        remedy = "node_exporter_basic_auth_users has no such user: name one of them"
        found.append(f"node_exporter_prometheus_username is {username}, and {remedy}")
    elif given["dir"] and username and not password:
        found.append(f"node_exporter_prometheus_password is empty, and the password of {username} is not known from its hash: set it")
    if has_objects and not given["secret"] and (username or {"ca_file", "cert_file"} & set(tls)):
        needs, keys = ("a password", "username and password") if username else ("certificates", "ca.crt, tls.crt and tls.key")
        found.append(f"node_exporter_prometheus_secret is empty, and Prometheus needs {needs}: name a Secret with the keys {keys}")
    if given["render_to"] and not has_objects:
        found.append("node_exporter_prometheus_render_to is set, and node_exporter_prometheus_objects is none: name the objects")
    return found
