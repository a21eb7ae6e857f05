# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The thread of the sources: errors, and the end while a server does not answer."""

from __future__ import annotations

import logging
import threading
import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import Log
from ansible_collections.onprem.kube_scheduling.services.extender.sources import refresher
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_tracker import PodChanges
from ansible_collections.onprem.kube_scheduling.services.extender.sources.refresher import Sources
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import (
    KubernetesSettings,
    SourceSettings,
)

from tests.unit.services.extender.sources import prometheus_server as faults
from tests.unit.services.extender.sources.kube_server import KubeServer, node
from tests.unit.services.extender.sources.prometheus_server import Server
from tests.unit.services.extender.sources.source_listener import RECEIVED, WAIT_S, Listener, Make


def test_the_thread_continues_after_an_error_of_the_listener(make: Make, kube: KubeServer, listener: Listener) -> None:
    kube.put("nodes", node("a"))
    listener.error = RuntimeError("an agent has failed")
    sources = make()
    sources.start()
    listener.wait(lambda: len(listener.views) == 1)
    listener.error = None
    sources.set_queries([RECEIVED])  # the next refresh is immediate
    listener.wait(lambda: len(listener.views) == 2)
    sources.stop()
    assert listener.views[0].version < listener.views[1].version


def test_a_read_that_ends_after_the_stop_delivers_nothing(
    make: Make, server: Server, kube: KubeServer, listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refresher, "JOIN_S", 0.01)
    kube.put("nodes", node("a"))
    server.fault = faults.silent
    sources = make(RECEIVED)
    sources.start()
    while not server.asked:
        time.sleep(0.01)
    sources.stop()
    server.released.set()
    sources._thread.join(WAIT_S)
    assert not sources._thread.is_alive() and listener.views == [] and not caplog.records


def test_a_connection_that_is_made_after_the_stop_starts_no_watch(
    kube: KubeServer, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, released = threading.Event(), threading.Event()

    def slow(_settings: KubernetesSettings) -> t.Any:
        opening.set()
        assert released.wait(WAIT_S)
        return kube.api

    monkeypatch.setattr(refresher, "JOIN_S", 0.01)
    monkeypatch.setattr(refresher, "open_kube_api", slow)
    sources = Sources(SourceSettings(kubernetes=KubernetesSettings()), [], listener, Log(logging.getLogger("test of the sources")))
    sources.start()
    assert opening.wait(WAIT_S)
    sources.stop()
    released.set()
    sources._thread.join(WAIT_S)
    assert not sources._thread.is_alive() and sources._watch is None and listener.views == []


def test_a_listener_is_not_called_for_a_pod_after_the_stop(make: Make, kube: KubeServer, listener: Listener) -> None:
    kube.put("nodes", node("a"))
    sources = make(prometheus=False)
    sources.refresh_once()
    sources.stop()
    sources._views.on_pods(PodChanges({"a": ()}, []))  # from a watch whose thread could not be ended in time
    assert listener.nodes == []
