# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Exporters and pods whose series make an answer of the real Prometheus too large do not take the values of the nodes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Gauge
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NodeIdentity
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import PrometheusSettings

from lab import binaries
from lab.prometheus_server import PrometheusServer
from tests.unit.services.extender.sources.cluster_nodes import nodes_of

GOOD = {f"good-{number}": f"10.0.0.{number}" for number in range(3)}
EVIL = "10.0.0.9"
NODES = nodes_of(*(NodeIdentity(name, (address,)) for name, address in {**GOOD, "evil": EVIL}.items()))
Labels = dict[str, str]


def exporter(address: str, devices: int, **more: str) -> list[Labels]:
    return [{"instance": f"{address}:9100", "zone": f"{address}|+", "device": f"eth{number}", **more} for number in range(devices)]


METRICS = {
    "many_series": exporter(EVIL, 20_000),
    "long_labels": exporter(EVIL, 1000, **{f"label{number}": "x" * 500 for number in range(6)}),
    "one_label": exporter(EVIL, 3, alias="x" * 2_000_000),
    "pods_of_a_tenant": [labels for pod in range(30) for labels in exporter(f"10.244.0.{pod}", 1000, pod="x" * 100)],
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """A Prometheus with one sample of each series, which counts for five minutes."""
    folder = tmp_path_factory.mktemp("prometheus")
    at_s = int(time.time())
    with (folder / "samples").open("w") as samples:
        for metric, series in METRICS.items():
            samples.write(f"# TYPE {metric} gauge\n")
            for labels in [*(labels for address in GOOD.values() for labels in exporter(address, 2)), *series]:
                shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
                samples.write(f"{metric}{{{shown}}} 5 {at_s}\n")
        samples.write("# EOF\n")
    blocks = ["tsdb", "create-blocks-from", "openmetrics", "--quiet", str(folder / "samples"), str(folder / "data")]
    subprocess.run([str(binaries.promtool()), *blocks], check=True)
    server = PrometheusServer(binaries.prometheus(), folder, {})
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("node_label", ["instance", "zone"])
def test_nodes_keep_their_values_although_an_answer_is_too_large(prometheus: PrometheusServer, metric: str, node_label: str) -> None:
    source = PrometheusSource(PrometheusSettings((prometheus.url,), timeout_s=60.0, node_label=node_label))
    nodes = NODES if node_label == "instance" else nodes_of(*(NodeIdentity(f"{address}|+") for address in (*GOOD.values(), EVIL)))
    good = list(GOOD) if node_label == "instance" else [f"{address}|+" for address in GOOD.values()]
    gauge, expression = Gauge(metric), Expression(f"{metric} * 2")
    for _refresh in range(2):
        readings = source.read([gauge, expression], nodes)
        for query, value in ((gauge, 5.0), (expression, 10.0)):
            found = {node: [one.value for one in series] for node, series in readings.values[query].items()}
            assert found == {node: [value] * 2 for node in good}, readings.error
        assert readings.problems and not any("good" in problem for problem in readings.problems)
