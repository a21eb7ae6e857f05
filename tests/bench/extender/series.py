# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that answers the queries of all agents as Prometheus does, with answers that were encoded before."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence

from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Gauge, Query, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.promql import time_text, value_text

from tests.bench.extender.settings import DEVICES
from tests.unit.services.extender.sources.prometheus_server import NOW_S, Handler, Labels, Server

GIB = float(1 << 30)
CORES, MEMORY = 32.0, 128 * GIB
SPEED = 1.25e9
"""10 Gbit/s in bytes per second."""
VARIANTS = 2
"""Each query has different values in this many answers, which follow each other."""

BOUNDS = (
    ("stddev_over_time(sum", (0.2, 3.0)),
    ("stddev_over_time(node_memory", (1 * GIB, 8 * GIB)),
    ("avg_over_time(sum", (4.0, CORES - 2)),
    ("avg_over_time(node_memory", (16 * GIB, MEMORY - 8 * GIB)),
    ("offset", (1.0, 1.0)),
    ("count without", (CORES, CORES)),
    ("node_memory_MemTotal", (MEMORY, MEMORY)),
    ("node_network_speed", (SPEED, SPEED)),
    ("node_network_protocol_type", (1.0, 1.0)),
    ("node_network_flags", (4099.0, 4099.0)),
    ("node_network_iface", (2.0, 2.0)),
    ("node_network_address_assign_type", (0.0, 0.0)),
    ("rate(node_network", (0.0, 0.4 * SPEED)),
    ("node_load1", (0.0, 32.0)),
)
"""The least and the largest value of each query that contains the text. The first match counts."""


def start(nodes: Sequence[str], queries: Iterable[Query]) -> Server:
    """Start a server that knows the series of the nodes with these names."""
    answers = {text: [_answer(text, nodes, seed) for seed in range(VARIANTS)] for text in _texts(queries)}
    turns = dict.fromkeys(answers, 0)

    def reply(handler: Handler) -> None:
        text = handler.server.asked[-1]
        turns[text] += 1
        handler.reply(200, "application/json", answers[text][turns[text] % VARIANTS])

    server = Server()
    server.fault = reply
    return server


def _texts(queries: Iterable[Query]) -> Iterator[str]:
    for query in queries:
        if isinstance(query, Rate | Gauge | Expression):
            yield from filter(None, (value_text(query), time_text(query, "instance")))


def _answer(text: str, nodes: Sequence[str], seed: int) -> bytes:
    """Return the answer to a query. A query about devices has one series for each device of a node, and every other query has one."""
    numbers = random.Random(f"{seed} {text}")
    of_devices = "node_network" in text
    lowest, highest = (NOW_S - 20, NOW_S - 5) if "timestamp(" in text else _bounds(text)
    result = [
        {"metric": labels, "value": [NOW_S, str(numbers.uniform(lowest, highest))]}
        for node in nodes
        for labels in (_labels(node, device) for device in (DEVICES if of_devices else ("",)))
    ]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}, separators=(",", ":")).encode()


def _bounds(text: str) -> tuple[float, float]:
    return next((bounds for part, bounds in BOUNDS if part in text), (0.0, 100.0))


def _labels(node: str, device: str) -> Labels:
    labels = {"instance": f"{node}:9100", "job": "node"}
    return {"device": device, **labels} if device else labels
