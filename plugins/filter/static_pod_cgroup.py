# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: static_pod_cgroup
short_description: Return a regular expression for the cgroup of a static pod
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Finds the mirror pod of a static pod. It has the UID that the kubelet has given to the static pod.
  - A process runs in a container of this pod if a whole line of its file C(/proc/PID/cgroup) matches. The name and the command line of a
    process prove nothing, because each process can choose them.
  - It matches both cgroup drivers of the kubelet, both versions of cgroups, and the C(cgroupRoot) of the kubelet V(/) and V(/kubelet).
options:
  _input:
    description: The pods of the namespace.
    type: list
    elements: dict
    required: true
  name:
    description: The name of the static pod in its manifest.
    type: str
    required: true
  node:
    description: The name of the node.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Find the processes of kube-scheduler
  ansible.builtin.command:
    argv: [sh, -c, 'grep -l -E -x -e "$1" /proc/[0-9]*/cgroup', sh, "{{ cgroup }}"]
  changed_when: false
  vars:
    cgroup: "{{ pods.resources | onprem.kube_scheduling.static_pod_cgroup(name='kube-scheduler', node='cp-1') }}"
"""

RETURN = r"""
_value:
  description: An extended regular expression for whole lines. It matches no line if there is no mirror pod.
  type: str
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.static_pod_cgroup import (
    lines_of_pod,
    uid_of_static_pod,
)
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.plain_values import plain


def static_pod_cgroup(pods, name, node):
    """Return the expression for a static pod of a node."""
    return lines_of_pod(uid_of_static_pod(plain(pods), str(name), str(node)))


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"static_pod_cgroup": static_pod_cgroup}
