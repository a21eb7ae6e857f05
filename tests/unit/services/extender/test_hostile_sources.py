# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One hostile exporter, scraped directly or by Prometheus, takes neither the memory of the extender nor the values of other nodes.

The program runs as a process of its own. Linux measures its memory.
"""

from __future__ import annotations

import json
import re
import time
import typing as t
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.unit.services.extender.extender_objects import names_body
from tests.unit.services.extender.sources.kube_server import KubeServer, node
from tests.unit.services.extender.sources.prometheus_server import Handler, Labels, Server
from tests.unit.services.extender.test_program import ask, program

MOST_MIB = 80
"""The memory of an extender with two nodes, of which one is hostile. With two usual nodes it is 43 MiB. The role's limit is 192 MiB."""

REFRESHES = 4
WAIT_S = 180
TIMEOUT_S = 60
RECEIVED, SPEED = "node_network_receive_bytes_total", "node_network_speed_bytes"


class Exporter(Server):
    """An exporter at an address of the loopback. ``devices`` returns the names of its devices at a scrape."""

    def __init__(self, address: str, port: int, devices: Callable[[int], Iterator[str]]) -> None:
        self.address, self.wanted_port, self.devices, self.scrapes = address, port, devices, 0
        super().__init__()
        self.fault = self.expose

    def server_bind(self) -> None:
        self.server_address = (self.address, self.wanted_port)
        ThreadingHTTPServer.server_bind(self)

    def expose(self, handler: Handler) -> None:
        self.scrapes += 1
        names = list(self.devices(self.scrapes))
        lines = [f'{metric}{{device="{name}"}} {self.scrapes * 1000}\n' for metric in (RECEIVED, SPEED) for name in names]
        handler.reply(200, "text/plain", "".join(lines).encode())


def quiet(_scrape: int) -> Iterator[str]:
    yield "eth0"


def always_new(number: int) -> Callable[[int], Iterator[str]]:
    def devices(scrape: int) -> Iterator[str]:
        yield "eth0"
        yield from (f"e{scrape}x{index}" for index in range(number))

    return devices


class Seen(t.NamedTuple):
    """The memory of the program in MiB, the peak included, and the scores of /explain by node."""

    peak_mib: float
    scores: dict[str, float | None]
    errors: dict[str, str]


def run(folder: Path, sources: dict[str, t.Any], scrapes: Callable[[], int]) -> Seen:
    """Run the program until it has refreshed REFRESHES times."""
    agent = {"name": "network_traffic"}
    settings = {"listen": "127.0.0.1:0", "status_address": "127.0.0.1:0", "sources": sources, "profiles": {"quiet": {"agents": [agent]}}}
    file = folder / "extender.yaml"
    file.write_text(yaml.safe_dump(settings))
    with program(file) as running:
        deadline_s = time.monotonic() + WAIT_S
        while scrapes() < REFRESHES:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        ask(running.address, "POST", "/scheduler/prioritize", names_body(["good", "other"]))
        found = json.loads(ask(running.address, "GET", "/explain?pod=app/web"))
        status = Path(f"/proc/{running.process.pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    return Seen(int(peak[1]) / 1024, {row["node"]: row["agents"][0]["score"] for row in found["nodes"]}, found["errors"])


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[KubeServer]:
    server = KubeServer()
    server.put("nodes", node("good", "127.0.0.1"))
    server.put("nodes", node("other", "127.0.0.2"))
    cluster = {"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}
    context = {"name": "test", "context": {"cluster": "test", "user": "test"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "test", "user": {}}], "current-context": "test"}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    yield server
    server.stop()


def scraped_directly(folder: Path, devices: Callable[[int], Iterator[str]]) -> Seen:
    """Run the program on one good node and on one with these devices."""
    good = Exporter("127.0.0.1", 0, quiet)
    other = Exporter("127.0.0.2", good.port, devices)
    try:
        sources = {
            "node_exporter": {"port": good.port, "refresh_s": 1, "timeout_s": TIMEOUT_S},
            "kubernetes": {"kubeconfig": str(folder / "kubeconfig")},
        }
        return run(folder, sources, lambda: other.scrapes)
    finally:
        good.stop()
        other.stop()


def answered_by_prometheus(folder: Path, devices: Callable[[int], Iterator[str]]) -> Seen:
    """Run the program with a Prometheus that has scraped one good node and one with these devices."""
    server = Server()

    def scrapes() -> int:
        return sum(asked.startswith("rate(") for asked in server.asked)

    def answer(handler: Handler) -> None:
        query = server.asked[-1]
        rows: list[tuple[Labels, str]] = [({"instance": "127.0.0.1:9100", "device": "eth0"}, "5")]
        crowded = query.startswith("count by") or " unless on " in query
        if not crowded:
            rows += [({"instance": "127.0.0.2:9100", "device": name}, "5") for name in devices(scrapes())]
        elif query.startswith("count by"):
            rows = [({"instance": "127.0.0.1:9100"}, "1"), ({"instance": "127.0.0.2:9100"}, str(len(list(devices(1)))))]
        now_s = time.time()
        is_time = "timestamp(" in query and not query.startswith("count by")
        result = [{"metric": labels, "value": [now_s, str(now_s) if is_time else value]} for labels, value in rows]
        handler.reply_json(200, {"status": "success", "data": {"resultType": "vector", "result": result}})

    server.fault = answer
    try:
        sources = {
            "prometheus": {"urls": [server.url], "refresh_s": 1, "timeout_s": TIMEOUT_S},
            "kubernetes": {"kubeconfig": str(folder / "kubeconfig")},
        }
        return run(folder, sources, scrapes)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("source", "devices", "is_error"),
    [
        (scraped_directly, always_new(1000), False),
        (scraped_directly, always_new(20_000), True),
        (answered_by_prometheus, always_new(1000), False),
        (answered_by_prometheus, always_new(20_000), True),
    ],
)
def test_a_hostile_exporter_takes_neither_the_memory_nor_the_values_of_others(
    tmp_path: Path, kube: KubeServer, source: Callable[..., Seen], devices: Callable[[int], Iterator[str]], is_error: bool
) -> None:
    seen = source(tmp_path, devices)
    assert seen.scores["good"] is not None and seen.peak_mib < MOST_MIB
    assert bool(seen.errors) == is_error
    if is_error:
        assert seen.scores["other"] is None
        (error,) = seen.errors.values()
        assert "node other" in error and re.search("it has more than 1024 series|have more than 1048576 bytes", error)
