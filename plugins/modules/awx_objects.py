#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: awx_objects
short_description: Create the objects of the playbook awx
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - Creates the objects of the variable C(__awx_objects) in AWX with the modules of the collection C(awx.awx), and prints those that have
    changed. Credentials and notifications that exist are changed only with O(update_secrets=true).
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
    description: A second run with the same objects changes nothing.
    support: full
options:
  update_secrets:
    description: Write credentials and notifications again that exist. AWX does not show their secrets, so this is always a change.
    type: bool
    default: false
requirements:
  - the collection awx.awx
"""

EXAMPLES = r"""
- name: Create the objects
  onprem.kube_scheduling.awx_objects:
"""

RETURN = r"""
changed_objects:
  description: The objects that were created or changed, or would be.
  returned: success
  type: list
  elements: str
  sample: [job_template rebalance]
"""
