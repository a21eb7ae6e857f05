# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The traffic of the shared cluster's workers: simulated node_exporters, and a real Prometheus that scrapes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from lab.exporter_process import Exporters, exporters
from lab.node_exporter import NodeSettings
from lab.prometheus_server import PrometheusServer, prometheus_server
from tests.integration.extender.extender_process import Extender
from tests.integration.workloads import wait_until

Json = dict[str, Any]

PROFILE = "network-traffic"
DEVICE = "eth0"
SPEED = 1.25e9
"""10 Gbit/s in bytes per second."""
BUSY = 0.6 * SPEED
WINDOW_S = 2
SCRAPE_INTERVAL = "200ms"
NODE_EXPORTER_PORT = 9100
SECOND_JOB = "node-second"
SETTLED_WITHIN_S = 30.0


class Traffic:
    """Sets the traffic of the nodes. ``instances`` has the label `instance` of each in Prometheus."""

    def __init__(self, instances: Mapping[str, str], exporters: Exporters, prometheus: PrometheusServer) -> None:
        self.prometheus = prometheus
        self.workers = [name for name in instances if name.startswith("worker")]
        self.instances = instances
        self._exporters = exporters

    def set_quiet(self, *quiet: str) -> None:
        """Let these workers have no traffic, and all others much."""
        for name in self.instances:
            self.set(name, 0.0 if name in quiet else BUSY)

    def settle(self, extender: Extender, quiet: str) -> None:
        """Let only this worker have no traffic, and wait until the extender gives it alone the best score."""
        self.set_quiet(quiet)
        self.wait_best(extender, quiet)

    def rate(self, node: str) -> float | None:
        """Return the bytes per second that a node receives, as Prometheus measures it."""
        selector = f'device="{DEVICE}",instance="{self.instances[node]}"'
        vector = self.prometheus.query(f"rate(node_network_receive_bytes_total{{{selector}}}[{WINDOW_S}s])")
        return float(vector[0]["value"][1]) if vector else None

    def set(self, node: str, receive: float) -> None:
        """Set the bytes per second that a node receives."""
        self._exporters.set_traffic(node, device=DEVICE, receive=receive, speed=SPEED)

    def set_load(self, node: str, load: NodeSettings) -> None:
        """Set the whole load of a node, or of one of ``second_exporters``."""
        self._exporters.set(node, load)

    def remove(self, node: str) -> None:
        """End the node_exporter of a node."""
        self._exporters.remove(node)

    def wait_best(self, extender: Extender, *best: str) -> None:
        """Wait until the extender gives these workers the best score, and all others a lower one."""

        def is_settled() -> bool:
            scores = extender.scores(self.workers, PROFILE)
            return all(scores[name] == 10 if name in best else scores[name] <= 3 for name in self.workers)

        wait_until(is_settled, timeout_s=SETTLED_WITHIN_S, what=f"the best score of {best}")


@contextmanager
def running_traffic(
    cluster: Cluster, folder: Path, labels: Mapping[str, str] | None = None, *, scraped_twice: bool = False
) -> Iterator[Traffic]:
    """Run simulated node_exporters and a Prometheus that scrapes them. All workers are quiet at first.

    ``labels``: the label `instance` of each node that is scraped. All nodes are scraped without it.

    ``scraped_twice``: Prometheus has one more job, which scrapes ``second_exporter`` of each node.
    """
    with exporters(folder / "exporters.log") as running:
        labels = labels or instances(cluster)
        targets = running.targets(labels)
        if scraped_twice:
            second = running.targets({second_exporter(name): instance for name, instance in labels.items()})
            targets += [replace(target, labels={**target.labels, "job": SECOND_JOB}) for target in second]
        with prometheus_server(cluster, folder, targets, scrape_interval=SCRAPE_INTERVAL) as prometheus:
            found = Traffic(labels, running, prometheus)
            found.set_quiet(*found.workers)
            yield found


def second_exporter(node: str) -> str:
    """Return the name by which the load of a node's second node_exporter is set. It does not run before that."""
    return f"{node}-second"


def settings(traffic: Traffic, kubeconfig: str, **prometheus: Any) -> Json:
    """Return the settings of an extender that scores by network traffic. Keywords are added to those of Prometheus."""
    source = {"urls": [traffic.prometheus.url], "refresh_s": 1, "timeout_s": 2, **prometheus}
    agent = {"name": "network_traffic", "args": {"device": "eth.*", "window": WINDOW_S, "max_age_s": 6}}
    return {
        "sources": {"prometheus": source, "kubernetes": {"kubeconfig": kubeconfig}},
        "profiles": {PROFILE: {"agents": [agent]}},
    }


def instances(cluster: Cluster) -> dict[str, str]:
    """Return the label `instance` of each node, as Prometheus has it: the node's address and node_exporter's port. Workers come first."""
    found = {}
    for node in cluster.get("/api/v1/nodes")["items"]:
        (address,) = (entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")
        found[node["metadata"]["name"]] = f"{address}:{NODE_EXPORTER_PORT}"
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith("worker"), item[0])))
