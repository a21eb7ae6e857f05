# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of the extender with all agents on a big cluster: a real API server with its nodes and pods."""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lab.cluster import Cluster
from tests.bench import big_cluster
from tests.bench.extender import request_bodies
from tests.bench.extender.cluster_fixture import REPOSITORY, Fixture, cluster_fixture, node_names
from tests.bench.extender.contenders import REFRESH_S, Running, own_extender
from tests.bench.extender.programs import LOAD_GENERATOR, build
from tests.bench.extender.settings import ALL

PODS = 20_000
REFRESHES = 4
SAMPLE_EVERY_S = 0.2


@dataclass(frozen=True)
class Footprint:
    """Resident memory in MB: when the extender is ready, after refreshes and requests, and at its highest point.

    ``loaded_mb`` is the median over one refresh interval. During a refresh the values of two refreshes are in memory, and one sample would
    depend on whether a refresh runs. ``peak_mb`` includes it.

    ``cpu``: CPU seconds for each second without requests, with a refresh every 15 s.
    """

    ready_mb: float
    loaded_mb: float
    peak_mb: float
    cpu: float


def measure() -> Footprint:
    """Measure on 5,000 nodes and 20,000 pods."""
    # An image has the compiled program. Compiling at the start takes 7 MB.
    for part in ("plugins", "services"):
        compileall.compile_dir(REPOSITORY / part, quiet=1)
    generator = build(LOAD_GENERATOR)
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as temporary:
        folder = Path(temporary)
        cluster = Cluster.at(temporary, big_cluster.NAME)
        try:
            # In a process of its own: the memory of a child includes what its parent had when it was forked.
            subprocess.run([sys.executable, "-m", "tests.bench.big_cluster", temporary, str(PODS)], check=True)
            with cluster_fixture(folder, big_cluster.NODES, bindings_per_s=0) as series:
                return _measure(cluster, series, generator, folder)
        finally:
            cluster.down()


def _measure(cluster: Cluster, series: Fixture, generator: Path, folder: Path) -> Footprint:
    names = node_names(big_cluster.NODES)
    bodies = folder / "bodies"
    request_bodies.write(bodies, names)
    with own_extender(folder / "own", ALL, Fixture(series.prometheus, str(cluster.kubeconfig)), refresh_s=REFRESH_S) as running:
        ready_mb, began_s = running.memory_mb(), running.cpu_s()
        time.sleep(REFRESHES * REFRESH_S)
        cpu = (running.cpu_s() - began_s) / (REFRESHES * REFRESH_S)
        command = [str(generator), "-address", str(running.address), "-requests", str(bodies), "-names", str(len(names))]
        subprocess.run([*command, "-duration", f"{2 * REFRESH_S}s"], check=True, capture_output=True)
        return Footprint(ready_mb, _median_mb(running), running.memory_mb("VmHWM"), cpu)


def _median_mb(running: Running) -> float:
    """Return the median of samples over one refresh interval."""
    samples = []
    for _ in range(int(REFRESH_S / SAMPLE_EVERY_S)):
        samples.append(running.memory_mb())
        time.sleep(SAMPLE_EVERY_S)
    return statistics.median(samples)
