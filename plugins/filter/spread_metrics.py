# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: spread_metrics
short_description: Return the Prometheus metrics of a rebalancing run as text
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Makes the metrics of a run from the results of M(onprem.kube_scheduling.k8s_spread_check) and
    M(onprem.kube_scheduling.k8s_rollout_restart), in the text format that the textfile collector of node_exporter reads.
  - C(kube_scheduling_rebalance_workloads) has the label C(verdict), and C(kube_scheduling_rebalance_moved_workloads) the label C(outcome).
  - C(kube_scheduling_rebalance_uneven_workload) has the labels C(workload_kind), C(workload_namespace), C(workload_name), C(verdict) and
    C(reason).
  - C(kube_scheduling_rebalance_failed) and C(kube_scheduling_rebalance_last_run_timestamp_seconds) have no labels.
  - If the cluster could not be read, there are no workloads.
options:
  _input:
    description: The result of the first M(onprem.kube_scheduling.k8s_spread_check). It may be empty.
    type: dict
    required: true
  after:
    description: The result of the second M(onprem.kube_scheduling.k8s_spread_check), if there was one.
    type: dict
    default: {}
  restart:
    description: The result of M(onprem.kube_scheduling.k8s_rollout_restart), if it was run.
    type: dict
    default: {}
  error:
    description: The error of the run. It is empty without an error.
    type: str
    default: ""
seealso:
  - plugin: onprem.kube_scheduling.spread_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Check the spread
  onprem.kube_scheduling.k8s_spread_check:
  register: spread

- name: Write the numbers for the textfile collector of node_exporter
  ansible.builtin.copy:
    content: "{{ spread | onprem.kube_scheduling.spread_metrics }}"
    dest: /var/lib/node_exporter/spread.prom
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The lines of the metrics.
  type: str
  sample: |
    # HELP kube_scheduling_rebalance_failed Workloads whose restart or eviction failed in the last run. At least 1 if the run ...
    # TYPE kube_scheduling_rebalance_failed gauge
    kube_scheduling_rebalance_failed 0.0
"""

import time

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rebalance_metrics import metrics_text, rebalance_gauges


def spread_metrics(before, after=None, restart=None, error=""):
    """Return the metrics of a run that ends now. Raises AnsibleFilterError if an argument is not a result of the modules."""
    for name, value in {"the input": before, "after": after, "restart": restart}.items():
        if value and not isinstance(value, dict):
            raise AnsibleFilterError(f"spread_metrics: {name} must be the registered result of a module, not {type(value).__name__}")
    gauges = rebalance_gauges(before, after=after, restart=restart, error=str(error or ""), now_s=round(time.time(), 3))
    return metrics_text(gauges)


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"spread_metrics": spread_metrics}
