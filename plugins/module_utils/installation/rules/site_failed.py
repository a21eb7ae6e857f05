# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The failed checks of all hosts of site.yml, each one once."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

READS = ("__site_groups", "ansible_play_hosts_all", "ansible_play_hosts", "hostvars")


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return the sentences. Without one host of a group that can be reached, a part would not be installed at all."""
    checked, reached = variables["ansible_play_hosts_all"], set(variables["ansible_play_hosts"])
    found = [text for host in checked for text in variables["hostvars"][host].get("__site_failed") or []]
    for group in variables["__site_groups"]:
        listed = sorted(set(checked).intersection(group["hosts"]))
        if listed and not reached.intersection(listed):
            found.append(f"no host of {group['name']} can be reached ({', '.join(listed)}): see the error of each one above")
    return ["Nothing was changed. Failed checks:", *dict.fromkeys(found)] if found else []
