# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The parts that are missing on the nodes and on the hosts of Prometheus, which these hosts have found before."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

READS = ("__site_node_hosts", "__site_delivery", "__site_nodes", "__site_verified_hosts", "__site_failed", "hostvars")
LOST = "has failed or could not be reached, so it was not verified: see the error of this host, and run the playbook again"


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each part, and for each host that was not verified."""
    found = []
    if variables["__site_delivery"] == "archive" and not variables["__site_nodes"]:
        found.append(
            f"site_node_hosts is {variables['__site_node_hosts']}, and no host matches it, so the image is not verified: give an inventory"
            " that has the nodes in these groups (-i), or set service_image_delivery as for the playbook onprem.kube_scheduling.site"
        )
    for host in variables["__site_verified_hosts"]:
        known = variables["hostvars"][host]
        error = known.get("__site_delivery_error")
        if error:
            found.append(f"{host} did not get the image: {error}")
        elif not (known.get("__site_ping") or {}).get("ping"):
            found.append(f"{host} {LOST}")
        found += [text if host in text else f"{host}: {text}" for text in known.get("__site_failed") or ()]
    return list(dict.fromkeys(" ".join(text.split()) for text in [*(variables["__site_failed"] or ()), *found]))
