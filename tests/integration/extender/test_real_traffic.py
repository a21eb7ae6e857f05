# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real traffic: packets of a sender, real node_exporters in three network namespaces, Prometheus, the extender and kube-scheduler.

It needs root. KUBE_SCHEDULING_REQUIRE_ENGINE=1 makes it an error that it cannot run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.network_namespaces import NetworkNamespace
from lab.prometheus_config import Target
from lab.prometheus_server import PrometheusServer, prometheus_server
from lab.traffic_sender import TrafficSender
from tests.integration.conftest import SUMMARY
from tests.integration.extender.conftest import StartExtender, StartScheduler
from tests.integration.extender.extender_process import Extender
from tests.integration.extender.real_machines import node_exporter
from tests.integration.extender.traffic import NODE_EXPORTER_PORT, instances
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.workloads import wait_until

Json = dict[str, Any]

PROFILE = "real-traffic"
SCRAPE_INTERVAL = "500ms"
WINDOW_S = 3
MUCH, SOME = 20e6, 8e6
"""Bytes per second."""
SPEED = "200M"
"""Bits per second. The device claims 10 Gbit/s, of which a test could use only a small share."""
ESTIMATE = "1M"
"""The traffic that is assumed of a new pod, in bits per second. With the default some pods would fill the slow device."""
SEEN_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def nodes(lab_cluster: Cluster, machines: list[NetworkNamespace]) -> dict[str, NetworkNamespace]:
    """The machines by the name of the worker whose traffic they have."""
    return dict(zip(instances(lab_cluster), machines, strict=False))


@pytest.fixture(scope="module")
def prometheus(
    lab_cluster: Cluster, nodes: dict[str, NetworkNamespace], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusServer]:
    """A Prometheus that scrapes a real node_exporter on each machine."""
    folder = tmp_path_factory.mktemp("real")
    labels = instances(lab_cluster)
    targets = [Target(f"{machine.address}:{NODE_EXPORTER_PORT}", labels={"instance": labels[name]}) for name, machine in nodes.items()]
    with contextlib.ExitStack() as running:
        for machine in nodes.values():
            running.enter_context(node_exporter(machine, folder))
        yield running.enter_context(prometheus_server(lab_cluster, folder, targets, scrape_interval=SCRAPE_INTERVAL))


@pytest.fixture(scope="module")
def extender(start_extender: StartExtender, prometheus: PrometheusServer, extender_kubeconfig: Path) -> Extender:
    args = {"device": "eth0", "window": WINDOW_S, "max_age_s": 10, "estimate": ESTIMATE, "speeds": [{"nodes": ".*", "speed": SPEED}]}
    return start_extender(
        {
            "sources": {
                "prometheus": {"urls": [prometheus.url], "refresh_s": 1, "timeout_s": 2},
                "kubernetes": {"kubeconfig": str(extender_kubeconfig)},
            },
            "profiles": {PROFILE: {"agents": [{"name": "network_traffic", "args": args}]}},
        }
    )


@pytest.fixture(scope="module", autouse=True)
def scheduler(start_scheduler: StartScheduler, extender: Extender) -> None:
    start_scheduler(extender, profiles=(PROFILE,), prioritizeVerb="prioritize", weight=10)


def test_pods_follow_the_quiet_node(
    nodes: dict[str, NetworkNamespace],
    sender: TrafficSender,
    extender: Extender,
    pods: WaitingPods,
    record_property: Callable[[str, object], None],
) -> None:
    first, second, third = nodes
    addresses = {name: machine.address for name, machine in nodes.items()}
    times_s = []
    for quiet, busy in ((first, second), (second, first)):
        sender.set({addresses[busy]: MUCH, addresses[third]: SOME})
        moved_s = time.monotonic()
        wait_until(lambda quiet=quiet: is_best(extender, quiet, nodes), timeout_s=SEEN_WITHIN_S, what=f"the best score of {quiet}")
        assert pods.bind(1, PROFILE) == [quiet]
        times_s.append(time.monotonic() - moved_s)
        assert pods.bind(6, PROFILE) == [quiet] * 6
    record_property(
        SUMMARY,
        f"extender, real packets: pods are on the quiet node {times_s[0]:.1f} s after the start of traffic, and"
        f" {times_s[1]:.1f} s after it has moved (window {WINDOW_S} s, scrape {SCRAPE_INTERVAL})",
    )


def is_best(extender: Extender, quiet: str, nodes: dict[str, NetworkNamespace]) -> bool:
    """Return whether this node has the best score, and the others of the three have a lower one."""
    scores = extender.scores(nodes, PROFILE)
    return scores.pop(quiet) >= 9 and max(scores.values()) <= 7
