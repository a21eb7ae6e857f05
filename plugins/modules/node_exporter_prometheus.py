#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_exporter_prometheus
short_description: Write the configuration of a Prometheus for node_exporters, check it or remove it
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - The tasks of the role P(onprem.kube_scheduling.node_exporter#role) call it on the host of Prometheus. It takes the variables of the
    role, and of the scraped hosts, by itself.
  - promtool checks the files before they are replaced. Prometheus is reloaded if it has not loaded them. If it refuses them, the earlier
    files are restored.
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing the host.
    support: full
    details:
      - promtool and the reload do not run in check mode.
  diff_mode:
    description: Returns details on what has changed or would be changed.
    support: partial
    details:
      - The file with the password is not shown.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
options:
  state:
    description:
      - With V(checked), fail with each reason why the configuration cannot be written, and change nothing.
      - With V(present), write it. With V(absent), remove it. With V(verified), fail with what Prometheus does not scrape.
    type: str
    choices: [checked, present, absent, verified]
    required: true
  hosts:
    description: The names of the scraped hosts in the inventory.
    type: list
    elements: str
    default: []
  rules:
    description: The text of the recording rules.
    type: str
    default: ""
  variables:
    description: The variables of the role and of the scraped hosts, and the texts of the files. The action sets them.
    type: dict
    default: {}
  secrets:
    description: The password with which Prometheus scrapes, and the login in its URL. The action sets them.
    type: dict
    default: {}
requirements:
  - python >= 3.9
seealso:
  - name: node_exporter
    description: The guide with a whole installation, Prometheus and the extender.
    link: https://onprem.github.io/kube_scheduling/docs/node-exporter.html
"""

EXAMPLES = r"""
- name: Check the host of Prometheus
  onprem.kube_scheduling.node_exporter_prometheus:
    state: checked
    hosts: "{{ groups['kube_node'] }}"
"""

RETURN = r"""
targets:
  description: The target of each scraped host, as in a file of file_sd.
  returned: with O(state=present)
  type: list
  elements: dict
  sample: [{targets: ["10.0.0.7:9100"], labels: {instance: node-3, node: node-3}}]
username:
  description: The user as whom Prometheus scrapes.
  returned: with O(state=present)
  type: str
  sample: prometheus
"""

import json
import os
from urllib.parse import quote

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import HostError, ask, program_runner, wait_until
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus import (
    HOST,
    SCRAPE,
    PrometheusFolder,
    is_scraped,
    missing_targets,
    object_problems,
    target_of,
    target_problems,
)


def argument_spec():
    """Return the options."""
    return {
        "state": {"type": "str", "choices": ["checked", "present", "absent", "verified"], "required": True},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "rules": {"type": "str", "default": ""},
        "variables": {"type": "dict", "default": {}},
        "secrets": {"type": "dict", "default": {}, "no_log": True},
    }


def missing(given, kept, login):
    """Return what is missing in the files, and what Prometheus does not scrape. One that was reloaded scrapes all within one interval."""
    host, advice, found = given["host"], "run the playbook onprem.kube_scheduling.site", []
    if given["folder"]:
        known = [one["labels"].get(HOST) for one in kept]
        found = [f"{name} is not a target of Prometheus on {host}: {advice}" for name in given["hosts"] if name not in known]
        found = found if kept else [f"{host} has no targets of node_exporter for Prometheus: {advice}"]
    if not given["url"]:
        return found
    name, url = f"Prometheus {given['url']}", f"{given['url']}/api/v1/targets?state=active&scrapePool={quote(given['job'])}"

    def look():
        # A redirect would send the password to the other host, too.
        answer = ask(open_url, url, follow_redirects="none" if login else "safe", force_basic_auth=bool(login), **login)
        try:
            return json.loads(answer.text)["data"]["activeTargets"], answer
        except (ValueError, KeyError, TypeError):
            return None, answer

    active, answer = wait_until(look, lambda latest: is_scraped(latest[0], kept), tries=11, delay_s=3)
    if active is None:
        return [*found, f"{name} does not answer: {answer}"]
    return found + missing_targets(name, f"{given['folder']}/{SCRAPE}", kept, active)


def targets_of(module, hosts, kept, objects):
    """Return the targets of the hosts, and the reasons for which they cannot be used."""
    found = [target_of(name, variables, kept) for name, variables in hosts.items()]
    targets, without = [one for one in found if one["targets"]], [one["labels"][HOST] for one in found if not one["targets"]]
    problems = target_problems(targets, [name for name, variables in hosts.items() if variables["reaches_itself"]])
    unknown = (
        f"The address of node_exporter is not known for {', '.join(without)}, so Prometheus does not scrape it: run the role on these "
        "hosts in the same run, or set node_exporter_scrape_address of each host"
    )
    if objects != "none":
        problems += object_problems(targets, objects) + ([unknown] if without else [])
    elif without:
        module.warn(unknown)
    return targets, problems


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec(), supports_check_mode=True)
    os.umask(0o022)
    state, given, secrets = (module.params[name] for name in ("state", "variables", "secrets"))
    changes, problems, targets = Changes(module.check_mode), [], []
    folder = PrometheusFolder(given, program_runner(module), changes)
    kept = folder.kept() if given["folder"] else []
    try:
        if state == "verified":
            problems = missing(given, kept, {name: value for name, value in secrets.items() if name != "password"})
        elif state == "checked":
            problems = given["problems"] + (folder.problems() if given["folder"] else [])
        elif state == "present":
            targets, problems = targets_of(module, given["hosts"], kept, given["objects"])
            problems = given["problems"] + problems
            if given["folder"] and not problems:
                folder.write(targets, secrets["password"])
        elif given["folder"]:
            folder.remove()
    except (HostError, OSError) as error:
        problems = [str(error)]
    if problems:
        module.fail_json(msg="\n".join(problems))
    module.exit_json(changed=changes.changed, diff=changes.diffs, targets=targets, username=given["username"])


if __name__ == "__main__":
    main()
