# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The servers of one test, and sources that read them."""

from __future__ import annotations

import gc
import logging
import typing as t
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import Log
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Query
from ansible_collections.onprem.kube_scheduling.services.extender.sources.refresher import Sources
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import (
    KubernetesSettings,
    PrometheusSettings,
    SourceSettings,
)

from tests.unit.services.extender.sources.kube_server import KubeServer
from tests.unit.services.extender.sources.prometheus_server import Server
from tests.unit.services.extender.sources.source_listener import Clock, Listener, Make


@pytest.fixture
def new_server() -> Iterator[Callable[[], Server]]:
    servers: list[Server] = []

    def make() -> Server:
        servers.append(Server())
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def server(new_server: Callable[[], Server]) -> Server:
    return new_server()


@pytest.fixture
def kube() -> Iterator[KubeServer]:
    server = KubeServer()
    yield server
    server.stop()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(server: Server, kube: KubeServer, listener: Listener, clock: Clock) -> Iterator[Make]:
    """Make sources of the servers: ``kubernetes`` and ``prometheus`` are used unless they are false."""
    made: list[Sources] = []

    def sources(*queries: Query, kubernetes: bool = True, prometheus: bool = True, **changes: t.Any) -> Sources:
        settings = SourceSettings(
            prometheus=PrometheusSettings((server.url,), timeout_s=2.0) if prometheus else None,
            kubernetes=KubernetesSettings() if kubernetes else None,
            **changes,
        )
        log = Log(logging.getLogger("test of the sources"))
        made.append(Sources(settings, queries, listener, log, api=kube.api if kubernetes else None, clock=clock))
        return made[-1]

    yield sources
    for one in made:
        one.stop()


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    """A refresh excludes all objects of the process from collections, and other tests count on collections."""
    yield
    gc.unfreeze()
