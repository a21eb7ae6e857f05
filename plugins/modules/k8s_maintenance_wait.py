#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_maintenance_wait
short_description: Wait until nodes are Ready and uncordoned, or until workloads are settled
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - Waits for all nodes, or for the given workloads, and returns what is not ready. The playbook after_maintenance calls it.
  - A workload is settled if no rollout is in progress and all replicas are available. A paused Deployment, and a StatefulSet with the
    strategy OnDelete or a partition, need only be available.
  - Fails only if the cluster cannot be read at first. Never changes anything.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  diff_mode:
    support: N/A
    details:
      - The module never changes anything.
options:
  workloads:
    description:
      - The workloads to wait for. Without it, the nodes are waited for.
      - The RV(onprem.kube_scheduling.k8s_spread_check#module:workloads) of a check are accepted.
    type: list
    elements: dict
  ignored_nodes:
    description: The names of nodes that are not waited for.
    type: list
    elements: str
    default: []
  wait_timeout:
    description: The longest time in seconds. With V(0) the cluster is read once.
    type: int
    default: 1800
  wait_sleep:
    description: The time in seconds between two reads of the cluster.
    type: int
    default: 5
seealso:
  - name: Spread workloads after maintenance
    description: The guide to the playbook.
    link: https://onprem.github.io/kube_scheduling/docs/after-maintenance.html
"""

EXAMPLES = r"""
- name: Wait for the nodes
  onprem.kube_scheduling.k8s_maintenance_wait:
    ignored_nodes: [worker-7]
  register: nodes
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
line:
  description: The same in one line, for people.
  returned: if the API server was reached
  type: str
  sample: berlin (context admin@berlin, https://10.0.0.10:6443)
waiting:
  description: A sentence for each thing that is not ready.
  returned: success
  type: list
  elements: str
  sample: ["Node worker-3 is not Ready: Kubelet stopped posting node status."]
"""

from functools import partial

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, run_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.polling import polled
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.maintenance.settled import waiting_nodes, waiting_workloads


def argument_spec():
    """Return the module's own options."""
    return {
        "workloads": {"type": "list", "elements": "dict"},
        "ignored_nodes": {"type": "list", "elements": "str", "default": []},
        "wait_timeout": {"type": "int", "default": 1800},
        "wait_sleep": {"type": "int", "default": 5},
    }


def execute(module, result):
    """Wait for the nodes, or for the workloads."""
    given = module.params
    api = connect(module, name="k8s_maintenance_wait")
    result["line"] = api.cluster.line
    if given["workloads"] is None:
        read = partial(waiting_nodes, api, given["ignored_nodes"])
    else:
        read = partial(waiting_workloads, api, {f"{one['kind']} {one['namespace']}/{one['name']}" for one in given["workloads"]})
    limits = {"limit_s": given["wait_timeout"], "poll_s": given["wait_sleep"]}
    result["waiting"] = polled(read, lambda waiting: not waiting, **limits, of_error=lambda error: [f"The cluster cannot be read: {error}"])


def main():
    """Run the module."""
    run_module(argument_spec(), execute)


if __name__ == "__main__":
    main()
