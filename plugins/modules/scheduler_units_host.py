#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_units_host
short_description: Run a second kube-scheduler and its extenders as units of systemd on a host
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - The tasks of the role P(onprem.kube_scheduling.extended_scheduler#role) call it. It takes the variables of the role by itself.
  - Units that do not become ready are rolled back, also after an interruption. The message has the reason.
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing the host.
    support: full
  diff_mode:
    description: Returns details on what has changed or would be changed.
    support: partial
    details:
      - Only units are shown. The other files have the keys of the kubeconfigs.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
options:
  state:
    description:
      - With V(checked), return each reason why the host cannot be used, and what differs from the variables. Change nothing.
      - With V(present), write the programs and files, let the programs check them, start the units, and wait until they are ready. If they
        are not, restore the units that worked last, and fail. V(checked) must precede, and V(accepted) or V(restored) must follow.
      - With V(accepted), forget the earlier units, and remove what the new ones do not need.
      - With V(restored), restore the earlier units, if they are kept.
      - With V(absent), stop and remove the units and all files of the role.
    type: str
    choices: [checked, present, accepted, restored, absent]
    required: true
  host:
    description: The name of the host in the inventory.
    type: str
    required: true
  variables:
    description: The variables of the role without their prefix, and the units. The action sets them.
    type: dict
    default: {}
  files:
    description: The files of each unit, with the keys of the kubeconfigs. The action sets them.
    type: dict
    default: {}
  sources:
    description: The paths of the programs that the action has brought to the host.
    type: dict
    default: {}
requirements:
  - python >= 3.9
seealso:
  - name: Schedulers with profiles of their own
    description: The guide with the shapes of the scheduler.
    link: https://onprem.github.io/kube_scheduling/docs/scheduler-profiles.html
"""

EXAMPLES = r"""
- name: Check the host
  onprem.kube_scheduling.scheduler_units_host:
    state: checked
    host: scheduler-1
  delegate_to: scheduler-1
  register: checked
"""

RETURN = r"""
problems:
  description: The reasons why the host cannot be used. Each is a sentence with the remedy.
  returned: success
  type: list
  elements: str
  sample: ["scheduler-1 has systemd 249, and the units need 252 or later: upgrade the host, or choose another one"]
missing:
  description: What differs from the variables. Each is a sentence with the remedy.
  returned: with O(state=checked)
  type: list
  elements: str
  sample: []
profiles:
  description: The profiles of the scheduler that the host has.
  returned: with O(state=checked)
  type: list
  elements: str
  sample: [network-traffic]
hostname:
  description: The name of the host, with which the holder of the Lease begins.
  returned: with O(state=checked)
  type: str
  sample: scheduler-1
text:
  description: What was restored, with the last lines of the journal. It is empty if no change had begun.
  returned: with O(state=restored)
  type: str
  sample: "scheduler-1: The units that worked last run again"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import run_state
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.scheduler_units import UnitsHost

STATES = ["checked", "present", "accepted", "restored", "absent"]


def argument_spec():
    """Return the options."""
    return {
        "state": {"type": "str", "choices": STATES, "required": True},
        "host": {"type": "str", "required": True},
        "variables": {"type": "dict", "default": {}},
        "files": {"type": "dict", "default": {}, "no_log": True},
        "sources": {"type": "dict", "default": {}},
    }


def main():
    """Run the module."""
    # The certificates of the programs of this host, and of API servers, are not those of the host.
    run_state(AnsibleModule(argument_spec(), supports_check_mode=True), UnitsHost, open_url, validate_certs=False)


if __name__ == "__main__":
    main()
