#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_probe
short_description: Try whether a scheduler binds a pod of each profile
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - Creates a pod for each profile, one after the other, waits until the scheduler has bound it, and deletes it. Fails if a pod has no node,
    or if its Event names another scheduler. The role P(onprem.kube_scheduling.extended_scheduler#role) calls it.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  check_mode:
    details:
      - No pod is created. With O(state=checked), the API server checks a pod, as without check mode.
  diff_mode:
    support: N/A
    details:
      - Each pod is deleted again.
options:
  state:
    description:
      - With V(bound) each profile must bind a pod.
      - With V(checked) nothing is created. Fails if the API server would refuse the pod of the first profile.
    type: str
    choices: [bound, checked]
    default: bound
  pod:
    description: The pod, without its name and its C(schedulerName).
    type: dict
    required: true
  profiles:
    description: The names of the profiles.
    type: list
    elements: str
    required: true
  lease:
    description: The namespace and the name of the Lease of the scheduler. Before the first pod is created, a scheduler must hold it.
    type: dict
    default: {}
  log_command:
    description: The command that shows the log of the scheduler, for errors.
    type: str
    default: ""
  wait_timeout:
    description: The longest time in seconds until a pod has a node. With 0 no pod is created.
    type: int
    default: 180
notes:
  - Needs the verbs get, create and delete on pods and the verb list on events in the namespace of the pod.
seealso:
  - name: Scheduler profiles
    description: The guide with the steps of an installation.
    link: https://onprem.github.io/kube_scheduling/docs/scheduler-profiles.html
"""

EXAMPLES = r"""
- name: Try a profile
  onprem.kube_scheduling.scheduler_probe:
    pod: "{{ lookup('ansible.builtin.file', 'pod.yaml') | from_yaml }}"
    profiles: [network-traffic]
    wait_timeout: 60
"""

RETURN = r"""
cluster:
  description: The cluster of the connection.
  returned: if the settings of the connection can be read
  type: dict
  contains:
    name:
      description: Its name in the kubeconfig. Without a kubeconfig, the URL of the API server.
      type: str
    context:
      description: The context of the kubeconfig. Without a kubeconfig it is empty.
      type: str
    server:
      description: The URL of the API server, without a login.
      type: str
  sample: {name: berlin, context: admin@berlin, server: "https://10.0.0.10:6443"}
remarks:
  description: A sentence for each profile that has bound a pod. They are printed.
  returned: success
  type: list
  elements: str
  sample: ["network-traffic has bound a pod to worker-1: Successfully assigned default/kube-scheduling-probe-1 to worker-1"]
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, run_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.cluster import ObjectsApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.scheduler_role.probe import bind, probe_of, wait_for_leader


def argument_spec():
    """Return the module's own options."""
    return {
        "state": {"type": "str", "choices": ["bound", "checked"], "default": "bound"},
        "pod": {"type": "dict", "required": True},
        "profiles": {"type": "list", "elements": "str", "required": True},
        "lease": {"type": "dict", "default": {}},
        "log_command": {"type": "str", "default": ""},
        "wait_timeout": {"type": "int", "default": 180},
    }


def execute(module, result):
    """Try the profiles."""
    given, pod, result["remarks"] = module.params, module.params["pod"], []
    api = connect(module, name="scheduler_probe", client=ObjectsApi)
    if given["state"] == "checked" and given["wait_timeout"]:
        api.create(PODS, pod["metadata"]["namespace"], probe_of(pod, given["profiles"][0]), dry_run=True)
    elif given["state"] == "bound" and not module.check_mode:
        if given["lease"]:
            wait_for_leader(api, **given["lease"])
        for profile in given["profiles"] if given["wait_timeout"] else ():
            result["remarks"].append(bind(api, probe_of(pod, profile), timeout_s=given["wait_timeout"], log=given["log_command"]))


def main():
    """Run the module."""
    run_module(argument_spec(), execute)


if __name__ == "__main__":
    main()
