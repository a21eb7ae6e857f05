# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts together, in a thread: the readiness follows the sources, and changed settings and certificates are taken over."""

from __future__ import annotations

import gc
import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
import yaml
from ansible_collections.onprem.kube_scheduling.services.common.signals import ShutdownSignal
from ansible_collections.onprem.kube_scheduling.services.extender import assembly
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original import learned_state
from ansible_collections.onprem.kube_scheduling.services.extender.config.settings import read_inputs, read_settings

from tests.unit.services.extender.extender_objects import quiet_log, view
from tests.unit.services.extender.learned.state_server import Server as StateServer
from tests.unit.services.extender.sources.prometheus_server import Server, answer_data, silent

WAIT_S = 20.0
REFRESH_S = 60


class Running:
    """An extender in a thread."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self._file = folder / "extender.yaml"
        self.write(**settings)
        inputs = read_inputs([f"--config={self._file}"], {})
        self.signal = ShutdownSignal()
        self.extender = assembly.Extender(inputs, read_settings(inputs), quiet_log(), self.signal)
        self.thread = threading.Thread(target=self.extender.run, daemon=True)
        self.thread.start()

    def write(self, **settings: object) -> None:
        """Write FILE with these settings."""
        addresses = {"listen": "127.0.0.1:0", "status_address": "127.0.0.1:0"}
        self._file.write_text(yaml.safe_dump({**addresses, "profiles": {"quiet": {"agents": [{"name": "template"}]}}, **settings}))

    def get(self, path: str) -> tuple[int, str]:
        """Return an answer of the address for people."""
        connection = http.client.HTTPConnection(str(self.extender._servers[1].address), timeout=WAIT_S)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def is_trusted_by(self, authority: trustme.CA) -> bool:
        """Return whether a client of the address for the scheduler trusts its certificate."""
        context = ssl.create_default_context()
        authority.configure_trust(context)
        connection = http.client.HTTPSConnection(str(self.extender._servers[0].address), timeout=WAIT_S, context=context)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.client.OK
        except ssl.SSLCertVerificationError:
            return False
        finally:
            connection.close()


@contextmanager
def running(folder: Path, **settings: object) -> Iterator[Running]:
    started = Running(folder, **settings)
    try:
        yield started
    finally:
        started.signal.request_stop()
        started.thread.join(WAIT_S)
        assert not started.thread.is_alive()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _short_heartbeat(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(assembly, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(assembly, "FILES_EVERY", 1)
    yield
    # The server excludes all objects of the process from collections, and other tests count on collections.
    gc.unfreeze()


@pytest.fixture
def prometheus() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def test_the_program_is_ready_after_a_refresh_was_tried_until_the_last_one_is_old(tmp_path: Path, prometheus: Server) -> None:
    prometheus.fault = silent
    agent = {"name": "metric", "args": {"query": "up", "best": 1, "worst": 0}}
    sources = {"prometheus": {"urls": [prometheus.url], "refresh_s": REFRESH_S, "timeout_s": WAIT_S}}
    with running(tmp_path, sources=sources, profiles={"quiet": {"agents": [agent]}}) as program:
        wait_for(lambda: bool(prometheus.asked))
        code, text = program.get("/readyz")
        assert code == 503 and "the sources have not been read" in text
        prometheus.fault = answer_data
        prometheus.released.set()
        wait_for(lambda: program.get("/readyz")[0] == 200)
        newest, limit_s = view({"a": 1.0}, version=1_000_000), 3 * REFRESH_S + 60
        program.extender._engine.on_view(replace(newest, refreshed_at_s=newest.refreshed_at_s - limit_s - 30))
        wait_for(lambda: program.get("/readyz")[0] == 503)
        assert "the sources were read" in program.get("/readyz")[1]
        program.extender._engine.on_view(replace(newest, refreshed_at_s=newest.refreshed_at_s - limit_s + 30))
        wait_for(lambda: program.get("/readyz")[0] == 200)


def test_a_changed_certificate_is_taken_over_while_the_program_runs(tmp_path: Path) -> None:
    files = {"cert_file": str(tmp_path / "server.crt"), "key_file": str(tmp_path / "server.key")}

    def write(authority: trustme.CA) -> None:
        pair = authority.issue_cert("127.0.0.1")
        pair.private_key_pem.write_to_path(files["key_file"])
        pair.cert_chain_pems[0].write_to_path(files["cert_file"])

    before, after = trustme.CA(), trustme.CA()
    write(before)
    with running(tmp_path, server={"tls": files}) as program:
        assert program.is_trusted_by(before) and not program.is_trusted_by(after)
        write(after)
        wait_for(lambda: program.is_trusted_by(after))
        assert not program.is_trusted_by(before)
        # Two changes are counted if the program looks between the two writes.
        wait_for(lambda: 'reloads_total{result="success"} 0.0' not in program.get("/metrics")[1])


def test_a_cluster_that_is_added_or_changed_in_file_keeps_what_the_agents_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = {name: StateServer() for name in ("first", "second")}
    monkeypatch.setattr(learned_state, "open_kube_api", lambda kubernetes: servers[kubernetes.context])
    profiles = {"quiet": {"agents": [{"name": "reward"}]}}

    def sources(context: str) -> dict[str, object]:
        return {"kubernetes": {"kubeconfig": str(tmp_path / "missing"), "context": context}}

    with running(tmp_path, profiles=profiles) as program:
        program.write(profiles=profiles, sources=sources("first"))
        wait_for(lambda: is_connected(program, "first"))
        program.write(profiles=profiles, sources=sources("second"))
        wait_for(lambda: is_connected(program, "second"))
    assert all(server.data and server.holder is None for server in servers.values())


def is_connected(program: Running, context: str) -> bool:
    """Return whether the state of the agents is kept in this cluster."""
    state = program.extender._learned
    return state._kubernetes is not None and state._kubernetes.context == context and bool(state._written)
