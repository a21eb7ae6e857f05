# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of a cluster in its kubeconfig, which outputs have."""

from __future__ import annotations

import yaml

from lab.cluster import Cluster


def identity_of(cluster: Cluster) -> dict[str, str]:
    """The value of the key ``cluster`` in results."""
    kubeconfig = yaml.safe_load(cluster.kubeconfig.read_text())
    (entry,) = kubeconfig["clusters"]
    return {"name": entry["name"], "context": kubeconfig["current-context"], "server": entry["cluster"]["server"]}


def line_of(cluster: Cluster) -> str:
    """The first line of outputs."""
    identity = identity_of(cluster)
    return f"{identity['name']} (context {identity['context']}, {identity['server']})"
