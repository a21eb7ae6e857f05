# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Servers of one test."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from tests.unit.services.extender.sources.kube_server import KubeServer
from tests.unit.services.extender.sources.prometheus_server import Server


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


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    """A refresh excludes all objects of the process from collections, and other tests count on collections."""
    yield
    gc.unfreeze()
