# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.bench``: the spread check on 5,000 nodes with 20,000 and with 100,000 pods, beside what else does the job."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lab import binaries
from lab.cluster import Cluster
from tests.bench import big_cluster, descheduler, floor, report, requests, spread_check
from tests.bench.measure import python, run_in_turn, run_once

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Size:
    """A cluster to measure on, how often, and how much memory the check may take."""

    pods: int
    runs: int
    most_memory_mb: int


SIZES = (Size(20_000, runs=5, most_memory_mb=150), Size(100_000, runs=3, most_memory_mb=250))


def main() -> None:
    """Measure and print; the clusters are gone afterwards. The page is written when all sizes were measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--pods", type=int, choices=[size.pods for size in SIZES], help="measure this size only, and write no page")
    parser.add_argument("--runs", type=int, help="repetitions at every size")
    options = parser.parse_args()
    sizes = [size for size in SIZES if options.pods in (None, size.pods)]
    started = time.monotonic()
    program = binaries.descheduler()
    measured = [_measure(size, options.runs or size.runs, program) for size in sizes]
    page = report.page(measured, requests.counted())
    print(page)
    if len(sizes) == len(SIZES):
        RESULTS.write_text(page, encoding="utf-8")
        print(f"written to {RESULTS.relative_to(REPOSITORY)} after {time.monotonic() - started:.0f} s")


def _measure(size: Size, runs: int, program: Path) -> report.Measured:
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        # In a process of its own: the peak memory of a child includes what its parent had when it was forked.
        build = [sys.executable, "-m", "tests.bench.big_cluster", folder, str(size.pods)]
        cluster = Cluster.at(folder, big_cluster.NAME)
        try:
            subprocess.run(build, check=True, cwd=REPOSITORY)
            return _measure_on(cluster, size, runs, program, Path(folder))
        finally:
            cluster.down()


def _measure_on(cluster: Cluster, size: Size, runs: int, program: Path, folder: Path) -> report.Measured:
    result, log, looked_at, judged = (folder / name for name in ("check.json", "descheduler.log", "original.json", "predicates.json"))
    kubeconfig = str(cluster.kubeconfig)
    in_turn = run_in_turn(
        {
            "floor": floor.download(cluster),
            "check": spread_check.module(cluster, result),
            "check_without_prediction": spread_check.module(cluster, folder / "unpredicted.json", predict=False),
            "ansible": spread_check.ansible_start(),
        },
        runs=runs,
        before_each=lambda: big_cluster.stir(cluster),
    )
    others = {
        "descheduler": run_once("descheduler", descheduler.dry_run(program, cluster, log)),
        "original_process": run_once("the original's algorithm", python("tests.bench.original", kubeconfig, output=looked_at)),
    }
    run_once("predicates", python("tests.bench.predicates", kubeconfig, output=judged))
    found = json.loads(result.read_text())
    return report.Measured(
        pods=size.pods,
        runs=runs,
        most_memory_mb=size.most_memory_mb,
        **in_turn,
        **others,
        original=json.loads(looked_at.read_text()),
        collapsed=found["summary"]["collapsed"],
        restartable=found["summary"]["restartable"],
        evictions=descheduler.evictions(log),
        predicates=json.loads(judged.read_text()),
    )


if __name__ == "__main__":
    main()
