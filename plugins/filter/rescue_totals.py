# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rescue_totals
short_description: Return the numbers of a rescue for job schedulers
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Counts the pods, the victims and the released nodes of a result of M(onprem.kube_scheduling.k8s_critical_rescue), also of check mode.
options:
  _input:
    description: The result of the module. An empty one counts as a run without pods.
    type: dict
    required: true
  plan:
    description: The result is one of check mode.
    type: bool
    default: false
  error:
    description: An error of the run, which the result does not have.
    type: str
    default: ""
seealso:
  - module: onprem.kube_scheduling.k8s_critical_rescue
"""

EXAMPLES = r"""
- name: Show the pods that would be evicted
  onprem.kube_scheduling.k8s_critical_rescue:
  check_mode: true
  register: rescue

- name: Report the numbers to job schedulers
  ansible.builtin.set_stats:
    data:
      rescue: "{{ rescue | onprem.kube_scheduling.rescue_totals(plan=true) }}"
"""

RETURN = r"""
_value:
  description: >-
    The number of pods by status (C(failed), C(impossible), C(waiting), C(planned), C(rescued)), the numbers C(victims) and C(released), the
    booleans C(plan), C(changed) and C(ok), the text C(error), which is empty without an error, and C(cluster) with C(name), C(context) and
    C(server).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rescue_text import rescue_totals as totals_of


def rescue_totals(result, plan=False, error=""):
    """Return the numbers of a rescue. Raises AnsibleFilterError if the value is not a result of k8s_critical_rescue."""
    if not isinstance(result, dict):
        raise AnsibleFilterError("rescue_totals: give it the registered result of k8s_critical_rescue")
    return totals_of(result, plan=bool(plan), error=str(error or ""))


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"rescue_totals": rescue_totals}
