#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_exporter_host
short_description: Install node_exporter on a host, check it or remove it
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - The tasks of the role P(onprem.kube_scheduling.node_exporter#role) call it. It takes the variables of the role by itself.
  - A version or a configuration that does not answer is rolled back, also after an interruption. The message has the reason.
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing the host.
    support: full
  diff_mode:
    description: Returns details on what has changed or would be changed.
    support: partial
    details:
      - The web configuration is not shown, because it has the hashes of passwords.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
options:
  state:
    description:
      - With V(checked), return each reason why the host cannot be used, and change nothing.
      - With V(written), keep the files that work, and write the new ones. V(present) or V(restored) must follow.
      - With V(present), write the files, install the program of the archive, start the service, and wait until it answers. If it does
        not, restore what the host had, and fail.
      - With V(restored), restore what the host had before V(written), or before an interrupted run, and fail with O(reason).
      - With V(verified), return what is missing. With V(absent), remove node_exporter.
    type: str
    choices: [checked, written, present, restored, verified, absent]
    required: true
  unit:
    description: The text of the unit, or of the drop-in for the unit of the package.
    type: str
    default: ""
  reason:
    description: The reason for which an earlier task has failed.
    type: str
    default: ""
  variables:
    description: The variables of the role without their prefix. The action sets them.
    type: dict
    default: {}
  basic_auth_users:
    description: The password of each user, or its bcrypt hash. The action sets them.
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
- name: Check the host
  onprem.kube_scheduling.node_exporter_host:
    state: checked
  register: checked
"""

RETURN = r"""
problems:
  description: The reasons why the host cannot be used, or what is missing. Each is a sentence with the remedy. With one, the task fails.
  returned: with O(state=checked) and O(state=verified)
  type: list
  elements: str
  sample: ["node-3: the tasks run as admin, and the role needs root: run the playbook with -b (--become), or set ansible_become: true"]
program:
  description: The path of the program, and C(arguments), which are quoted for the unit.
  returned: with O(state=checked)
  type: dict
  sample: {path: /usr/local/bin/node_exporter, arguments: ['"--web.listen-address=0.0.0.0:9100"']}
is_installed:
  description: Whether the package or the program of the archive is installed in the wanted version.
  returned: with O(state=checked)
  type: bool
  sample: true
result:
  description: The fact C(node_exporter_result) of the role.
  returned: with O(state=present)
  type: dict
  sample: {method: archive, version: 1.11.1, unit: node_exporter.service, addresses: ["10.0.0.7:9100"], scheme: https, auth: true}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import HostError, ask, program_runner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.host import Host
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.installation import Installation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.problems import host_problems, missing
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.wanted import Wanted

STATES = ["checked", "written", "present", "restored", "verified", "absent"]


def argument_spec():
    """Return the options."""
    return {
        "state": {"type": "str", "choices": STATES, "required": True},
        "unit": {"type": "str", "default": ""},
        "reason": {"type": "str", "default": ""},
        "variables": {"type": "dict", "default": {}},
        "basic_auth_users": {"type": "dict", "default": {}, "no_log": True},
    }


def checked(host):
    """Return the reasons why the host cannot be used, and what the unit needs."""
    path = host.wanted.installed_program if host.wanted.method == "archive" else "/usr/bin/prometheus-node-exporter"
    program = {"path": path, "arguments": host.wanted.arguments(host.addresses)}
    return {"changed": False, "problems": host_problems(host), "program": program, "is_installed": host.is_installed()}


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec(), supports_check_mode=True)
    os.umask(0o022)
    state = module.params["state"]
    wanted = Wanted(**module.params["variables"], basic_auth_users=module.params["basic_auth_users"])
    host = Host(wanted, program_runner(module))

    def request():
        # The certificate has the names of the host, not its loopback address. The connection does not leave the host. A redirect would send
        # the password to another one.
        login = {"url_username": wanted.known_user, "url_password": wanted.known_password, "force_basic_auth": True}
        options = {"validate_certs": False, "follow_redirects": "none", "use_proxy": False, **(login if wanted.known_user else {})}
        return ask(open_url, wanted.url(host.addresses), **options)

    try:
        if state == "checked":
            module.exit_json(**checked(host))
        if state == "verified":
            module.exit_json(changed=False, problems=missing(host, wanted.url(host.addresses), request()))
        run = Installation(host, request, dry=module.check_mode)
        if state == "restored":
            raise HostError(run.restore(module.params["reason"]))
        if state == "absent":
            run.absent()
        elif state == "written":
            run.write(module.params["unit"])
        else:
            run.present(module.params["unit"])
        result = run.result() if state == "present" else {}
        module.exit_json(changed=run.changes.changed, diff=run.changes.diffs, result=result)
    except (HostError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
