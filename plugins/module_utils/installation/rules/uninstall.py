# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables that -e sets although uninstall.yml sets them. Those of -e have precedence."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

STATES = ("spread_cronjob_state", "critical_rescuer_state", "extended_scheduler_state")
READS = (*STATES, "critical_rescuer_enabled", "__site_found_marks", "__site_scheduler_uses_hosts")
NO = ("false", "no", "off", "n", "f", "0", "0.0")


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each mistake."""
    found = [
        f"{name} is {variables[name]}: remove it, because this playbook removes the program"
        for name in STATES
        if variables[name] != "absent"
    ]
    enabled = variables["critical_rescuer_enabled"]
    if not enabled or str(enabled).lower() in NO:
        found.append(f"critical_rescuer_enabled is {enabled}: remove it, because the rescuer would stay")
    if "kube-scheduling-extender" in (variables["__site_found_marks"] or ()) and not variables["__site_scheduler_uses_hosts"]:
        found.append(
            "the schedulers of the cluster have profiles of the role, or hosts run the scheduler: set extended_scheduler_shape: kubeadm, or"
            " systemd and extended_scheduler_hosts, and give an inventory with all these hosts"
        )
    return found
