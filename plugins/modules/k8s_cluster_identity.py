#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_cluster_identity
short_description: Name the cluster of a connection
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Returns the names of the cluster and the context, the URL of the API server, its version, and the difference of the clocks. The
    playbooks begin their summaries with it.
  - Sends one request, for the version, and fails without an answer that has it. Never changes anything in the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  diff_mode:
    support: N/A
    details:
      - The module never changes anything.
seealso:
  - module: kubernetes.core.k8s_cluster_info
  - name: Install the programs
    description: The guide to the playbooks that name the cluster.
    link: https://onprem.github.io/kube_scheduling/docs/install.html
"""

EXAMPLES = r"""
- name: Reach the API server
  onprem.kube_scheduling.k8s_cluster_identity:
    context: admin@berlin
  register: berlin

- name: Show the cluster
  ansible.builtin.debug:
    msg: "{{ berlin.line }}"
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
  returned: success
  type: str
  sample: berlin (context admin@berlin, https://10.0.0.10:6443)
version:
  description: The version of the API server.
  returned: success
  type: str
  sample: v1.36.3
kubernetes_core:
  description: The version of the collection kubernetes.core on the controller. It is empty if it is not known.
  returned: success
  type: str
  sample: 6.5.0
clock_skew_s:
  description: The seconds by which the clock of this machine is ahead of the clock of the API server.
  returned: success
  type: int
  sample: 0
"""

import time

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, run_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import KubeError


def execute(module, result):
    """Reach the API server."""
    api = connect(module, name="k8s_cluster_identity")
    if not api.server_version:
        raise KubeError(f"{api.cluster.line} has not sent its version: check whether this is an API server, and the proxies before it")
    result.update(line=api.cluster.line, version=api.server_version, clock_skew_s=int(time.time() - api.now_s()))


def main():
    """Run the module."""
    run_module({}, execute)


if __name__ == "__main__":
    main()
