# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The metrics of passes: served on /metrics, pushed to a Pushgateway, and written for node_exporter's textfile collector."""

from __future__ import annotations

import contextlib
import http.client
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, push_to_gateway
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...plugins.module_utils.report.rebalance_metrics import RunGauge, metrics_text

JOB = "kube_scheduling_rebalance"
"""The value of the label ``job`` of the pushed metrics. It is their group in the Pushgateway."""
PUSH_WITHIN_S = 10.0
FILE_MODE = 0o644
"""node_exporter runs as another user."""


class LastPass(Collector):
    """The gauges of the last pass. It has none before the end of the first one."""

    def __init__(self) -> None:
        self.gauges: Sequence[RunGauge] = ()

    def collect(self) -> Iterable[Metric]:
        """Return the gauges as metrics of prometheus_client."""
        for gauge in self.gauges:
            family = GaugeMetricFamily(gauge.name, gauge.description, labels=gauge.labels)
            for values, number in gauge.values.items():
                family.add_metric(values, number)
            yield family


def push(last: LastPass, url: str) -> None:
    """Replace the group of the rebalancer in the Pushgateway. Raises OSError."""
    registry = CollectorRegistry()
    registry.register(last)
    try:
        push_to_gateway(url, job=JOB, registry=registry, timeout=PUSH_WITHIN_S)
    except http.client.HTTPException as error:
        raise OSError(f"it gave no valid answer: {error}") from error


def write_file(last: LastPass, path: Path) -> None:
    """Write the gauges to a file. A reader sees the old content or the new one. Raises OSError."""
    # The collector reads only names that end with .prom.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(metrics_text(last.gauges))
            os.fchmod(stream.fileno(), FILE_MODE)
        Path(name).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
