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

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.messages import pluralize
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.actions import (
    FAILED_ACTION,
    VANISHED,
    WOULD_EVICT,
    WOULD_EVICT_IF,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.verdict import SINGLE_DOMAIN, SPREAD
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import plain

OFF = "-e '{\"site_spread_addons\": []}' leaves the add-ons out."


def addons_text(results):
    """Return the sentences and the error, which is empty if no eviction has failed.

    A cluster that cannot be read, or a missing permission, is no error, because everything else of the playbook is done.
    """
    lines, errors = [], []
    for result in plain(results):
        workloads = result.get("workloads") or []
        if not workloads:
            lines.append(f"The add-ons were not spread: {result.get('msg') or 'unknown error'}. {OFF}")
        for workload in workloads:
            line = _line(workload)
            if workload["action"] == FAILED_ACTION and workload.get("evicted"):
                errors.append(line)
            elif line:
                lines.append(line)
    return {"lines": lines, "error": "\n".join(errors)}


def _line(workload):
    """Return the sentence for one workload. It is empty if the workload is spread already."""
    name = f"{workload['kind']} {workload['namespace']}/{workload['name']}"
    message = (workload.get("message") or "").rstrip(".")
    evicted = len(workload.get("evicted") or ())
    if evicted:
        is_plan = workload["action"] in (WOULD_EVICT, WOULD_EVICT_IF)
        verb = "would be" if is_plan else "was" if evicted == 1 else "were"
        counts = workload.get("expected" if is_plan else "after") or {}
        places = ", ".join(f"{domain}={count}" for domains in counts.values() for domain, count in domains.items())
        found = f" Its replicas {'then' if is_plan else 'now'}: {places}." if places else ""
        return f"{name}: {pluralize(evicted, 'pod')} {verb} evicted: {message}.{found}"
    if workload.get("reason") == SPREAD:
        return ""
    if workload.get("reason") == SINGLE_DOMAIN:
        return f"{name}: fewer than two nodes can run its pods. The next run of this playbook spreads them as soon as a second node can."
    if workload.get("reason") == VANISHED:
        return f"There is no {name}, so it is not spread."
    return f"{name} was not spread: {message}.{f' {OFF}' if workload['action'] == FAILED_ACTION else ''}"


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"addons_text": addons_text}
