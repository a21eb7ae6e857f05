# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: spread_report
short_description: Combine the results of a rebalance run into one report, as data
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Combines the results of M(onprem.kube_scheduling.k8s_spread_check) and M(onprem.kube_scheduling.k8s_rollout_restart) into the data of
    a report. These are the numbers in C(totals), and each workload before and after.
  - The data are those of the JSON that the playbook C(onprem.kube_scheduling.rebalance) writes, and those in its HTML page.
  - Texts that come from the cluster are returned as they are. A template must escape them.
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
  - plugin: onprem.kube_scheduling.spread_html
    plugin_type: filter
  - plugin: onprem.kube_scheduling.spread_markdown
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Publish the numbers of a check
  ansible.builtin.set_stats:
    data:
      spread: "{{ (spread | onprem.kube_scheduling.spread_report).totals }}"
"""

RETURN = r"""
_value:
  description: >-
    C(cluster) (C(name), C(context), C(server)), C(totals) (C(ok), C(plan), C(cluster), C(checked), C(collapsed_before),
    C(collapsed_after), C(skewed_before), C(skewed_after),
    C(restartable), C(restarted), C(evicted), C(would_restart), C(would_restart_if), C(would_evict), C(would_evict_if), C(skipped),
    C(refused), C(failed), C(improved), C(reason), C(message), C(error)), C(summary), C(nodes), C(domain_list) (each node with its zone),
    C(workloads) (C(kind), C(namespace), C(name), C(replicas), C(before) and C(after) with C(verdict) and replicas by C(domains),
    C(expected) (replicas by domain after an action that is not made yet), C(action), C(outcome), C(reason), C(message), C(advice) with
    C(reason), C(message) and C(patch)), C(skipped_namespaces) and C(skipped_objects).
  type: dict
"""

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.report_data import report_data
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.report_filter import report_for


def spread_report(before, after=None, restart=None, plan=False, error="", time=""):
    """Return the data of a rebalance report. Raises AnsibleFilterError if an argument is not a result of the modules."""
    report = report_for("spread_report", before, after=after, restart=restart, plan=plan, error=error)
    return report_data(report, time=time)


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"spread_report": spread_report}
