# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes that may still have the image after uninstall.yml."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

READS = ("__site_nodes", "__site_node_hosts", "__site_limited", "hostvars")
ARCHIVE = "if an archive was delivered"


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each node."""
    if not variables["__site_nodes"]:
        remedy = f"no host matches site_node_hosts ({variables['__site_node_hosts']}): give an inventory that has the nodes (-i)"
        return [f"The image on the nodes, {ARCHIVE}, because {remedy}, and run this again."]
    found = []
    for node in variables["__site_nodes"]:
        if node not in variables["__site_limited"]:
            found.append(f"The image on {node}, {ARCHIVE}, because of --limit.")
        elif error := variables["hostvars"][node].get("__site_image_error"):
            found.append(f"The image on {node}, {ARCHIVE}: {' '.join(error.split())}")
    return found
