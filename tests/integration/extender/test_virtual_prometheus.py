# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Prometheus of the simulation of placements answers as a real one does, for the same samples at the same time."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent

from lab.cluster import Cluster
from lab.exporter_process import exporters
from lab.node_exporter import DeviceSettings, NodeSettings
from lab.prometheus_server import PrometheusServer, prometheus_server
from tests.integration.workloads import wait_until
from tests.soak.placement.cluster import RECEIVED, SPEED_METRIC
from tests.soak.placement.query_server import EPOCH_S, QueryServer
from tests.soak.placement.virtual_prometheus import VirtualPrometheus

Vector = dict[frozenset[tuple[str, str]], float]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], list[tuple[float, float]]]

INSTANCES = {"quiet": "192.0.2.1:9100", "busy": "192.0.2.2:9100", "restarted": "192.0.2.3:9100"}
SPEED = 1.25e9
EARLIER_S = (0.0, 0.3, 0.9, 1.7)
"""Seconds before the newest sample for which both are asked, so that the edges of the windows are near and far."""
TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def prometheus(lab_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """A Prometheus with some seconds of samples. One counter began again meanwhile, and one is 0 in the first samples."""
    folder = tmp_path_factory.mktemp("prometheus")
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(exporters(folder / "exporters.log"))
        server = stack.enter_context(prometheus_server(lab_cluster, folder, running.targets(INSTANCES), scrape_interval="300ms"))
        for number, name in enumerate(INSTANCES):
            devices = {"eth0": DeviceSettings(1e6 * number, 0, SPEED), "eth1": DeviceSettings(2e6, 0, SPEED, initial=7e8)}
            running.set(name, NodeSettings(devices={**devices, "lo": DeviceSettings(5e6)}))
        rates = "rate(node_network_receive_bytes_total[2s])"
        wait_until(lambda: len(server.query(rates)) == 3 * len(INSTANCES), what="the first samples")
        running.remove("restarted")
        running.set("restarted", NodeSettings(devices={name: DeviceSettings(3e6, 0, SPEED) for name in ("eth0", "eth1")}))
        time.sleep(max(EARLIER_S) + 1.5)
        yield server


@pytest.mark.parametrize("window_s", [2, 4, 60])
def test_the_answers_are_those_of_a_real_prometheus(prometheus: PrometheusServer, window_s: int) -> None:
    rate_and_speed = build_agent("network_traffic", {"window": window_s}).queries[:2]
    virtual, server = VirtualPrometheus(rate_and_speed), QueryServer()
    samples = raw(prometheus.url)
    for (metric, labels), found in samples.items():
        for at_s, value in found:
            virtual.add(metric, dict(labels), round(at_s - EPOCH_S, 3), value)
    newest_s = min(found[-1][0] for (_metric, labels), found in samples.items() if ("device", "eth0") in labels)
    server.source = virtual
    try:
        for text in virtual.texts:
            for now_s in (round(newest_s - earlier_s, 3) for earlier_s in EARLIER_S):
                server.now_s = round(now_s - EPOCH_S, 3)
                real = answer(prometheus.url, text, now_s)
                assert len(real) >= len(INSTANCES) and not any("lo" in dict(labels).values() for labels in real)
                # A time has to be exact to the millisecond.
                exact = 5e-13 if text.startswith("timestamp(") else 1e-6
                assert answer(server.url, text, now_s) == pytest.approx(real, rel=exact), (text, now_s)
    finally:
        server.stop()


def raw(url: str) -> Samples:
    """Return the samples of the last minute."""
    found: Samples = {}
    for metric in (RECEIVED, SPEED_METRIC):
        for series in ask(url, query=f"{metric}[1m]"):
            labels = frozenset((name, value) for name, value in series["metric"].items() if name != "__name__")
            found[metric, labels] = [(at_s, float(value)) for at_s, value in series["values"]]
    return found


def answer(url: str, text: str, now_s: float) -> Vector:
    """Return the vector of a query at a time, by the labels of its series."""
    rows = ask(url, query=text, time=f"{now_s:.3f}")
    return {frozenset(row["metric"].items()): float(row["value"][1]) for row in rows}


def ask(url: str, **parameters: str) -> list[dict[str, Any]]:
    """Return the result of a query, sent as the extender sends it."""
    form = urllib.parse.urlencode({**parameters, "timeout": "1000ms"}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", data=form, timeout=TIMEOUT_S) as response:
        result: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return result
