#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_cronjob_run
short_description: Start a Job of a CronJob, and wait for its end
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - Creates a Job from the template of a CronJob, as C(kubectl create job --from) does, and fails if the Job fails. The role
    P(onprem.kube_scheduling.spread_cronjob#role) calls it.
  - The CronJob is the owner of the Job, so the Job counts for its limits of history.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - onprem.kube_scheduling.attributes
  - onprem.kube_scheduling.connection
attributes:
  check_mode:
    details:
      - The API server tries the Job as a dry run. Nothing is waited for.
options:
  name:
    description: The name of the CronJob.
    type: str
    required: true
  namespace:
    description: The namespace of the CronJob.
    type: str
    required: true
  wait_timeout:
    description: The longest time in seconds until the Job has ended.
    type: int
    default: 600
notes:
  - Needs the verb get on cronjobs and jobs of batch, and the verb create on jobs.
seealso:
  - name: Install the programs
    description: The guide to the tag run_now.
    link: https://onprem.github.io/kube_scheduling/docs/install.html
"""

EXAMPLES = r"""
- name: Spread the workloads now
  onprem.kube_scheduling.k8s_cronjob_run:
    name: kube-scheduling-rebalancer
    namespace: kube-scheduling
    wait_timeout: 6300
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
job:
  description: The name of the Job.
  returned: if the Job was created, or would be
  type: str
  sample: kube-scheduling-rebalancer-manual-3f9a1c
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.packed_sources import compile_once

compile_once()

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.ansible_connection import connect, run_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.cluster import ObjectsApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.job import start_job, wait_for_end


def argument_spec():
    """Return the module's own options."""
    texts = {name: {"type": "str", "required": True} for name in ("name", "namespace")}
    return {**texts, "wait_timeout": {"type": "int", "default": 600}}


def execute(module, result):
    """Start the Job, and wait for its end."""
    given = module.params
    api = connect(module, name="k8s_cronjob_run", client=ObjectsApi)
    job = start_job(api, given["namespace"], given["name"], dry_run=module.check_mode)
    result.update(changed=True, job=job)
    if not module.check_mode:
        wait_for_end(api, given["namespace"], job, given["wait_timeout"])


def main():
    """Run the module."""
    run_module(argument_spec(), execute)


if __name__ == "__main__":
    main()
