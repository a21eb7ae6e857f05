# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables with which a role writes files, and neither applies nor deletes objects, so that a playbook would change nothing."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

READS = ("__site_changes", "spread_cronjob_render_to", "critical_rescuer_render_to", "extended_scheduler_render_to")


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each mistake. ``__site_changes``: the roles with which the playbook changes the cluster."""
    return [
        f"{role}_render_to is set, so the role would write files and not change the cluster: remove it, and render the files in a playbook"
        " of your own"
        for role in variables["__site_changes"] or []
        if variables[f"{role}_render_to"]
    ]
