# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Collect the targets from the variables of the scraped hosts, and give the files of Prometheus to the module on its host."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.onprem.kube_scheduling.plugins.filter.without_logins import without_logins
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus.folder import PASSWORD, RULES, SCRAPE, TARGETS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus.targets import HOST, target_of, target_problems
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.node_exporter_role import passwords, text, variable
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.plain_values import plain

NAMES = (
    "dir",
    "user",
    "service",
    "promtool",
    "url",
    "job",
    "interval",
    "username",
    "password",
    "objects",
    "secret",
    "render_to",
    "targets",
)
MARK = "# Written by the role onprem.kube_scheduling.node_exporter. The next run replaces this file.\n"
READ = ("node_exporter_result", "node_exporter_scrape_address", "node_exporter_kube_node_name", "kube_override_hostname", "ansible_facts")
READ += ("node_exporter_tls_server_config", "node_exporter_web_telemetry_path", "node_exporter_basic_auth_users", "ansible_connection")


class ActionModule(ActionBase):
    """The action of node_exporter_prometheus."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module, with what was found on the controller."""
        result = super().run(tmp, task_vars)
        given, state = self._given(task_vars), self._task.args["state"]
        hosts = {name: {key: task_vars["hostvars"][name].get(key) for key in READ} for name in self._task.args.get("hosts") or []}
        users = {user: word for variables in hosts.values() for user, word in (variables["node_exporter_basic_auth_users"] or {}).items()}
        users = {str(user): str(word) for user, word in users.items()} | passwords(self._templar, task_vars)
        username = given["username"] or next(iter(users), "")
        known = users.get(username, "")
        password = given["password"] or ("" if known.startswith("$2") else known)
        given["owner"] = given["user"] if username else ""
        checked = self._call(task_vars, state="checked", variables=given)
        if checked.get("failed") or state == "absent":
            return result | (checked if checked.get("failed") else self._call(task_vars, state=state, variables=given))
        kept = yaml.safe_load(checked["present_targets"] or "") or []
        if state == "verified":
            return result | {"changed": False, "problems": self._missing(task_vars, given, list(hosts), checked["present_targets"], kept)}
        mistakes = _mistakes(given, hosts, users, username, password) if variable(self._templar, task_vars, "state") == "present" else []
        if state == "checked":
            return result | {"changed": False, "problems": mistakes + checked["problems"]}
        path = text(variable(self._templar, task_vars, "web_telemetry_path"))
        collected = plain([target_of(name, variables, kept, default_path=path) for name, variables in hosts.items()])
        targets = [one for one in collected if one["targets"]]
        problems = mistakes + target_problems(targets, self._same_machine(task_vars, given, hosts), _own_addresses(hosts))
        without = [one["labels"][HOST] for one in collected if not one["targets"]]
        unknown = (
            f"The address of node_exporter is not known for {', '.join(without)}, so Prometheus does not scrape it: run the role on these "
            "hosts in the same run, or set node_exporter_scrape_address of each host"
        )
        if without and given["objects"] != "none":
            problems.append(unknown)
        if problems:
            return result | {"failed": True, "msg": "\n".join(problems)}
        if without:
            self._display.warning(unknown)
        if given["folder"]:
            texts = self._texts(given, username, targets)
            result |= self._call(task_vars, state=state, variables=given, texts=texts, password=password if username else None)
        return {"changed": False} | result | {"targets": targets, "username": username}

    def _call(self, task_vars, **arguments):
        return self._execute_module(module_args=arguments, task_vars=task_vars)

    def _given(self, task_vars):
        found = {name: text(variable(self._templar, task_vars, f"prometheus_{name}")) for name in NAMES}
        found["folder"] = str(Path(found["dir"]).expanduser().resolve()) if found["dir"] else ""
        found["tls_config"] = variable(self._templar, task_vars, "prometheus_tls_config") or {}
        return found | {"host": task_vars["inventory_hostname"]}

    def _same_machine(self, task_vars, given, hosts):
        """Return the hosts that are the machine of Prometheus. One of the operator is in a pod."""
        if given["objects"] != "none":
            return []
        local = [name for name, variables in hosts.items() if variables["ansible_connection"] == "local"]
        is_local = self._templar.template(task_vars.get("ansible_connection")) == "local"
        return [given["host"], *(local if is_local else [])]

    def _texts(self, given, username, targets):
        """Return the text of each file."""
        folder = given["folder"]
        job = {"job_name": given["job"], "scrape_interval": given["interval"], "file_sd_configs": [{"files": [f"{folder}/{TARGETS}"]}]}
        if username:
            job["basic_auth"] = {"username": username, "password_file": f"{folder}/{PASSWORD}"}
        if given["tls_config"]:
            job["tls_config"] = given["tls_config"]
        use = (
            "# Name it in the configuration of Prometheus, and the rules, too:\n#\n"
            f"#   scrape_config_files: [{folder}/{SCRAPE}]\n#   rule_files: [{folder}/{RULES}]\n"
        )
        return {
            TARGETS: f"{MARK}---\n{json.dumps(targets, indent=2)}\n",
            SCRAPE: f"{MARK}{use}---\n{yaml.safe_dump({'scrape_configs': [job]}, sort_keys=False)}",
            RULES: f"{MARK}{self._task.args['rules']}",
        }

    def _missing(self, task_vars, given, hosts, text_of_targets, kept):
        """Return what is missing of the files, and what Prometheus does not scrape."""
        advice = "run the playbook onprem.kube_scheduling.site"
        problems = []
        if given["folder"] and text_of_targets is None:
            problems.append(f"{given['host']} has no targets of node_exporter for Prometheus: {advice}")
        elif given["folder"]:
            known = {one["labels"].get(HOST) for one in kept}
            problems += [f"{host} is not a target of Prometheus on {given['host']}: {advice}" for host in hosts if host not in known]
        if given["url"]:
            url = urlsplit(given["url"])
            login = {"user": unquote(url.username or ""), "password": unquote(url.password or "")} if "@" in url.netloc else {}
            given["url"] = without_logins(given["url"])
            found = self._call(task_vars, state="verified", variables=given, login=login, targets=kept)
            problems += found["problems"] if "problems" in found else [f"{given['host']}: {found.get('msg')}"]
        return [without_logins(problem) for problem in problems]


def _own_addresses(hosts):
    return [name for name, variables in hosts.items() if variables["node_exporter_scrape_address"]]


def _mistakes(given, hosts, users, username, password):
    """Return what does not match in the variables."""
    found = []
    has_objects = given["objects"] != "none"
    if (given["dir"] or has_objects) and not hosts:
        found.append(
            f"node_exporter_prometheus_targets is {given['targets']}, and no host matches it: give an inventory that has the nodes, or "
            "name them"
        )
    if (given["dir"] or has_objects) and users and username not in users:
        found.append(
            f"node_exporter_prometheus_username is {username}, and node_exporter_basic_auth_users has no such user: name one of them"
        )
    elif given["dir"] and username and not password:
        found.append(f"node_exporter_prometheus_password is empty, and the password of {username} is not known from its hash: set it")
    with_files = {"ca_file", "cert_file"} & set(given["tls_config"])
    if has_objects and not given["secret"] and (username or with_files):
        needs = ("a password", "username and password") if username else ("certificates", "ca.crt, tls.crt and tls.key")
        found.append(f"node_exporter_prometheus_secret is empty, and Prometheus needs {needs[0]}: name a Secret with the keys {needs[1]}")
    if given["render_to"] and not has_objects:
        found.append("node_exporter_prometheus_render_to is set, and node_exporter_prometheus_objects is none: name the objects")
    return found
