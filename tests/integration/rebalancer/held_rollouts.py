# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollouts that end only when the test permits it, so that a test can interrupt them at any speed of the machine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from lab.cluster import Cluster
from lab.errors import LabError
from tests.integration.workloads import deployment, only_node, pods_of, wait_rolled_out, wait_until, workers

READY = "lab.onprem/ready"
EVERY_S = 0.2


def pile_up_held(cluster: Cluster, namespace: str, *names: str, replicas: int = 2) -> list[dict[str, Any]]:
    """Create Deployments whose pods are ready and on one node. New pods of theirs do not become ready outside of ``released``."""
    webs = [deployment(namespace, name, replicas) for name in names]
    for web in webs:
        web["spec"]["template"]["metadata"]["annotations"] = {READY: "false"}
    with only_node(cluster, workers(cluster)[0]):
        cluster.apply(webs)
        for web in webs:
            wait_until(lambda web=web: _all_are_bound(cluster, web, replicas), what=f"the pods of {web['metadata']['name']}")
    with released(cluster, namespace):
        for web in webs:
            wait_rolled_out(cluster, web)
    return webs


def _all_are_bound(cluster: Cluster, web: dict[str, Any], replicas: int) -> bool:
    return sum("nodeName" in pod["spec"] for pod in pods_of(cluster, web)) == replicas


@contextlib.contextmanager
def released(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Within this block the pods of the namespace become ready, also those that are created meanwhile."""
    over = threading.Event()

    def release() -> None:
        while not over.wait(EVERY_S):
            # A pod may be deleted meanwhile, and a test may restart the API server.
            with contextlib.suppress(LabError):
                _release_all(cluster, namespace)

    thread = threading.Thread(target=release)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _release_all(cluster: Cluster, namespace: str) -> None:
    for pod in cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
        metadata = pod["metadata"]
        if READY in metadata.get("annotations", {}) and "deletionTimestamp" not in metadata:
            path = f"/api/v1/namespaces/{namespace}/pods/{metadata['name']}"
            cluster.api.merge_patch(path, {"metadata": {"annotations": {READY: None}}})
