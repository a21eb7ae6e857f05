# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: spread_markdown
short_description: Summarize the spread of workloads as Markdown
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Writes the result of M(onprem.kube_scheduling.k8s_spread_check) as a short Markdown text for a chat or a ticket. It has the numbers, the
    workloads with problems or changes, and the reasons.
  - Texts that come from the cluster are escaped, and mention nobody.
extends_documentation_fragment:
  - onprem.kube_scheduling.rebalance_results
options:
  max_rows:
    description: The maximum number of workloads in the table. Workloads with problems are listed first. The others are only counted.
    type: int
    default: 20
seealso:
  - plugin: onprem.kube_scheduling.spread_map
    plugin_type: filter
  - plugin: onprem.kube_scheduling.spread_report
    plugin_type: filter
  - plugin: onprem.kube_scheduling.spread_html
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Check the spread of the workloads
  onprem.kube_scheduling.k8s_spread_check:
    include_healthy: true
    include_nodes: true
  register: spread

- name: Send it to a chat
  ansible.builtin.uri:
    url: https://chat.example.com/hooks/spread
    method: POST
    body_format: json
    body: {text: "{{ spread | onprem.kube_scheduling.spread_markdown }}"}
"""

RETURN = r"""
_value:
  description: The summary.
  type: str
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.markdown import render_markdown
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.report_filter import report_for


def spread_markdown(before, after=None, restart=None, plan=False, error="", max_rows=20):
    """Return the report as Markdown. Raises AnsibleFilterError if an argument is not a result of the modules."""
    report = report_for("spread_markdown", before, after=after, restart=restart, plan=plan, error=error)
    return render_markdown(report, max_rows=max_rows)


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"spread_markdown": spread_markdown}
