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
      - With V(checked), return each reason why the configuration cannot be written, and change nothing.
      - With V(present), write it. With V(absent), remove it. With V(verified), return what Prometheus does not scrape.
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
    description: The variables of the role, without their prefix C(node_exporter_prometheus_). The action sets them.
    type: dict
    default: {}
  texts:
    description: The text of each file. The action sets them.
    type: dict
    default: {}
  password:
    description: The password with which Prometheus scrapes. The action sets it.
    type: str
  login:
    description: The C(user) and the C(password) in the URL of Prometheus. The action sets them.
    type: dict
    default: {}
  targets:
    description: The targets in the present file. The action sets them.
    type: list
    elements: dict
    default: []
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
  register: checked
"""

RETURN = r"""
problems:
  description: The reasons why the configuration cannot be written, or what is missing. Each is a sentence with the remedy.
  returned: with O(state=checked) and O(state=verified)
  type: list
  elements: str
  sample: ["node-3 is not a target of Prometheus on monitoring: run the playbook onprem.kube_scheduling.site"]
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
present_targets:
  description: The text of the present file with the targets.
  returned: with O(state=checked)
  type: str
  sample: "# Written by the role …"
"""

import json
import os
from pathlib import Path
from urllib.parse import quote

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import read_text
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import HostError, ask, program_runner, wait_until
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus.folder import SCRAPE, TARGETS, PrometheusFolder
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus.targets import is_scraped, missing_targets


def argument_spec():
    """Return the options."""
    return {
        "state": {"type": "str", "choices": ["checked", "present", "absent", "verified"], "required": True},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "rules": {"type": "str", "default": ""},
        "variables": {"type": "dict", "default": {}},
        "texts": {"type": "dict", "default": {}},
        "password": {"type": "str", "no_log": True},
        "login": {"type": "dict", "default": {}, "no_log": True},
        "targets": {"type": "list", "elements": "dict", "default": []},
    }


def verified(options, login, targets):
    """Return what Prometheus does not scrape. One that was reloaded scrapes each target within one interval."""
    url = f"{options['url']}/api/v1/targets?state=active&scrapePool={quote(options['job'])}"
    # A redirect would send the password to the other host, too.
    more = {"url_username": login["user"], "url_password": login["password"], "force_basic_auth": True} if login else {}

    def look():
        answer = ask(open_url, url, follow_redirects="none" if login else "safe", **more)
        try:
            return json.loads(answer.text)["data"]["activeTargets"], str(answer)
        except (ValueError, KeyError, TypeError):
            return None, str(answer)

    active, error = wait_until(look, lambda found: is_scraped(found[0], targets), tries=11, delay_s=3)
    return missing_targets(options["url"], f"{options['folder']}/{SCRAPE}", targets, active, error)


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec(), supports_check_mode=True)
    os.umask(0o022)
    state, options = module.params["state"], module.params["variables"]
    folder = PrometheusFolder(
        options["folder"], program_runner(module), module.check_mode, service=options["service"], promtool=options["promtool"]
    )
    try:
        if state == "checked":
            problems = folder.problems(options["host"], options["dir"], options["owner"]) if options["folder"] else []
            file = Path(options["folder"], TARGETS)
            text = read_text(str(file)) if options["folder"] and file.is_file() else None
            module.exit_json(changed=False, problems=problems, present_targets=text)
        if state == "verified":
            module.exit_json(changed=False, problems=verified(options, module.params["login"], module.params["targets"]))
        if state == "absent":
            folder.remove()
        else:
            folder.write(module.params["texts"], module.params["password"], options["owner"])
        module.exit_json(changed=folder.changed, diff=folder.diffs)
    except (HostError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
