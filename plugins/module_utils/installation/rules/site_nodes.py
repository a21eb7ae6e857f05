# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes of site.yml that have failed. They take no part in the later plays, so their errors may be far above."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

READS = ("__site_node_parts", "__site_nodes", "__site_exporters", "__site_delivered", "__site_lost_texts", "ansible_play_hosts_all")
AGAIN = "See the error of each node above, and run the playbook again."


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each part that a node did not get. ``__site_node_parts``: the parts of this run."""
    nodes = [host for host in variables["ansible_play_hosts_all"] if host in variables["__site_nodes"]]
    have = {"node_exporter": variables["__site_exporters"], "service_image": variables["__site_delivered"]}
    lost = {part: ", ".join(host for host in nodes if host not in have[part]) for part in variables["__site_node_parts"]}
    found = [f"node_exporter was not installed on {lost['node_exporter']}. {AGAIN}"] if lost.get("node_exporter") else []
    if lost.get("service_image"):
        reasons = "; ".join(variables["__site_lost_texts"])
        found.append(f"The image was not delivered to {lost['service_image']}. {AGAIN} {reasons}".strip())
    return found
