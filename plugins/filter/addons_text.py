# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: addons_text
short_description: Return sentences about the add-ons of a cluster that were spread
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Makes sentences for people of results of M(onprem.kube_scheduling.k8s_rollout_restart). The playbooks C(site) and C(after_maintenance)
    show them.
  - An add-on that is spread already has no sentence. With fewer than two nodes for its pods, the sentence says that the next run spreads
    it.
options:
  _input:
    description: The results of a loop, also of check mode and of tasks that have failed.
    type: list
    elements: dict
    required: true
seealso:
  - module: onprem.kube_scheduling.k8s_rollout_restart
"""

EXAMPLES = r"""
- name: Spread the replicas of CoreDNS
  onprem.kube_scheduling.k8s_rollout_restart:
    workloads: [{kind: Deployment, namespace: kube-system, name: coredns}]
    strategy: evict_surplus
  register: addons

- name: Show what was done
  ansible.builtin.debug:
    msg: "{{ ([addons] | onprem.kube_scheduling.addons_text).lines }}"
"""

RETURN = r"""
_value:
  description: The list C(lines), and the text C(error), which is empty unless the replacement of an evicted pod is missing.
  type: dict
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.addons_text import addons_text as text_of
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import plain


def addons_text(results):
    """Return the sentences and the error."""
    return text_of(plain(results))._asdict()


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"addons_text": addons_text}
