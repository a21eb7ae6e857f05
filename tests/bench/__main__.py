# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.bench``: the spread check on 5,000 nodes and 20,000 pods, beside the floor, a plain download of the same lists."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.cluster import Cluster
from tests.bench import big_cluster
from tests.bench.measure import Figures, run_in_turn

REPOSITORY = Path(__file__).resolve().parents[2]
COLLECTIONS = REPOSITORY / ".venv" / "collections"
RESULTS = REPOSITORY / "docs" / "benchmarks.md"
PODS = 20_000
HEADER = """<!--
SPDX-License-Identifier: GPL-3.0-or-later
Copyright: onprem.kube_scheduling contributors
-->
# Benchmarks

`make bench` measures whole processes on a simulated cluster (a real API server and etcd), one after the other in turn, and writes this
page. Only ratios of one run can be compared: cluster and client share the machine's cores.
"""
MODULE = "ansible_collections.onprem.kube_scheduling.plugins.modules.k8s_spread_check"


def main() -> None:
    """Measure and print; the cluster is gone afterwards."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        # In a process of its own: the peak memory of a child includes what its parent had when it was forked.
        build = [sys.executable, "-m", "tests.bench.big_cluster", folder, str(options.pods)]
        cluster = Cluster.at(folder, big_cluster.NAME)
        try:
            subprocess.run(build, check=True, cwd=REPOSITORY)
            report = _report(_measure(cluster, options.runs), options.pods, options.runs)
        finally:
            cluster.down()
    print(report)
    if options.pods == PODS:
        RESULTS.write_text(f"{HEADER}\n{report}\n", encoding="utf-8")
        print(f"written to {RESULTS.relative_to(REPOSITORY)}")


def _measure(cluster: Cluster, runs: int) -> dict[str, Figures]:
    kubectl = f"{cluster.binary('kubectl')} --kubeconfig {cluster.kubeconfig} get --raw"
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": {"kubeconfig": str(cluster.kubeconfig)}})
    ansible = Path(sys.executable).with_name("ansible")
    commands = {
        "floor": ["sh", "-c", f"{kubectl} /api/v1/nodes && {kubectl} /api/v1/pods"],
        "check": [sys.executable, "-m", MODULE],
        "check without prediction": [sys.executable, "-m", MODULE],
        "ansible": [str(ansible), "localhost", "-m", "ansible.builtin.ping"],
    }
    inputs = {
        "check": arguments,
        "check without prediction": json.dumps({"ANSIBLE_MODULE_ARGS": {"kubeconfig": str(cluster.kubeconfig), "predict": False}}),
    }
    return run_in_turn(commands, inputs=inputs, env={"PYTHONPATH": str(COLLECTIONS)}, runs=runs)


def _report(figures: dict[str, Figures], pods: int, runs: int) -> str:
    floor = figures["floor"]
    rows = [
        ("`kubectl get --raw` of nodes and pods (the floor)", floor),
        ("k8s_spread_check, module process", figures["check"]),
        ("k8s_spread_check, `predict: false`", figures["check without prediction"]),
        ("Ansible's own start (`ansible -m ping`)", figures["ansible"]),
    ]
    lines = [
        f"On {os.cpu_count()} cores, Python {sys.version.split()[0]}: "
        f"{big_cluster.NODES:,} nodes, {pods:,} pods, {pods // big_cluster.REPLICAS:,} Deployments; medians of {runs} runs in turn",
        "",
        "| what | wall s | × floor | cpu s | peak MB |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {name} | {f.wall:.2f} | {f.wall / floor.wall:.2f} | {f.cpu:.2f} | {f.memory:.0f} |" for name, f in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
