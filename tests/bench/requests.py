# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests that a restart of one Deployment costs, counted on a small cluster of its own, whose controllers work."""

from __future__ import annotations

import tempfile
from collections import Counter

from lab.cluster import Cluster, up
from tests.integration.modules.module_process import Modules
from tests.integration.restart_requests import count_requests

NAMESPACE = "requests"


def counted() -> dict[str, Counter[str]]:
    """By situation, how often each ``verb resource`` was asked for."""
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        cluster = Cluster.at(folder, NAMESPACE)
        try:
            up(folder, NAMESPACE, scenario="base")
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            cluster.wait_namespace(NAMESPACE)
            return count_requests(cluster, Modules(cluster.kubeconfig), NAMESPACE)
        finally:
            cluster.down()
