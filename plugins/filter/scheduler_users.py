# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: scheduler_users
short_description: Return the pods and workloads that need a scheduler
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Finds the pods that wait for a node and name one of the schedulers, and the workloads whose pod template names it. These pods would
    wait for ever without the scheduler.
  - A pod that has a node, and a workload that another workload owns, are left out.
options:
  _input:
    description: Pods and workloads, as C(kubernetes.core.k8s_info) returns them.
    type: list
    elements: dict
    required: true
  names:
    description: The names of the schedulers, which are the fields C(schedulerName) of pods.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Name the pods that would wait for ever
  ansible.builtin.debug:
    msg: "{{ pods.resources | onprem.kube_scheduling.scheduler_users(['network-traffic']) }}"
"""

RETURN = r"""
_value:
  description: A text for each object, such as C(Deployment shop/web (network-traffic\)).
  type: list
  elements: str
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.second_scheduler.users import users_of


def scheduler_users(objects, names):
    """Return a text for each pod or workload that needs one of the schedulers."""
    return users_of(objects, [str(name) for name in names])


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"scheduler_users": scheduler_users}
