# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rescue_plan
short_description: Show what a rescue does, or would do, as text
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Writes the result of M(onprem.kube_scheduling.k8s_critical_rescue), also of check mode, as text. For each critical pod it has the
    evicted pods and their node, or the reasons why there is no eviction. Pods that need attention are first.
options:
  _input:
    description: The result of the module.
    type: dict
    required: true
  width:
    description: The longest line in characters, at least 60; longer names stay whole.
    type: int
    default: 120
  plan:
    description: The result is one of check mode.
    type: bool
    default: false
  state:
    description: The option O(onprem.kube_scheduling.k8s_critical_rescue#module:state) that the module was given.
    type: str
    choices: [rescued, released]
    default: rescued
  namespaces:
    description: The namespaces that the module was given, for the first line if no pod waits.
    type: list
    elements: str
    default: []
  label_selectors:
    description: The label selectors that the module was given, for the first line if no pod waits.
    type: list
    elements: str
    default: []
seealso:
  - module: onprem.kube_scheduling.k8s_critical_rescue
"""

EXAMPLES = r"""
- name: See what would be evicted
  onprem.kube_scheduling.k8s_critical_rescue:
  check_mode: true
  register: rescue

- name: Show it
  ansible.builtin.debug:
    msg: "{{ rescue | onprem.kube_scheduling.rescue_plan(plan=true) }}"
"""

RETURN = r"""
_value:
  description: The plan, in lines.
  type: str
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rescue_text import render_rescue
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.text_map import MIN_WIDTH


def rescue_plan(result, width=120, plan=False, state="rescued", namespaces=(), label_selectors=()):
    """Return the result of a rescue as text. Raises AnsibleFilterError if it is not a result of k8s_critical_rescue."""
    if not isinstance(result, dict) or not ("pods" in result or "msg" in result):
        raise AnsibleFilterError("rescue_plan: give it the registered result of k8s_critical_rescue")
    return render_rescue(
        result,
        width=max(width, MIN_WIDTH),
        plan=bool(plan),
        state=state,
        namespaces=_texts(namespaces),
        label_selectors=_texts(label_selectors),
    )


def _texts(value):
    """Return a list of texts, as Ansible parses an option of the type list."""
    return [str(one) for one in (value.split(",") if isinstance(value, str) else value or ()) if one]


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"rescue_plan": rescue_plan}
