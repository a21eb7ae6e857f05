# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.bench``: spread check, rescues and extender on big clusters, beside what else does the job."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lab import binaries
from lab.cluster import Cluster
from lab.processes import cpu_s
from tests.bench import big_cluster, descheduler, floor, page, report, requests, spread_check, start, uneven
from tests.bench.measure import COLLECTIONS, python, run_in_turn, run_once

PROCESSES = {
    "report": ["tests.bench.html_report"],
    "rescue": ["tests.bench.rescue"],
    "extender": ["tests.bench.extender"],
    "extender-binding": ["tests.bench.extender", "--bindings"],
    "site": ["tests.bench.installation"],
}
"""The modules and arguments of the parts that are measured by a process of their own.

What they import does not count then as memory of the processes that the spread part starts.
"""
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Size:
    """A cluster to measure on, how often, and what the check may take: memory, and wall time in multiples of the floor's."""

    pods: int
    runs: int
    most_memory_mb: int
    most_floors: float


SIZES = (
    Size(20_000, runs=5, most_memory_mb=150, most_floors=1.2),
    Size(100_000, runs=3, most_memory_mb=250, most_floors=1.1),
)


def main() -> None:
    """Measure and print; the clusters are gone afterwards. A part of the page is written when all of it was measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--part", choices=page.PARTS, help="measure this part only")
    parser.add_argument("--pods", type=int, choices=[size.pods for size in SIZES], help="spread: measure this size only, and write no page")
    parser.add_argument("--runs", type=int, help="spread and uneven: repetitions at every size")
    options = parser.parse_args()
    for part in page.PARTS:
        if options.part not in (None, part):
            continue
        started = time.monotonic()
        if part in PROCESSES:
            subprocess.run([sys.executable, "-m", *PROCESSES[part]], check=True, cwd=REPOSITORY, env=_environment())
        elif part == "uneven":
            section = uneven.measure(options.runs or uneven.RUNS)
            print(section)
            page.write("uneven", section)
        elif part == "start":
            section = start.measured()
            print(section)
            page.write(part, section)
        else:
            _measure_spread(options.pods, options.runs)
        print(f"{part}: {time.monotonic() - started:.0f} s", flush=True)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(COLLECTIONS)}


def _measure_spread(pods: int | None, runs: int | None) -> None:
    sizes = [size for size in SIZES if pods in (None, size.pods)]
    program = binaries.descheduler()
    section = report.section([_measure(size, runs or size.runs, program) for size in sizes], requests.counted())
    print(section)
    if len(sizes) == len(SIZES):
        page.write("spread", section)


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
        server_cpu_s=lambda: sum(cpu_s(status.pid) for status in cluster.status() if status.pid),
    )
    others = {
        "descheduler": run_once("descheduler", descheduler.dry_run(program, cluster, log)),
        "original_process": run_once("the original's algorithm", python("tests.bench.original", kubeconfig, output=looked_at)),
    }
    run_once("predicates", python("tests.bench.filters", kubeconfig, output=judged))
    found = json.loads(result.read_text())
    return report.Measured(
        pods=size.pods,
        runs=runs,
        most_memory_mb=size.most_memory_mb,
        most_floors=size.most_floors,
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
