# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The body of an answer that cannot be used is freed without a garbage collection. Refreshes exclude their objects from collections."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Gauge
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import Identity, NodeIdentity, NodeRecord
from ansible_collections.onprem.kube_scheduling.services.extender.sources.node_exporter.node_exporter import NodeExporterSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import NodeExporterSettings, PrometheusSettings
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import Readings

from tests.unit.services.extender.sources.cluster_nodes import nodes_of
from tests.unit.services.extender.sources.prometheus_server import Server, large

LOAD = Gauge("node_load1")
NODE = NodeIdentity("a")
BODY_BYTES = 1_000_000
READS = 6
WAIT_S = 20


@pytest.fixture
def traced() -> Iterator[None]:
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def growth_of(read: Callable[[], Readings]) -> int:
    """Return the bytes by which the memory grows during READS refreshes that fail.

    The threads of the server in this process may have a body for some time longer.
    """
    assert read().problems
    before, _peak = tracemalloc.get_traced_memory()
    for _read in range(READS):
        assert read().problems
    deadline_s = time.monotonic() + WAIT_S
    while (growth := tracemalloc.get_traced_memory()[0] - before) >= BODY_BYTES and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return growth


@pytest.mark.usefixtures("traced")
def test_an_answer_of_prometheus_that_is_too_large(server: Server) -> None:
    server.fault = large
    source = PrometheusSource(PrometheusSettings((server.url,), timeout_s=60.0, max_answer_bytes=BODY_BYTES))
    assert growth_of(lambda: source.read([LOAD], nodes_of(NODE))) < BODY_BYTES


@pytest.mark.usefixtures("traced")
def test_metrics_that_cannot_be_read(server: Server) -> None:
    server.metrics = "node_load1 x\n" + "#" * BODY_BYTES
    source = NodeExporterSource(NodeExporterSettings(port=server.port, timeout_s=60.0))
    record = NodeRecord(Identity("a"), {}, {}, {}, NODE, "127.0.0.1")
    assert growth_of(lambda: source.read([LOAD], {"a": record})) < BODY_BYTES
    source.close()
