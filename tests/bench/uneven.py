# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU time of the check on the cluster that needs the most work: ``python -m tests.bench --part uneven``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.cluster import Cluster
from tests.bench import big_cluster, spread_check, uneven_cluster
from tests.bench.measure import Figures, run_in_turn
from tests.bench.page import goal, machine, table
from tests.bench.pod_variants import HOST, ZONE

REPOSITORY = Path(__file__).resolve().parents[2]
MAX_CPU_S = 10.0
MAX_GROWTH = 2.3
RUNS = 9

TEXT = """One of three zones is full. All Deployments are in one namespace, and each has {replicas} replicas on one node and a budget. The
check compares them by zone and by node, and simulates a restart of each. *Least* is the run with the least CPU time: the speed of a shared
machine can change by a factor of two within a minute, and other programs only make a run slower."""


@dataclass(frozen=True)
class Measured:
    """The runs at one number of Deployments, with and without simulated restarts, and how many the check finds restartable."""

    deployments: int
    check: Figures
    without_prediction: Figures
    restartable: int


def measure(runs: int = RUNS) -> str:
    """Measure both sizes, and return the part of the page."""
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        cluster = Cluster.at(folder, uneven_cluster.NAME)
        try:
            _prepare("start", folder)
            half = _measure(cluster, Path(folder), uneven_cluster.DEPLOYMENTS // 2, runs)
            _prepare("complete", folder)
            return section(half, _measure(cluster, Path(folder), uneven_cluster.DEPLOYMENTS, runs))
        finally:
            cluster.down()


def _prepare(step: str, folder: str) -> None:
    # In a process of its own: the peak memory of a child includes what its parent had when it was forked.
    subprocess.run([sys.executable, "-m", "tests.bench.uneven_cluster", step, folder], check=True, cwd=REPOSITORY)


def _measure(cluster: Cluster, folder: Path, deployments: int, runs: int) -> Measured:
    result, keys = folder / "uneven.json", [ZONE, HOST]
    figures = run_in_turn(
        {
            "check": spread_check.module(cluster, result, topology_keys=keys),
            "without": spread_check.module(cluster, folder / "unpredicted.json", topology_keys=keys, predict=False),
        },
        runs=runs,
        before_each=lambda: big_cluster.stir(cluster),
    )
    summary = json.loads(result.read_text())["summary"]
    if summary["collapsed"] != deployments:
        raise SystemExit(f"the check finds {summary['collapsed']} of {deployments} piled-up Deployments")
    return Measured(deployments, figures["check"], figures["without"], summary["restartable"])


def section(half: Measured, whole: Measured) -> str:
    """The part of the page."""
    rows = [
        (
            f"{measured.deployments:,} Deployments, {measured.restartable:,} of them restartable",
            f"{measured.check.wall:.2f}",
            f"{measured.check.cpu:.2f}",
            f"{measured.check.least_cpu:.2f}",
            f"{measured.without_prediction.least_cpu:.2f}",
            f"{measured.check.memory:.0f}",
        )
        for measured in (half, whole)
    ]
    runs = len(whole.check.cpu_s)
    header = (f"medians of {runs} runs in turn", "wall s", "cpu s", "least cpu s", "least cpu s with `predict: false`", "peak MB")
    goals = [
        (f"least cpu of the check with {whole.deployments:,} Deployments", goal(whole.check.least_cpu, MAX_CPU_S, "s", digits=2)),
        (
            f"growth of the least cpu from {half.deployments:,} to {whole.deployments:,} Deployments",
            goal(whole.check.least_cpu / half.check.least_cpu, MAX_GROWTH, "×", digits=2),
        ),
    ]
    title = f"## Many uneven workloads\n\n{uneven_cluster.NODES:,} nodes and {uneven_cluster.PODS:,} pods."
    return "\n\n".join(
        [f"{title} {TEXT.format(replicas=uneven_cluster.REPLICAS)}", machine(), table(header, rows), table(("goal", "reached"), goals)]
    )
