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
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.wanted import HASH
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus.folder import PASSWORD, RULES, SCRAPE, TARGETS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus.targets import (
    HOST,
    object_problems,
    target_of,
    target_problems,
)
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.node_exporter_role import passwords, text
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import RoleVariables, plain

NAMES = ("dir", "user", "service", "promtool", "url", "job", "interval", "username", "objects", "secret", "render_to", "targets")
READ = (
    *("node_exporter_result", "node_exporter_scrape_address", "node_exporter_kube_node_name", "kube_override_hostname", "ansible_facts"),
    *("node_exporter_tls_server_config", "node_exporter_web_telemetry_path", "node_exporter_basic_auth_users", "ansible_connection"),
)
"""The variables of scraped hosts."""
MARK = "# Written by the role onprem.kube_scheduling.node_exporter. The next run replaces this file.\n"
ADVICE = "run the playbook onprem.kube_scheduling.site"


class ActionModule(ActionBase):
    """The action of node_exporter_prometheus."""

    def run(self, tmp=None, task_vars=None):
        """Return the result of the module, with what was found on the controller."""
        result, state = super().run(tmp, task_vars), self._task.args["state"]
        self._variables = RoleVariables("node_exporter", self._templar, task_vars)
        hosts = {name: task_vars["hostvars"][name] for name in self._task.args.get("hosts") or []}
        hosts = {name: {key: variables.get(key) for key in READ} for name, variables in hosts.items()}
        given, users = self._given(task_vars, hosts)
        username, known = given["username"], users.get(given["username"], "")
        password = self._read("password") or ("" if HASH.match(known) else known)
        answer = self._call(task_vars, given, "absent" if state == "absent" else "checked")
        if answer.get("failed") or state == "absent":
            return result | answer
        given["kept"] = yaml.safe_load(answer["present_targets"]) or []
        if state == "verified":
            return result | _outcome(self._missing(task_vars, given, hosts, bool(answer["present_targets"])))
        mistakes = _mistakes(given, hosts, users, password) if self._read("state", "") == "present" else []
        if state == "checked":
            return result | _outcome(mistakes + answer["problems"])
        path = self._read("web_telemetry_path", "")
        collected = plain([target_of(name, variables, given["kept"], path) for name, variables in hosts.items()])
        targets = [one for one in collected if one["targets"]]
        problems = mistakes + target_problems(targets, self._reaching(task_vars, given, hosts))
        without = ", ".join(one["labels"][HOST] for one in collected if not one["targets"])
        unknown = (
            f"The address of node_exporter is not known for {without}, so Prometheus does not scrape it: run the role on these hosts in "
            "the same run, or set node_exporter_scrape_address of each host"
        )
        if given["objects"] != "none":
            problems += object_problems(targets, given["objects"]) + ([unknown] if without else [])
        if problems:
            return result | _outcome(problems)
        if without:
            self._display.warning(unknown)
        if given["folder"]:
            given["texts"] = self._texts(given, targets)
            result |= self._call(task_vars, given, state, password=password if username else "")
        return {"changed": False} | result | {"targets": targets, "username": username}

    def _call(self, task_vars, given, state, **secrets):
        return self._execute_module(module_args={"state": state, "variables": given, "secrets": secrets}, task_vars=task_vars)

    def _read(self, name, prefix="prometheus_"):
        return text(self._variables(prefix + name))

    def _given(self, task_vars, hosts):
        """Return the variables for Prometheus, and the password of each user of the scraped hosts."""
        of_hosts = [variables["node_exporter_basic_auth_users"] or {} for variables in hosts.values()]
        users = {str(user): str(word) for one in of_hosts for user, word in one.items()} | passwords(self._variables)
        given = {name: self._read(name) for name in NAMES}
        username = given["username"] or next(iter(users), "")
        folder = str(Path(given["dir"]).expanduser().resolve()) if given["dir"] else ""
        owner = given["user"] if username else ""
        tls = self._variables("prometheus_tls_config")
        return given | {"host": task_vars["inventory_hostname"], "folder": folder, "owner": owner, "username": username, "tls": tls}, users

    def _reaching(self, task_vars, given, hosts):
        """Return the hosts whose loopback address Prometheus reaches, and those whose address the user has given.

        A host is the machine of Prometheus if both have no connection. A Prometheus of the operator is in a pod.
        """
        found = {name for name, variables in hosts.items() if variables["node_exporter_scrape_address"]}
        if given["objects"] == "none":
            found.add(given["host"])
            if self._templar.template(task_vars.get("ansible_connection")) == "local":
                found |= {name for name, variables in hosts.items() if variables["ansible_connection"] == "local"}
        return found

    def _texts(self, given, targets):
        """Return the text of each file."""
        folder = given["folder"]
        job = {"job_name": given["job"], "scrape_interval": given["interval"], "file_sd_configs": [{"files": [f"{folder}/{TARGETS}"]}]}
        if given["username"]:
            job["basic_auth"] = {"username": given["username"], "password_file": f"{folder}/{PASSWORD}"}
        if given["tls"]:
            job["tls_config"] = given["tls"]
        use = f"#   scrape_config_files: [{folder}/{SCRAPE}]\n#   rule_files: [{folder}/{RULES}]\n"
        use = f"# Name it in the configuration of Prometheus, and the rules, too:\n#\n{use}"
        return {
            TARGETS: f"{MARK}---\n{json.dumps(targets, indent=2)}\n",
            SCRAPE: f"{MARK}{use}---\n{yaml.safe_dump({'scrape_configs': [job]}, sort_keys=False)}",
            RULES: f"{MARK}{self._task.args['rules']}",
        }

    def _missing(self, task_vars, given, hosts, has_targets):
        """Return what is missing of the files, and what Prometheus does not scrape."""
        problems, name = [], given["host"]
        if given["folder"] and not has_targets:
            problems.append(f"{name} has no targets of node_exporter for Prometheus: {ADVICE}")
        elif given["folder"]:
            known = {one["labels"].get(HOST) for one in given["kept"]}
            problems += [f"{host} is not a target of Prometheus on {name}: {ADVICE}" for host in hosts if host not in known]
        if given["url"]:
            url = urlsplit(given["url"])
            login = {"url_username": unquote(url.username or ""), "url_password": unquote(url.password or "")} if url.username else {}
            found = self._call(task_vars, given | {"url": without_logins(given["url"])}, "verified", **login)
            problems += found.get("problems") or ([f"{name}: {found['msg']}"] if found.get("failed") else [])
        return [without_logins(problem) for problem in problems]


def _outcome(problems):
    return {"changed": False, "failed": bool(problems), "msg": "\n".join(problems)}


def _mistakes(given, hosts, users, password):
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
    if has_objects and not given["secret"] and (username or {"ca_file", "cert_file"} & set(given["tls"])):
        needs, keys = ("a password", "username and password") if username else ("certificates", "ca.crt, tls.crt and tls.key")
        found.append(f"node_exporter_prometheus_secret is empty, and Prometheus needs {needs}: name a Secret with the keys {keys}")
    if given["render_to"] and not has_objects:
        found.append("node_exporter_prometheus_render_to is set, and node_exporter_prometheus_objects is none: name the objects")
    return found
