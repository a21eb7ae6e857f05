#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: site_summary
short_description: Print what the playbook site has done
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - Prints which programs are in which cluster, what has changed, and what comes next.
extends_documentation_fragment:
  - onprem.kube_scheduling.attributes
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing anything.
    support: full
  action_group:
    description: The module does not connect to a cluster.
    support: none
    membership: []
  idempotent:
    description: The module changes nothing.
    support: full
options:
  cluster:
    description: The line that names the cluster.
    type: str
    required: true
  programs:
    description: The programs that the playbook can install.
    type: list
    elements: dict
    required: true
    suboptions:
      part:
        description: The tag of the program.
        type: str
        required: true
      where:
        description: Its object or its hosts.
        type: str
        required: true
      only_logs:
        description: Whether it only says what it would do.
        type: bool
        default: false
  changed:
    description: Whether each program of this run has changed, by its tag.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say what was done
  onprem.kube_scheduling.site_summary:
    cluster: berlin (context admin@berlin, https://10.0.0.10:6443)
    programs:
      - {part: spread_cronjob, where: CronJob kube-scheduling/kube-scheduling-rebalancer}
    changed: {spread_cronjob: true}
"""

RETURN = r"""
msg:
  description: The summary.
  returned: success
  type: str
  sample: |-
    Cluster berlin (context admin@berlin, https://10.0.0.10:6443)
      rebalancer  CronJob kube-scheduling/kube-scheduling-rebalancer: changed
    Next:
      docs/install.md
"""
