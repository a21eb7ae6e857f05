# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Without Prometheus the extender scrapes real node_exporters at the addresses of the nodes. It needs root, see real_machines.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.network_namespaces import NetworkNamespace
from lab.pytest_fixtures import ClusterFactory
from lab.scenario import NodeGroup, Scenario
from lab.traffic_sender import TrafficSender
from tests.integration.extender.conftest import StartExtender, reader_kubeconfig, schedulers
from tests.integration.extender.extender_process import Extender
from tests.integration.extender.real_machines import node_exporter
from tests.integration.extender.traffic import NODE_EXPORTER_PORT
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.workloads import wait_until

PROFILE = "direct"
GROUP = NodeGroup("machine", count=3)
WINDOW_S = 3
BYTES_PER_S = 20e6
SPEED = "200M"
SEEN_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def cluster(machines: list[NetworkNamespace], fresh_module_cluster: ClusterFactory) -> Cluster:
    """A cluster whose nodes have the addresses of the machines."""
    made = fresh_module_cluster(Scenario("direct", (GROUP,)))
    for number, machine in enumerate(machines):
        addresses = [{"type": "InternalIP", "address": machine.address}]
        made.api.merge_patch(f"/api/v1/nodes/{GROUP.node_name(number)}/status", {"status": {"addresses": addresses}})
    return made


@pytest.fixture(scope="module")
def extender(
    cluster: Cluster, machines: list[NetworkNamespace], start_extender: StartExtender, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Extender]:
    args = {"device": "eth0", "window": WINDOW_S, "max_age_s": 10, "estimate": "1M", "speeds": [{"nodes": ".*", "speed": SPEED}]}
    folder = tmp_path_factory.mktemp("direct")
    with contextlib.ExitStack() as running:
        for machine in machines:
            running.enter_context(node_exporter(machine, folder))
        yield start_extender(_settings(reader_kubeconfig(cluster), args))


def _settings(kubeconfig: Path, args: dict[str, object]) -> dict[str, object]:
    sources = {"node_exporter": {"port": NODE_EXPORTER_PORT, "refresh_s": 1}, "kubernetes": {"kubeconfig": str(kubeconfig)}}
    return {"sources": sources, "profiles": {PROFILE: {"agents": [{"name": "network_traffic", "args": args}]}}}


def test_pods_are_bound_to_the_node_without_traffic(
    cluster: Cluster,
    machines: list[NetworkNamespace],
    sender: TrafficSender,
    extender: Extender,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    names = [GROUP.node_name(number) for number in range(len(machines))]
    pods = WaitingPods(cluster, "default")
    for start in schedulers(cluster, tmp_path_factory):
        start(extender, profiles=(PROFILE,), prioritizeVerb="prioritize", weight=10)
        for quiet in (0, 2):
            sender.set({machine.address: BYTES_PER_S for number, machine in enumerate(machines) if number != quiet})

            def is_best(name: str = names[quiet]) -> bool:
                scores = extender.scores(names, PROFILE)
                return scores.pop(name) >= 9 and max(scores.values()) <= 5

            wait_until(is_best, timeout_s=SEEN_WITHIN_S, what=f"the best score of {names[quiet]}")
            assert pods.bind(5, PROFILE) == [names[quiet]] * 5
