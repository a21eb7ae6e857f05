# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus that scrapes simulated node_exporters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.binaries import PROMETHEUS_VERSION
from lab.cluster import Cluster
from lab.exporter_process import Exporters, exporters
from lab.prometheus_server import PrometheusServer, prometheus_server
from tests.integration.lab.conftest import wait_for

INSTANCES = {"a": "192.0.2.1:9100", "b": "b.example.com"}
RATE = 'rate(node_network_receive_bytes_total{device="eth0"}[2s])'


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Exporters]:
    with exporters(tmp_path / "exporters.log") as found:
        yield found


@pytest.fixture
def prometheus(lab_cluster: Cluster, running: Exporters, tmp_path: Path) -> Iterator[PrometheusServer]:
    with prometheus_server(lab_cluster, tmp_path, running.targets(INSTANCES), scrape_interval="200ms") as server:
        yield server


def rates(prometheus: PrometheusServer) -> dict[str, float]:
    return {entry["metric"]["instance"]: float(entry["value"][1]) for entry in prometheus.query(RATE)}


def test_the_rates_are_those_that_were_set(prometheus: PrometheusServer, running: Exporters) -> None:
    running.set_traffic("a", receive=5e6)
    running.set_traffic("b", receive=0.0)
    wanted = {"192.0.2.1:9100": 5e6, "b.example.com": 0.0}
    wait_for(lambda: rates(prometheus) == pytest.approx(wanted, rel=0.1))
    running.set_traffic("a", receive=1e6)
    wait_for(lambda: rates(prometheus) == pytest.approx({**wanted, "192.0.2.1:9100": 1e6}, rel=0.1))
    running.remove("b")
    wait_for(lambda: set(rates(prometheus)) == {"192.0.2.1:9100"})
    assert prometheus.query("prometheus_build_info") == [], "it scrapes only the targets that were given"
    assert f"version={PROMETHEUS_VERSION}" in prometheus.log_file.read_text()


def test_after_a_restart_it_has_its_address_and_its_data(prometheus: PrometheusServer, running: Exporters) -> None:
    running.set_traffic("a", receive=5e6)
    wait_for(lambda: rates(prometheus))
    url = prometheus.url
    prometheus.kill()
    with pytest.raises(OSError):
        prometheus.query("up")
    prometheus.start()
    assert prometheus.url == url
    assert prometheus.query("max_over_time(up[1m])")
