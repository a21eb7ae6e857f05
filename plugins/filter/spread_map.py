# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: spread_map
short_description: Show where the replicas of workloads are, as text
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Writes the result of M(onprem.kube_scheduling.k8s_spread_check) as a table of workloads by nodes, grouped by zone,
    followed by the reasons and the advice.
  - With a second check it shows each number before and after.
  - If the nodes do not fit into O(width), the columns are zones. If the zones do not fit either, the columns are the zones with most
    replicas, and one column for all others.
extends_documentation_fragment:
  - onprem.kube_scheduling.rebalance_results
options:
  width:
    description: The longest line in characters, at least 60.
    type: int
    default: 120
  max_rows:
    description: The maximum number of workloads that are listed. Workloads with problems are listed first. The others are only counted.
    type: int
    default: 60
seealso:
  - plugin: onprem.kube_scheduling.spread_report
    plugin_type: filter
  - plugin: onprem.kube_scheduling.spread_html
    plugin_type: filter
  - plugin: onprem.kube_scheduling.spread_markdown
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Check the spread of the workloads
  onprem.kube_scheduling.k8s_spread_check:
    include_healthy: true
    include_nodes: true
  register: spread

- name: Show it
  ansible.builtin.debug:
    msg: "{{ spread | onprem.kube_scheduling.spread_map }}"
"""

RETURN = r"""
_value:
  description: The map, in lines.
  type: str
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.text_map import render_text
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.report_filter import report_for


def spread_map(before, after=None, restart=None, plan=False, error="", width=120, max_rows=60):
    """Return the map of a rebalance run as text. Raises AnsibleFilterError if an argument is not a result of the modules."""
    report = report_for("spread_map", before, after=after, restart=restart, plan=plan, error=error)
    return render_text(report, width=width, max_rows=max_rows)


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"spread_map": spread_map}
