# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory and CPU time of the rescuer on a big cluster: while nothing changes, while pods change, and during rescues."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from tests.bench.rescue.crowd import critical_pod
from tests.bench.rescue.history import PodHistory
from tests.bench.rescue.latency import DEFAULT_SETTLE_TIME, wait_leading
from tests.integration.rescuer.daemons import Daemon

IDLE_S = 60.0
CHANGING_S = 20.0
CHANGES_A_SECOND = 20
RESCUES = 50
NEED = "2500m"
"""More than the largest victim leaves for a second critical pod."""
RESCUED_TIMEOUT_S = 300.0
QUIET_S = 3.0


def measure(cluster: Cluster, log: Path) -> dict[str, float]:
    """The figures by name; see the table of the page. Shares are of one core."""
    with _leader(cluster, log) as daemon:
        found = {"start_mb": daemon.resident_mb(), "start_cpu_s": daemon.cpu_s()}
        found["idle"] = _share(daemon, IDLE_S, lambda: time.sleep(IDLE_S))
        found["changing"] = _share(daemon, CHANGING_S, lambda: _change(cluster, CHANGING_S))
        found["changed_mb"] = daemon.resident_mb()
        found |= _rescue_many(cluster, daemon)
        found["rescued_mb"] = daemon.resident_mb()
        return found


def rescues_s(cluster: Cluster, log: Path) -> float:
    """The seconds from the creation of so many critical pods until all are bound."""
    with _leader(cluster, log) as daemon:
        return _rescue_many(cluster, daemon)["rescues_s"]


@contextlib.contextmanager
def _leader(cluster: Cluster, log: Path) -> Iterator[Daemon]:
    """The rescuer with all defaults, when it leads and has read the cluster."""
    daemon = Daemon(cluster, log, DEFAULT_SETTLE_TIME)
    try:
        wait_leading(daemon)
        time.sleep(QUIET_S)
        yield daemon
    finally:
        daemon.stop()


def _share(daemon: Daemon, seconds: float, work: Callable[[], Any]) -> float:
    began_s = daemon.cpu_s()
    work()
    return (daemon.cpu_s() - began_s) / seconds


def _change(cluster: Cluster, seconds: float) -> None:
    """Change the labels of so many pods a second, in one namespace after the other."""
    api = cluster.api
    names = [pod["metadata"] for pod in api.get("/api/v1/pods?resourceVersion=0&limit=2000")["items"]]
    pods = itertools.cycle(metadata for metadata in names if metadata["namespace"].startswith("team-"))
    began_at_s = time.monotonic()
    for number in range(int(seconds * CHANGES_A_SECOND)):
        time.sleep(max(0.0, began_at_s + number / CHANGES_A_SECOND - time.monotonic()))
        metadata = next(pods)
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        api.merge_patch(path, {"metadata": {"labels": {"changed": str(number)}}})


def _rescue_many(cluster: Cluster, daemon: Daemon) -> dict[str, float]:
    """So many critical pods at the same time, until all are bound."""
    history, names = PodHistory(cluster), [f"crowding-{number}" for number in range(RESCUES)]
    began_at_s, began_s = time.monotonic(), daemon.cpu_s()
    for name in names:
        cluster.api.post("/api/v1/namespaces/kube-system/pods", critical_pod(name, cpu=NEED))
    if not history.wait(lambda: all(history.has(name, "bound") for name in names), timeout_s=RESCUED_TIMEOUT_S):
        bound = sum(history.has(name, "bound") for name in names)
        raise SystemExit(f"{bound} of {RESCUES} pods are bound after {RESCUED_TIMEOUT_S:.0f} s: {daemon.log.read_text()[-3000:]}")
    return {"rescues_s": time.monotonic() - began_at_s, "rescues_cpu_s": daemon.cpu_s() - began_s}
