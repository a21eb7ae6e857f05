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

import os
from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import HostError, ask, program_runner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.prometheus import Prometheus


def argument_spec():
    """Return the options."""
    return {
        "state": {"type": "str", "choices": ["checked", "present", "absent", "verified"], "required": True},
        "variables": {"type": "dict", "default": {}},
        "secrets": {"type": "dict", "default": {}, "no_log": True},
    }


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec(), supports_check_mode=True)
    os.umask(0o022)
    state, given, secrets = (module.params[name] for name in ("state", "variables", "secrets"))
    changes, problems, targets = Changes(module.check_mode), [], []
    prometheus = Prometheus(given, program_runner(module), changes)
    try:
        if state == "verified":
            problems = prometheus.missing(partial(ask, open_url), {name: word for name, word in secrets.items() if name != "password"})
        elif state == "present":
            targets, problems = prometheus.targets(module.warn)
            problems = given["problems"] + problems
            if given["folder"] and not problems:
                prometheus.write(targets, secrets["password"])
        elif state == "checked":
            problems = given["problems"] + (prometheus.problems() if given["folder"] else [])
        elif given["folder"]:
            prometheus.remove()
    except (HostError, OSError) as error:
        problems = [str(error)]
    if problems:
        module.fail_json(msg="\n".join(problems))
    module.exit_json(changed=changes.changed, diff=changes.diffs, targets=targets, username=given["username"])


if __name__ == "__main__":
    main()
