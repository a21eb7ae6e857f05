# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rescuer beside many pods that no eviction helps: how soon a possible rescue starts, and how soon each pod is judged again.

``python -m tests.bench.rescue.hopeless [NODES]`` measures just that. No pod is like another; their sorts are in hopeless_pods.py.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from lab.cluster import Cluster
from tests.bench.rescue.clusters import cluster_of, fill, names_of, workers
from tests.bench.rescue.history import PodHistory
from tests.bench.rescue.hopeless_pods import AGENTS, crowds, hopeless, possible
from tests.bench.rescue.latency import wait_leading
from tests.integration.rescuer.daemons import Daemon
from tests.integration.workloads import wait_until

PODS = 200
POSSIBLE = 5
TIMEOUT_S = 900.0
NAMESPACES = tuple(f"team-{number}" for number in range(10))
SYSTEM = "/api/v1/namespaces/kube-system/pods"


def on_nodes(nodes: int, log: Path) -> dict[str, float]:
    """As ``measure``, on a new cluster of so many nodes."""
    group = workers(nodes)
    with cluster_of([group], variant="budget_safe") as cluster:
        fill(cluster, crowds([*NAMESPACES, AGENTS], names_of(group)))
        return measure(cluster, log)


def measure(cluster: Cluster, log: Path) -> dict[str, float]:
    """The figures by name, in seconds of wall time, but for ``cpu_s``.

    ``together_s``: until the node of a possible pod is held that appears together with all the others, from when the scheduler has found no
    node for it. ``first_s``: until all are judged, ``told_s``: until it is said of all of them why no eviction helps. ``started_s``: as
    ``together_s``, the slowest of some possible pods that come later. ``again_s``: until each pod is judged again, and ``cpu_s`` of that.
    """
    history = PodHistory(cluster)
    daemon = Daemon(cluster, log, "--grace-period=1s")
    try:
        wait_leading(daemon)
        began_s = time.monotonic()
        for number in range(PODS):
            cluster.api.post(SYSTEM, hopeless(number))
        found = {"together_s": _started_s(cluster, daemon, history, "possible-together")}
        wait_until(lambda: daemon.metric("pending_critical_pods", status="impossible") == PODS, timeout_s=TIMEOUT_S)
        found["first_s"] = time.monotonic() - began_s
        found["started_s"] = max(_started_s(cluster, daemon, history, f"possible-{number}") for number in range(POSSIBLE))
        wait_until(lambda: _told(daemon) == PODS, timeout_s=TIMEOUT_S)
        found["told_s"] = time.monotonic() - began_s
        cpu_s = daemon.cpu_s()
        found["again_s"] = _round_s(daemon)
        found["cpu_s"] = daemon.cpu_s() - cpu_s
        return found
    finally:
        daemon.stop()


def _started_s(cluster: Cluster, daemon: Daemon, history: PodHistory, name: str) -> float:
    cluster.api.post(SYSTEM, possible(name))
    wait_until(lambda: daemon.said("node held", pod=f"kube-system/{name}"), timeout_s=TIMEOUT_S)
    held_at_s = time.monotonic()
    history.wait(lambda: history.has(name, "unschedulable"), timeout_s=TIMEOUT_S)
    life = history.labelled(name)
    assert life is not None
    return held_at_s - life.seen["unschedulable"]


def _told(daemon: Daemon) -> int:
    return len({line["pod"] for line in daemon.said("pod planned", status="impossible")})


def _round_s(daemon: Daemon) -> float:
    """Seconds in which as many judgements are made as there are pods; no pod is judged twice before another one is."""
    before, began_s = daemon.metric("planning_seconds_count"), time.monotonic()
    wait_until(lambda: daemon.metric("planning_seconds_count") >= before + PODS, timeout_s=TIMEOUT_S)
    return time.monotonic() - began_s


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        figures = on_nodes(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000, Path(folder) / "hopeless.log")
        for key, seconds in figures.items():
            print(f"{key} {seconds:.1f}")
