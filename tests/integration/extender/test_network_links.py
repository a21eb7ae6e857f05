# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The links of a machine with real devices: what the kernel counts, what node_exporter says, and what the agent makes of it.

It needs root, see real_machines.py.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.devices import PROPERTIES
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, NodeView, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import Identity, NodeIdentity, NodeRecord
from ansible_collections.onprem.kube_scheduling.services.extender.sources.node_exporter.node_exporter import NodeExporterSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import NodeExporterSettings

from lab.network_namespaces import NetworkNamespace
from tests.integration.extender.real_machines import node_exporter, real_machines
from tests.integration.extender.traffic import NODE_EXPORTER_PORT
from tests.integration.workloads import wait_until
from tests.unit.services.extender.agents.network.kernel_kinds import KINDS, RANDOM, SET

RECEIVED = "node_network_receive_bytes_total"
WINDOW_S = 60
FRAMES, FRAME_BYTES = 5_000, 1_000
SEND = """
import socket, sys
device, to, count, size = sys.argv[1:]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind((device, 0))
    for _frame in range(int(count)):
        sender.send(bytes.fromhex(to.replace(":", "")) + sender.getsockname()[4] + b"\\x88\\xb5" + bytes(int(size)))
"""
"""The program that sends frames. It runs in the namespace of a machine."""

PAIR = ("type", "veth", "peer", "name")
MADE = {
    "veth": ("link", "add", "x", *PAIR, "x1"),
    "bridge": ("link", "add", "x", "type", "bridge"),
    "macvlan": ("link", "add", "link", "eth0", "name", "x", "type", "macvlan", "mode", "bridge"),
    "tap": ("tuntap", "add", "x", "mode", "tap"),
    "tunnel": ("tuntap", "add", "x", "mode", "tun"),
    "tunnel port": ("link", "add", "x", "type", "vxlan", "id", "5", "dstport", "4789", "dev", "eth0"),
}
"""The arguments of ``ip`` that make a device, by the kind in docs/network-links.md."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[NetworkNamespace]:
    """A machine with eth0 and a node_exporter."""
    with real_machines(1) as (made,), node_exporter(made, tmp_path):
        yield made


def ip(machine: NetworkNamespace, *arguments: str) -> None:
    subprocess.run(["ip", "-n", machine.name, *arguments], check=True)


def send_frames(device: str, to: str, machine: NetworkNamespace | None = None) -> None:
    """Send frames from a device of a machine, or of this one."""
    command = [sys.executable, "-c", SEND, device, to, str(FRAMES), str(FRAME_BYTES)]
    subprocess.run(command if machine is None else machine.command(*command), check=True)


class Scrapes:
    """Scrapes the machine as the extender does without Prometheus."""

    def __init__(self, machine: NetworkNamespace, of: Agent) -> None:
        self._of = of
        self._source = NodeExporterSource(NodeExporterSettings(port=NODE_EXPORTER_PORT))
        self._nodes = {"n": NodeRecord(Identity("n"), {}, {}, {}, NodeIdentity(()), machine.address)}

    def node(self) -> NodeView:
        """Return the node with the values of a new scrape."""
        readings = self._source.read(self._of.queries, self._nodes)
        values: dict[object, Sequence[Series]] = {query: by_node.get("n", ()) for query, by_node in readings.values.items()}
        return NodeView("n", series=values)  # type: ignore[arg-type]

    def ready(self) -> None:
        """Wait for the exporter."""
        wait_until(lambda: any(self.node().series.values()), timeout_s=30, what="the first scrape")

    def explanation(self) -> str:
        """Return what the agent says about the node after a new scrape."""
        node, now_s = self.node(), time.monotonic()
        return self._of.judge(self._of.prepare([node], now_s), node, None, now_s).explanation

    def values(self, metric: str) -> dict[str, float]:
        """Return the values of a metric by device."""
        series = next(found for query, found in self.node().series.items() if query[0] == metric)
        return {one.labels["device"]: one.value for one in series}

    def close(self) -> None:
        self._source.close()


@pytest.fixture
def scrapes(machine: NetworkNamespace) -> Iterator[Scrapes]:
    made = Scrapes(machine, build_agent("network_traffic", {"window": WINDOW_S, "device": ".*"}))
    made.ready()
    yield made
    made.close()


@pytest.mark.parametrize("kind", MADE)
def test_the_kernel_and_node_exporter_give_a_device_the_properties_of_its_kind(
    machine: NetworkNamespace, scrapes: Scrapes, kind: str
) -> None:
    ip(machine, *MADE[kind])
    protocol, flags, is_stacked, assigned = KINDS[kind]
    found = [scrapes.values(metric) for metric in PROPERTIES]
    of_protocol, of_flags, index, link, of_address = (values["x"] for values in found)
    assert (of_protocol, link != index, of_address) == (protocol, is_stacked, assigned)
    # Up, running and promiscuous depend on the state of a device, and all others on its kind.
    assert int(of_flags) & ~0x141 == flags & ~0x141
    if assigned == RANDOM:
        ip(machine, "link", "set", "x", "address", "02:00:00:00:00:02")
        assert scrapes.values("node_network_address_assign_type")["x"] == SET


def test_frames_that_a_bridge_forwards_count_on_the_card_in_it(machine: NetworkNamespace, scrapes: Scrapes) -> None:
    """The bridge has the speed of its ports, and nearly no traffic. Its name and its address say that it is no NIC."""
    outside = f"out{next(NUMBERS)}-{machine.address.split('.')[2]}"
    ip(machine, "link", "add", "lan", "type", "bridge")
    subprocess.run(["ip", "link", "add", outside, *PAIR, "eth1", "netns", machine.name], check=True)
    ip(machine, "link", "add", "vm", *PAIR, "guest")
    for port in ("eth1", "vm"):
        ip(machine, "link", "set", port, "master", "lan")
    for device in ("lan", "eth1", "vm", "guest"):
        ip(machine, "link", "set", device, "up")
    subprocess.run(["ip", "link", "set", outside, "up"], check=True)
    scrapes.node()
    wait_until(lambda: scrapes.values(RECEIVED).get("eth1") is not None, timeout_s=10, what="a rate of eth1")
    send_frames(outside, "02:00:00:00:00:01")
    rates = scrapes.values(RECEIVED)
    assert rates["eth1"] > 100 * rates["lan"] and rates["guest"] > 100 * rates["lan"]
    assert scrapes.values("node_network_speed_bytes")["lan"] == 1.25e9
    assert " of 10 Gbit/s on eth1, the fullest of 2 links, receive" in scrapes.explanation()


NUMBERS = itertools.count()


def test_traffic_inside_a_machine_counts_on_no_link(machine: NetworkNamespace, scrapes: Scrapes) -> None:
    """The ends of a veth pair send to each other, and so do two macvlan devices on eth0. Their speeds are known."""
    ip(machine, "link", "add", "fwln1", *PAIR, "fwpr1")
    for number, name in enumerate(("mac-a", "mac-b")):
        address = f"02:00:00:00:01:0{number}"
        ip(machine, "link", "add", "link", "eth0", "name", name, "address", address, "type", "macvlan", "mode", "bridge")
    for device in ("fwln1", "fwpr1", "mac-a", "mac-b"):
        ip(machine, "link", "set", device, "up")
    index, link = (scrapes.values(metric) for metric in ("node_network_iface_id", "node_network_iface_link"))
    assert (link["fwln1"], link["fwpr1"]) == (index["fwpr1"], index["fwln1"])
    assert link["mac-a"] == link["mac-b"] == index["eth0"] != link["eth0"]
    wait_until(lambda: scrapes.values(RECEIVED).get("mac-b") is not None, timeout_s=10, what="a rate of mac-b")
    send_frames("fwln1", "ff:ff:ff:ff:ff:ff", machine)
    send_frames("mac-a", "02:00:00:00:01:01", machine)
    rates = scrapes.values(RECEIVED)
    assert rates["fwpr1"] > 100 * rates["eth0"] and rates["mac-b"] > 100 * rates["eth0"]
    assert "0% of 10 Gbit/s on eth0, receive" in scrapes.explanation()
