# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The groups of hosts of site.yml that have no host, and the numbers of nodes at the same time."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

READS = ("__site_groups", "__site_serial")


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each mistake. ``__site_groups``: a variable, its pattern of hosts, the hosts that match, and the remedy."""
    found = [
        f"{group['name']} is {group['pattern']}, and no host matches it: {group['remedy']}"
        for group in variables["__site_groups"] or []
        if not group["hosts"]
    ]
    serial = variables["__site_serial"]
    return found + [
        f"site_serial has {size}: it must be a number of nodes, or a percentage such as 20%"
        for size in (serial if isinstance(serial, list) else [serial])
        if not re.match("[0-9]+%?$", str(size))
    ]
