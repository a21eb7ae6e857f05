# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.bench --part rescue``: how fast rescues are, what planning and the rescuer cost, and what the scheduler does alone."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from tests.bench import page
from tests.bench.measure import python, run_once
from tests.bench.rescue import comparison, footprint, hopeless, latency, report
from tests.bench.rescue.clusters import cluster_of, fill, names_of, workers
from tests.bench.rescue.crowd import Crowd

NODES, BIG_NODES = 1_000, 5_000
GRACES = (1, 5)
SAMPLES = 20
NAMESPACES = tuple(f"team-{number}" for number in range(10))


def main() -> None:
    """Measure everything and write the part of the page; the clusters are deleted afterwards."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rescue", description=__doc__)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="rescues at each grace period")
    parser.add_argument("--nodes", type=int, nargs=2, default=(NODES, BIG_NODES), help="of both clusters; others than these write no page")
    parser.add_argument("--times", action="store_true", help="measure and print only the times of rescues, and write no page")
    options = parser.parse_args()
    nodes, big_nodes = options.nodes
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        logs = Path(folder)
        samples = _said(_latency(logs, nodes, options.samples))
        if options.times:
            print(page.table(("goal", "reached"), report.times(samples, _said(_rescues_s(logs, big_nodes)))))
            return
        planning, taken = _said(_big(logs, big_nodes))
        beside = _said(hopeless.on_nodes(big_nodes, logs / "hopeless.log"))
        ways = _said(comparison.measure(logs))
    section = report.section(report.Measured(nodes, samples, planning, taken, ways, beside))
    print(section)
    if (nodes, big_nodes) == (NODES, BIG_NODES):
        page.write("rescue", section)


def _said(found: Any) -> Any:
    """Print a measurement and return it, so that it is not lost if a later part fails."""
    print(found, file=sys.stderr, flush=True)
    return found


def _latency(logs: Path, nodes: int, samples: int) -> list[latency.Sample]:
    group = workers(nodes)
    with cluster_of([group], variant="budget_safe") as cluster:
        fill(cluster, [Crowd(NAMESPACES, names_of(group), grace_s=max(GRACES))])
        return latency.measure(cluster, logs / "latency.log", graces=GRACES, samples=samples)


def _rescues_s(logs: Path, nodes: int) -> float:
    with _full_cluster(nodes) as cluster:
        return footprint.rescues_s(cluster, logs / "footprint.log")


@contextlib.contextmanager
def _full_cluster(nodes: int) -> Iterator[Cluster]:
    group = workers(nodes)
    with cluster_of([group], variant="budget_safe") as cluster:
        fill(cluster, [Crowd(NAMESPACES, names_of(group))])
        yield cluster


def _big(logs: Path, nodes: int) -> tuple[dict[str, Any], dict[str, float]]:
    output = logs / "planning.json"
    with _full_cluster(nodes) as cluster:
        run_once("planning", python("tests.bench.rescue.planning", str(cluster.kubeconfig), output=output))
        taken = footprint.measure(cluster, logs / "footprint.log")
        return json.loads(output.read_text()), taken


if __name__ == "__main__":
    main()
