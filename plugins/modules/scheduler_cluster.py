#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_cluster
short_description: Read the cluster for the role extended_scheduler, and delete what its programs leave
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - Reads what the role P(onprem.kube_scheduling.extended_scheduler#role) needs before a change, and deletes what its programs leave.
  - Of Secrets only the names of their keys are used.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
options:
  state:
    description:
      - With V(read) the version of the API server and what the other options name are returned.
      - With V(users) the pods and workloads that would wait for ever for one of the O(profiles) are returned. Fails if a kind of workloads
        cannot be listed.
      - With V(late) the module fails if pods wait for one of the O(profiles), which no scheduler has any more.
      - With V(absent) the O(leases), the O(config_maps), and the pods with which profiles were tried are deleted. Then as V(late).
    type: str
    choices: [read, users, late, absent]
    default: read
  shape:
    description:
      - The shape of the role. With V(second_scheduler), O(state=read) returns the profiles of the Deployment. With another one it returns
        objects of the control planes.
    type: str
    default: second_scheduler
  name:
    description: The name of the Deployment of the second scheduler, and of its Lease.
    type: str
    default: kube-scheduling-scheduler
  namespace:
    description: The namespace of the Deployment, of the O(files), the O(leases) and the O(config_maps).
    type: str
    default: kube-system
  nodes:
    description: Return the nodes.
    type: bool
    default: false
  files:
    description: The keys of Secrets and ConfigMaps that must exist. Each has C(kind), C(name) and C(key).
    type: list
    elements: dict
    default: []
  marks:
    description: Objects that show which shape is installed. Each has C(api_version), C(kind), C(name), and optionally C(namespace).
    type: list
    elements: dict
    default: []
  pods:
    description: Return the running pods with this value of the label C(app.kubernetes.io/name).
    type: str
    default: ""
  profiles:
    description: The profiles that are not wanted any more.
    type: list
    elements: str
    default: []
  leases:
    description: The Leases of the programs.
    type: list
    elements: str
    default: []
  config_maps:
    description: The ConfigMaps of the programs.
    type: list
    elements: str
    default: []
  probe_namespace:
    description: The namespace of the pods with which profiles were tried.
    type: str
    default: default
seealso:
  - name: Scheduler profiles
    description: The guide with the rights that are needed.
    link: https://onprem.github.io/kube_scheduling/docs/scheduler-profiles.html
"""

EXAMPLES = r"""
- name: Name the pods and workloads that need a profile
  onprem.kube_scheduling.scheduler_cluster:
    state: users
    profiles: [network-traffic]
  register: found
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
version:
  description: The version of the API server.
  returned: success
  type: str
  sample: v1.36.3
node_names:
  description: The names of the nodes.
  returned: with O(nodes)
  type: list
  elements: str
  sample: [cp-1]
node_labels:
  description: The names of the labels that nodes have.
  returned: with O(nodes)
  type: list
  elements: str
  sample: [kubernetes.io/hostname]
missing_files:
  description: The O(files) that do not exist, with C(exists) for the object of the key. One that the user may not read is left out.
  returned: with O(state=read)
  type: list
  elements: dict
  sample: [{kind: Secret, name: login, key: token, exists: false}]
marked:
  description: The O(marks) whose object exists.
  returned: with O(state=read)
  type: list
  elements: dict
  sample: [{api_version: apps/v1, kind: Deployment, namespace: kube-system, name: kube-scheduling-scheduler}]
profiles:
  description: The profiles that the second scheduler has.
  returned: with O(state=read)
  type: list
  elements: str
  sample: [network-traffic]
objects:
  description: >-
    With another O(shape) the ConfigMap C(kubeadm-config) and the Lease of the scheduler. With V(kubeadm) also the pods with the label
    C(component=kube-scheduler) and the control-plane Nodes.
  returned: with O(state=read)
  type: list
  elements: dict
  sample: [{apiVersion: v1, kind: ConfigMap, metadata: {name: kubeadm-config}}]
pod_names:
  description: >-
    The names of these running O(pods). With O(shape=kubeadm) they are those on control planes, and otherwise one of them.
  returned: with O(state=read)
  type: list
  elements: str
  sample: [kube-scheduling-extender-cp-1]
users:
  description: A text for each pod or workload that needs one of the O(profiles).
  returned: with O(state=users)
  type: list
  elements: str
  sample: [Deployment shop/web (network-traffic)]
deleted:
  description: The objects that were deleted, or would be.
  returned: with O(state=absent)
  type: list
  elements: str
  sample: [Lease kube-system/kube-scheduling-scheduler]
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, run_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.cluster import ObjectsApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.scheduler_role.cluster import (
    check_late_pods,
    read_cluster,
    remove_state,
    users_in,
)


def argument_spec():
    """Return the module's own options."""
    return {
        "state": {"type": "str", "choices": ["read", "users", "late", "absent"], "default": "read"},
        "shape": {"type": "str", "default": "second_scheduler"},
        "name": {"type": "str", "default": "kube-scheduling-scheduler"},
        "namespace": {"type": "str", "default": "kube-system"},
        "nodes": {"type": "bool", "default": False},
        "pods": {"type": "str", "default": ""},
        **{name: {"type": "list", "elements": "dict", "default": []} for name in ("files", "marks")},
        **{name: {"type": "list", "elements": "str", "default": []} for name in ("profiles", "leases", "config_maps")},
        "probe_namespace": {"type": "str", "default": "default"},
    }


def execute(module, result):
    """Read what the state needs, or delete what the programs have left."""
    given = module.params
    api = connect(module, name="scheduler_cluster", client=ObjectsApi)
    result["version"] = api.server_version
    if given["state"] == "read":
        result.update(read_cluster(api, given))
    elif given["state"] == "users":
        result["users"] = users_in(api, given["profiles"])
    elif given["state"] == "absent":
        result["deleted"] = remove_state(api, given["namespace"], given, check_mode=module.check_mode)
        result["changed"] = bool(result["deleted"])
    if given["state"] in ("absent", "late") and not module.check_mode:
        check_late_pods(api, given["profiles"])


def main():
    """Run the module."""
    run_module(argument_spec(), execute)


if __name__ == "__main__":
    main()
