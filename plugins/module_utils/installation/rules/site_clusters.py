# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables that several clusters cannot have in one run of site.yml.

The image is built and pushed once for all clusters, and a group has the control planes of one cluster.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

READS = (
    *("__site_clusters", "__site_has_static_rescuer", "__site_has_scheduler", "__site_scheduler_uses_hosts", "__site_scheduler_shape"),
    *("critical_rescuer_static_hosts", "extended_scheduler_hosts", "hostvars"),
)
ONCE = "run the playbook once for each cluster, with -e site_cluster_hosts=HOST"
MAY_DIFFER = {"service_image_result", "service_image_pull_secrets"}


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each mistake."""
    clusters = variables["__site_clusters"] or []
    if len(clusters) < 2:
        return []
    listed, hosts = ", ".join(clusters), [variables["hostvars"][name] for name in clusters]
    names = {name for host in hosts for name in host if name.startswith("service_image_")} - MAY_DIFFER
    found = [
        f"{name} is not the same for {listed}: {ONCE}"
        for name in sorted(names)
        if any(host.get(name, "") != hosts[0].get(name, "") for host in hosts)
    ]
    for is_used, text, own in (
        (variables["__site_has_static_rescuer"], "critical_rescuer_form is static_pod", "critical_rescuer_static_hosts"),
        (
            variables["__site_has_scheduler"] and variables["__site_scheduler_uses_hosts"],
            f"extended_scheduler_shape is {variables['__site_scheduler_shape']}",
            "extended_scheduler_hosts",
        ),
    ):
        if is_used and not variables[own]:
            remedy = f"set it for each of them to the hosts of its cluster, or {ONCE}"
            found.append(f"{text} for several clusters ({listed}), and {own} is empty: {remedy}")
    return found
