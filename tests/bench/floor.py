# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The floor: a plain download of the node and pod lists, which nothing that reads them whole can do without."""

from __future__ import annotations

from lab.cluster import Cluster
from tests.bench.measure import Command


def download(cluster: Cluster) -> Command:
    """`kubectl get --raw` of both lists, one after the other."""
    get = f"{cluster.binary('kubectl')} --kubeconfig {cluster.kubeconfig} get --raw"
    return Command(["sh", "-c", f"{get} /api/v1/nodes && {get} /api/v1/pods"])
