# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus whose samples of node_exporter are already stored, also those of the next minutes, so that it scrapes nothing."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab import binaries
from lab.cluster import Cluster
from lab.prometheus_server import PrometheusServer, prometheus_server

DEVICE = "eno1"
SPEED = 1.25e9
"""10 Gbit/s in bytes per second."""
PAST_S, FUTURE_S = 600, 3600
COUNTER_STEP_S, GAUGE_STEP_S = 30, 120
"""Seconds between two samples. Prometheus takes a value for five minutes."""


@contextmanager
def stored_series(cluster: Cluster, folder: Path, nodes: Sequence[str]) -> Iterator[PrometheusServer]:
    """Run a Prometheus that knows the traffic, the speed and the name of these nodes from now on for an hour."""
    folder.mkdir()
    samples = folder / "samples.txt"
    with samples.open("w") as text:
        text.writelines(_lines(nodes, int(time.time())))
    command = [str(binaries.promtool()), "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(samples), str(folder / "data")]
    subprocess.run(command, check=True)
    samples.unlink()
    with prometheus_server(cluster, folder, []) as server:
        yield server


def _lines(nodes: Sequence[str], now_s: int) -> Iterator[str]:
    """Return the samples in the OpenMetrics format, the families one after the other."""
    numbers = random.Random(1)
    yield "# TYPE node_network_receive_bytes counter\n"
    for node in nodes:
        rate, labels = numbers.uniform(0, 0.8 * SPEED), f'instance="{node}:9100",job="node",device="{DEVICE}"'
        for after_s in range(-PAST_S, FUTURE_S, COUNTER_STEP_S):
            yield f"node_network_receive_bytes_total{{{labels}}} {rate * (after_s + PAST_S):.0f} {now_s + after_s}\n"
    yield "# TYPE node_network_speed_bytes gauge\n"
    for node in nodes:
        labels = f'instance="{node}:9100",job="node",device="{DEVICE}"'
        for after_s in range(-PAST_S, FUTURE_S, GAUGE_STEP_S):
            yield f"node_network_speed_bytes{{{labels}}} {SPEED:.0f} {now_s + after_s}\n"
    yield "# TYPE node_uname_info gauge\n"
    for node in nodes:
        labels = f'instance="{node}:9100",job="node",nodename="{node}"'
        for after_s in range(-PAST_S, FUTURE_S, GAUGE_STEP_S):
            yield f"node_uname_info{{{labels}}} 1 {now_s + after_s}\n"
    yield "# EOF\n"
