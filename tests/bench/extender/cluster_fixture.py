# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process with the servers that an extender reads: an API server with nodes and pods, and one that answers queries as Prometheus does.

Real servers would take the machine's cores from what is measured. Pods are bound at a constant rate until the standard input ends.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.bench.extender import series
from tests.bench.extender.settings import PROFILE, queries
from tests.unit.services.extender.sources import kube_server
from tests.unit.services.extender.sources.kube_server import KubeServer

REPOSITORY = Path(__file__).resolve().parents[3]
PODS_PER_NODE = 4
BINDINGS_PER_S = 50


@dataclass(frozen=True)
class Fixture:
    """The URLs of the servers, and the file by which the extender connects to the API server."""

    prometheus: str
    kubeconfig: str


@contextmanager
def cluster_fixture(folder: Path, nodes: int, *, bindings_per_s: int = BINDINGS_PER_S) -> Iterator[Fixture]:
    """Run the servers in a process of their own."""
    command = [sys.executable, "-m", "tests.bench.extender.cluster_fixture", str(nodes), str(bindings_per_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("the servers of the extender did not start")
        urls = json.loads(line)
        kubeconfig = folder / "fixture.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(urls["kubernetes"])))
        yield Fixture(urls["prometheus"], str(kubeconfig))
        process.terminate()


def node_names(count: int) -> list[str]:
    """Return the names of the nodes."""
    return [f"worker-{number}" for number in range(1, count + 1)]


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {}}],
    }


def _fill(server: KubeServer, names: list[str]) -> None:
    for number, name in enumerate(names):
        address = f"10.0.{number >> 8}.{number & 255}"
        annotations = {"congestion-factor": str(number * 37 % 100)}
        server.put("nodes", kube_server.node(name, address, annotations=annotations, **{"kubernetes.io/hostname": name}))
        for replica in range(PODS_PER_NODE):
            pod = kube_server.pod(f"app-{number}-{replica}", name, phase="Running", conditions=kube_server.READY)
            server.put("pods", pod)


def _bind(server: KubeServer, names: list[str], per_s: int) -> None:
    """Create and bind so many pods a second."""
    began_at_s, number = time.monotonic(), 0
    while True:
        time.sleep(max(0.0, began_at_s + number / per_s - time.monotonic()))
        pod = kube_server.pod(f"new-{number}")
        pod["spec"]["schedulerName"] = PROFILE
        server.put("pods", pod)
        server.put("pods", {**pod, "metadata": dict(pod["metadata"]), "spec": {**pod["spec"], "nodeName": names[number % len(names)]}})
        number += 1


def main() -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int)
    parser.add_argument("bindings_per_s", type=int)
    options = parser.parse_args()
    names = node_names(options.nodes)
    kubernetes = KubeServer()
    _fill(kubernetes, names)
    prometheus = series.start(names, queries())
    print(json.dumps({"prometheus": prometheus.url, "kubernetes": f"http://127.0.0.1:{kubernetes.server_address[1]}"}), flush=True)
    if options.bindings_per_s:
        threading.Thread(target=_bind, args=(kubernetes, names, options.bindings_per_s), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
