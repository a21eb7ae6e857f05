# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rescuer beside many pods that no eviction helps: how soon a possible rescue starts, and how soon each pod is judged again.

A third of the pods is alike, a third asks for another amount each, and a third is tied to a node each, as the pods of a DaemonSet are.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from tests.bench.rescue.crowd import critical_pod
from tests.bench.rescue.latency import wait_leading
from tests.integration.rescuer.daemons import Daemon
from tests.integration.workloads import wait_until

Json = dict[str, Any]

PODS = 200
POSSIBLE = 5
JUDGED_TIMEOUT_S = 600.0
SYSTEM = "/api/v1/namespaces/kube-system/pods"


def measure(cluster: Cluster, log: Path) -> dict[str, float]:
    """Seconds: ``first_s`` until all are judged, ``started_s`` of the slowest rescue until its node is held, ``again_s`` for one round."""
    daemon = Daemon(cluster, log, "--grace-period=1s")
    try:
        wait_leading(daemon)
        began_s = time.monotonic()
        for number in range(PODS):
            cluster.api.post(SYSTEM, _hopeless(number))
        wait_until(lambda: daemon.metric("pending_critical_pods", status="impossible") == PODS, timeout_s=JUDGED_TIMEOUT_S)
        found = {"first_s": time.monotonic() - began_s}
        found["started_s"] = max(_started_s(cluster, daemon, f"possible-{number}") for number in range(POSSIBLE))
        found["again_s"] = _round_s(daemon)
        return found
    finally:
        daemon.stop()


def _started_s(cluster: Cluster, daemon: Daemon, name: str) -> float:
    began_s = time.monotonic()
    cluster.api.post(SYSTEM, critical_pod(name))
    wait_until(lambda: daemon.said("node held", pod=f"kube-system/{name}"), timeout_s=JUDGED_TIMEOUT_S)
    return time.monotonic() - began_s


def _round_s(daemon: Daemon) -> float:
    """Seconds in which as many judgements are made as there are pods; no pod is judged twice before another one is."""
    before, began_s = daemon.metric("planning_seconds_count"), time.monotonic()
    wait_until(lambda: daemon.metric("planning_seconds_count") >= before + PODS, timeout_s=JUDGED_TIMEOUT_S)
    return time.monotonic() - began_s


def _hopeless(number: int) -> Json:
    """More than any node has."""
    name = f"hopeless-{number:03}"
    if number % 3 == 0:
        pod = critical_pod(name, cpu="9")
        pod["metadata"]["labels"] = {"app": "hopeless"}
        return pod
    if number % 3 == 1:
        return critical_pod(name, cpu=f"{9000 + number}m")
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"worker-{number}"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}
    return critical_pod(name, cpu="9", affinity=affinity)
