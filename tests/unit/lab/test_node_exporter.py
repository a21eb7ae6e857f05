# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of simulated node_exporters."""

from __future__ import annotations

import time

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lab.node_exporter import DeviceSettings, NodeSettings, SimulatedNode
from tests.unit.support.clock import SetClock


def value(node: SimulatedNode, name: str, **labels: str) -> float | None:
    """The value of one sample of the node's metrics, or None."""
    families = text_string_to_metric_families(generate_latest(node).decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    found = [sample.value for sample in samples if labels.items() <= sample.labels.items()]
    assert len(found) <= 1
    return found[0] if found else None


def received(node: SimulatedNode, device: str = "eth0") -> float | None:
    return value(node, "node_network_receive_bytes_total", device=device)


def test_counters_increase_by_the_rate_and_keep_their_value_when_it_changes() -> None:
    clock = SetClock()
    node = SimulatedNode("worker-1", clock)
    node.set(NodeSettings({"eth0": DeviceSettings(receive=100.0, initial=7.0)}))
    clock.now_s += 10
    assert received(node) == 1007.0
    node.set(NodeSettings({"eth0": DeviceSettings(receive=0.0, initial=7.0)}))
    clock.now_s += 10
    assert received(node) == 1007.0


def test_a_removed_device_has_no_series() -> None:
    node = SimulatedNode("worker-1", SetClock())
    node.set(NodeSettings({"eth0": DeviceSettings(speed=125e6), "eth1": DeviceSettings()}))
    assert received(node, "eth1") == 0.0
    assert value(node, "node_network_speed_bytes", device="eth0") == 125e6
    assert value(node, "node_network_speed_bytes", device="eth1") is None
    node.set(NodeSettings({"eth0": DeviceSettings()}))
    assert received(node, "eth1") is None


def test_busy_and_idle_time_of_a_cpu_is_the_time_that_has_passed() -> None:
    clock = SetClock()
    node = SimulatedNode("worker-1", clock)
    node.set(NodeSettings(cpus=2, cpu_busy=0.25, nodename="worker-1.example.com"))
    clock.now_s += 8
    assert value(node, "node_cpu_seconds_total", cpu="1", mode="user") == 2.0
    assert value(node, "node_cpu_seconds_total", cpu="1", mode="idle") == 6.0
    assert value(node, "node_uname_info", nodename="worker-1.example.com") == 1.0


def test_samples_have_times_only_by_a_clock_that_is_behind() -> None:
    node = SimulatedNode("worker-1", SetClock())
    node.set(NodeSettings({"eth0": DeviceSettings()}))
    assert all(time_s is None for time_s in times_of(node))
    node.set(NodeSettings({"eth0": DeviceSettings()}, behind_s=3600.0))
    assert all(time_s is not None and abs(time_s + 3600 - time.time()) < 60 for time_s in times_of(node))


def times_of(node: SimulatedNode) -> list[float | None]:
    return [sample.timestamp for family in text_string_to_metric_families(generate_latest(node).decode()) for sample in family.samples]
