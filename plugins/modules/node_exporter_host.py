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
      - With V(checked), fail with each reason why the host cannot be used, and change nothing.
      - With V(present), write the files, install the package or the program of the archive, start the service, and wait until it
        answers. If it does not, restore what the host had, and fail.
      - With V(verified), fail with what is missing. With V(absent), remove node_exporter.
    type: str
    choices: [checked, present, verified, absent]
    required: true
  unit:
    description: The text of the unit, or of the drop-in for the unit of the package, without its command.
    type: str
    default: ""
  problems:
    description: The reasons that the controller has found. The action sets them.
    type: list
    elements: str
    default: []
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


def argument_spec():
    """Return the options."""
    return {
        "state": {"type": "str", "choices": ["checked", "present", "verified", "absent"], "required": True},
        "unit": {"type": "str", "default": ""},
        "problems": {"type": "list", "elements": "str", "default": []},
        "variables": {"type": "dict", "default": {}},
        "basic_auth_users": {"type": "dict", "default": {}, "no_log": True},
    }


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec(), supports_check_mode=True)
    os.umask(0o022)
    state, users = module.params["state"], module.params["basic_auth_users"]
    host = Host(program_runner(module), **module.params["variables"], basic_auth_users=users)

    def request():
        # The certificate has the names of the host, not its loopback address. The connection does not leave the host. A redirect would send
        # the password to another one.
        user = host.known_user
        login = {"url_username": user, "url_password": users[user], "force_basic_auth": True} if user else {}
        return ask(open_url, host.url, validate_certs=False, follow_redirects="none", use_proxy=False, **login)

    run, problems, found = Installation(host, request, dry=module.check_mode), [], {}
    try:
        if state == "checked":
            problems = [host.name + text for text in host.problems()] + module.params["problems"]
            found = {"is_installed": host.is_installed()}
        elif state == "verified":
            problems = host.missing(request())
        elif state == "absent":
            run.absent()
        else:
            run.present(module.params["unit"])
            found = {"result": run.result()}
    except (HostError, OSError) as error:
        problems = [str(error)]
    if problems:
        module.fail_json(msg="\n".join(problems))
    module.exit_json(changed=run.changes.changed, diff=run.changes.diffs, **found)


if __name__ == "__main__":
    main()
