# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: spread_html
short_description: Show where the replicas of workloads are, as one HTML file
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Writes the result of M(onprem.kube_scheduling.k8s_spread_check) as an HTML page with search, sorting, and zones that open into nodes.
    With a second check it shows the state before and after.
  - The page is one file. It loads nothing, and works without a server. Where scripts are not allowed, it shows the text map.
extends_documentation_fragment:
  - onprem.kube_scheduling.rebalance_results
options:
  time:
    description: The time of the run, for people.
    type: str
    default: ""
seealso:
  - plugin: onprem.kube_scheduling.spread_map
    plugin_type: filter
  - plugin: onprem.kube_scheduling.spread_report
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

- name: Write it as a page
  ansible.builtin.copy:
    content: "{{ spread | onprem.kube_scheduling.spread_html(time=now(utc=true, fmt='%Y-%m-%d %H:%M UTC')) }}"
    dest: /srv/reports/spread.html
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.html_page import render_html
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.report_filter import report_for


def spread_html(before, after=None, restart=None, plan=False, error="", time=""):
    """Return the report as one HTML file. Raises AnsibleFilterError if an argument is not a result of the modules."""
    report = report_for("spread_html", before, after=after, restart=restart, plan=plan, error=error)
    return render_html(report, time=time)


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"spread_html": spread_html}
