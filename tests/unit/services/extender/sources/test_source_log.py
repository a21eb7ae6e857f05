# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The log lines of the sources about facts that a refresh does not change: each is written once."""

from __future__ import annotations

import logging
import time

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import FIELDS
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Annotation
from ansible_collections.onprem.kube_scheduling.services.extender.sources.missing import WITHOUT_KUBERNETES

from tests.unit.services.extender.sources.kube_server import KubeServer, node
from tests.unit.services.extender.sources.prometheus_server import Server
from tests.unit.services.extender.sources.source_listener import RECEIVED, Listener, Make

HOUR_S = 3600


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "test of the sources")


def test_an_annotation_without_a_time_or_with_one_in_the_future_is_logged_once(
    make: Make, kube: KubeServer, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        kube.put("nodes", node(name, annotations={"bare": "8", "early": f"9,{time.time() + HOUR_S:.0f}", "dated": f"7,{time.time():.0f}"}))
    sources = make(Annotation("bare"), Annotation("early"), Annotation("dated"), prometheus=False)
    for _refresh in range(2):
        sources.refresh_once()
    lines = [(record.message.partition(",")[0], getattr(record, FIELDS)) for record in caplog.records]
    assert sorted(lines) == [
        ("the annotation has no time", {"annotation": "bare"}),
        ("the time of the annotation is in the future", {"annotation": "early"}),
    ]


def test_a_cluster_that_is_not_configured_is_logged_once(
    make: Make, server: Server, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    server.put("received", "5", 3, instance="worker-1:9100")
    sources = make(RECEIVED, kubernetes=False)
    sources.start()
    listener.wait(lambda: len(listener.views) == 1)
    sources.set_queries([RECEIVED])  # the next refresh is immediate
    listener.wait(lambda: len(listener.views) == 2)
    sources.stop()
    assert caplog.messages == [WITHOUT_KUBERNETES]


def test_series_of_unknown_nodes_are_logged_once(make: Make, server: Server, kube: KubeServer, caplog: pytest.LogCaptureFixture) -> None:
    kube.put("nodes", node("a", "10.0.0.1"))
    server.put("received", "5", 3, instance="10.0.0.3:9100")
    sources = make(RECEIVED)
    for _refresh in range(2):
        sources.refresh_once()
    assert ["belong to no node, " in message and "--check-sources" in message for message in caplog.messages] == [True]
