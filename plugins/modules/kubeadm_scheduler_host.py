#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_scheduler_host
short_description: Change kube-scheduler on a control-plane host that kubeadm has made
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - The tasks of the role P(onprem.kube_scheduling.extended_scheduler#role) call it, with the plan of the filter
    P(onprem.kube_scheduling.kubeadm_schedulers#filter).
  - A scheduler that does not become healthy gets its earlier manifest again, also after an interruption. The message has the reason.
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing the host.
    support: full
  diff_mode:
    description: Returns details on what has changed or would be changed.
    support: full
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
options:
  state:
    description:
      - With V(read), return the texts of the host.
      - With V(checked), let the running kube-scheduler check the configuration of the plan.
      - With V(present), write the files of the plan, and wait until the scheduler is healthy. If it is not, restore the earlier manifest,
        and fail. V(kept) or V(restored) must follow.
      - With V(kept), forget the earlier manifest. With V(restored), restore it and fail with O(reason).
      - With V(tidied), remove the configurations that no manifest names.
      - With V(extender), call M(onprem.kube_scheduling.static_pod_host) with the options O(extender).
    type: str
    choices: [read, checked, present, kept, restored, tidied, extender]
    required: true
  host:
    description: The name of the host in the inventory, for messages.
    type: str
    required: true
  manifest_path:
    description: The path of the manifest of kube-scheduler.
    type: path
    required: true
  folder:
    description: The folder of the role.
    type: path
    required: true
  plan:
    description: The plan for the host.
    type: dict
    default: {}
  ports:
    description: The ports of the extenders, for O(state=read). They are free, or the host has the extenders already.
    type: list
    elements: str
    default: []
  names:
    description: The names of hosts that the extenders ask, for O(state=read).
    type: list
    elements: str
    default: []
  extender_manifest_path:
    description: The path of the manifest of the extenders.
    type: path
  extender:
    description: The options of M(onprem.kube_scheduling.static_pod_host) for the static pod with the extenders.
    type: dict
    default: {}
  reason:
    description: The reason for which an earlier task has failed.
    type: str
    default: ""
  timeout:
    description: The seconds in which the scheduler must become healthy.
    type: int
    default: 180
requirements:
  - python >= 3.9
seealso:
  - name: Scheduler profiles
    description: The guide with the steps of a change.
    link: https://onprem.github.io/kube_scheduling/docs/scheduler-profiles.html
"""

EXAMPLES = r"""
- name: Read the host
  onprem.kube_scheduling.kubeadm_scheduler_host:
    state: read
    host: "{{ inventory_hostname }}"
    manifest_path: /etc/kubernetes/manifests/kube-scheduler.yaml
    folder: /etc/kubernetes/extended-scheduler
  register: read
"""

RETURN = r"""
problems:
  description: The reasons why the host cannot be changed. Each is a sentence with the remedy.
  returned: success
  type: list
  elements: str
  sample: ["cp-2 cannot be reached: repair it, or if it does not return, remove its Node and remove it from the inventory"]
manifest:
  description: >-
    The manifest in use. C(original), C(previous), C(config) and C(others) have the other texts, and C(node) is the name of the Node.
  returned: with O(state=read)
  type: str
  sample: "apiVersion: v1…"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import run_state
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.kubeadm_scheduler import KubeScheduler

STATES = ["read", "checked", "present", "kept", "restored", "tidied", "extender"]


def argument_spec():
    """Return the options."""
    return {
        "state": {"type": "str", "choices": STATES, "required": True},
        "host": {"type": "str", "required": True},
        "manifest_path": {"type": "path", "required": True},
        "folder": {"type": "path", "required": True},
        "plan": {"type": "dict", "default": {}},
        **{name: {"type": "list", "elements": "str", "default": []} for name in ("ports", "names")},
        "extender_manifest_path": {"type": "path"},
        "extender": {"type": "dict", "default": {}},
        "reason": {"type": "str", "default": ""},
        "timeout": {"type": "int", "default": 180},
    }


def main():
    """Run the module."""
    # The certificate of a scheduler is self-signed.
    run_state(AnsibleModule(argument_spec(), supports_check_mode=True), KubeScheduler, open_url, validate_certs=False)


if __name__ == "__main__":
    main()
