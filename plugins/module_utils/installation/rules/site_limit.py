# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A limit without the hosts from which the API server is reached. Their plays would have no host, and the run would not fail."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

READS = ("ansible_limit", "__site_limited", "__site_clusters", "__site_cluster_hosts")


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence if no cluster is left."""
    limit, hosts = variables["ansible_limit"], variables["__site_cluster_hosts"]
    if limit is None or set(variables["__site_limited"]) & set(variables["__site_clusters"]):
        return []
    return [f"--limit {limit} leaves out {hosts}, where the tasks for the API server run: remove --limit, or add this host to it"]
