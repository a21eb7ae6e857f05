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
    description: The variables of the role and the texts of the files. The action sets them.
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
  register: checked
"""

RETURN = r"""
problems:
  description: The reasons why the configuration cannot be written, or what is missing. With one, the task fails.
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
from urllib.parse import quote

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes, read_text
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
        "secrets": {"type": "dict", "default": {}, "no_log": True},
    }


def verified(given, login):
    """Return what Prometheus does not scrape. One that was reloaded scrapes each target within one interval."""
    url = f"{given['url']}/api/v1/targets?state=active&scrapePool={quote(given['job'])}"

    def look():
        # A redirect would send the password to the other host, too.
        answer = ask(open_url, url, follow_redirects="none" if login else "safe", force_basic_auth=bool(login), **login)
        try:
            return json.loads(answer.text)["data"]["activeTargets"], answer
        except (ValueError, KeyError, TypeError):
            return None, answer

    active, answer = wait_until(look, lambda found: is_scraped(found[0], given["kept"]), tries=11, delay_s=3)
    name = f"Prometheus {given['url']}"
    if active is None:
        return [f"{name} does not answer: {answer}"]
    return missing_targets(name, f"{given['folder']}/{SCRAPE}", given["kept"], active)


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec(), supports_check_mode=True)
    os.umask(0o022)
    state, given, secrets = (module.params[name] for name in ("state", "variables", "secrets"))
    changes = Changes(module.check_mode)
    folder = PrometheusFolder(given["folder"], program_runner(module), changes, given["service"], given["promtool"])
    problems, present_targets = [], ""
    try:
        if state == "checked" and given["folder"]:
            problems, present_targets = folder.problems(given["host"], given["owner"]), read_text(f"{given['folder']}/{TARGETS}")
        elif state == "verified":
            problems = verified(given, secrets)
        elif state == "present":
            folder.write(given["texts"], secrets["password"], given["owner"])
        elif state == "absent":
            folder.remove()
        module.exit_json(changed=changes.changed, diff=changes.diffs, problems=problems, present_targets=present_targets)
    except (HostError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
