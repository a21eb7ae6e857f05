# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that serves node_exporter's metrics of simulated nodes. Their traffic is set over HTTP while it runs.

    PUT    /nodes/NAME            {"devices": {"eth0": {"receive": 5e6, "transmit": 0, "speed": 1.25e9}}, ...}, see `NodeSettings`
    GET    /nodes/NAME/metrics    what the node's node_exporter would serve
    DELETE /nodes/NAME            the node's node_exporter is gone; after the next PUT its counters begin again

Counters increase with the time by the rates that are set. `lab.exporter_process` starts the program.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lab.http_handler import QuietHandler

GIBIBYTE = 1 << 30


@dataclass(frozen=True)
class DeviceSettings:
    """Traffic of a network device in bytes per second, and its speed, also in bytes per second. ``speed`` None: not reported.

    ``initial``: the value of both counters at the start.
    """

    receive: float = 0.0
    transmit: float = 0.0
    speed: float | None = None
    initial: float = 0.0


@dataclass(frozen=True)
class NodeSettings:
    """The load of a node. ``nodename`` None: the node's own name. ``cpu_busy`` is the share of all CPUs that is in use, 0 to 1.

    ``behind_s``: the samples have times by a clock that is so many seconds behind. None: they have no times, as those of node_exporter.
    """

    devices: Mapping[str, DeviceSettings] = field(default_factory=dict)
    nodename: str | None = None
    cpus: int = 8
    cpu_busy: float = 0.0
    memory_total: float = 32 * GIBIBYTE
    memory_available: float = 32 * GIBIBYTE
    behind_s: float | None = None

    @classmethod
    def of(cls, raw: dict[str, Any]) -> NodeSettings:
        """Return the settings of a request. Raises TypeError for unknown keys."""
        devices = {name: DeviceSettings(**values) for name, values in raw.pop("devices", {}).items()}
        return cls(devices=devices, **raw)


class Counter:
    """A counter that increases with the time."""

    def __init__(self, value: float, now_s: float) -> None:
        self._value, self._rate, self._since_s = value, 0.0, now_s

    def set_rate(self, rate: float, now_s: float) -> None:
        """Increase by ``rate`` per second from now on."""
        self._value, self._rate, self._since_s = self.value(now_s), rate, now_s

    def value(self, now_s: float) -> float:
        return self._value + self._rate * (now_s - self._since_s)


class SimulatedNode(Collector):
    """The metrics of one node. ``clock`` returns monotonic seconds."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._settings = NodeSettings()
        self._counters: dict[tuple[str, str], Counter] = {}
        self._lock = threading.Lock()

    def set(self, settings: NodeSettings) -> None:
        """Take over the settings. Counters keep their values; devices that are not named any more are gone."""
        now_s = self._clock()
        with self._lock:
            known, self._counters, self._settings = self._counters, {}, settings
            for key, rate, initial in _rates(settings):
                self._counters[key] = counter = known.get(key) or Counter(initial, now_s)
                counter.set_rate(rate, now_s)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            now_s, settings = self._clock(), self._settings
            values = {key: counter.value(now_s) for key, counter in self._counters.items()}
        measured_at_s = None if settings.behind_s is None else time.time() - settings.behind_s
        for metric in self._metrics(settings, values):
            metric.samples = [sample._replace(timestamp=measured_at_s) for sample in metric.samples]
            yield metric

    def _metrics(self, settings: NodeSettings, values: Mapping[tuple[str, str], float]) -> Iterator[Metric]:
        for direction in ("receive", "transmit"):
            traffic = CounterMetricFamily(
                f"node_network_{direction}_bytes", f"Network device statistic {direction}_bytes.", labels=["device"]
            )
            for device in settings.devices:
                traffic.add_metric([device], values[device, direction])
            yield traffic
        speed = GaugeMetricFamily("node_network_speed_bytes", "Network device property: speed_bytes.", labels=["device"])
        for device, properties in settings.devices.items():
            if properties.speed is not None:
                speed.add_metric([device], properties.speed)
        yield speed
        yield from _machine(self._name, settings, values)


def _rates(settings: NodeSettings) -> Iterator[tuple[tuple[str, str], float, float]]:
    """The counters of a node: key, increase per second and initial value."""
    for name, device in settings.devices.items():
        yield (name, "receive"), device.receive, device.initial
        yield (name, "transmit"), device.transmit, device.initial
    for cpu in map(str, range(settings.cpus)):
        yield (cpu, "user"), settings.cpu_busy, 0.0
        yield (cpu, "idle"), 1.0 - settings.cpu_busy, 0.0


def _machine(name: str, settings: NodeSettings, values: Mapping[tuple[str, str], float]) -> Iterator[Metric]:
    cpu_seconds = CounterMetricFamily("node_cpu_seconds", "Seconds the CPUs spent in each mode.", labels=["cpu", "mode"])
    for cpu in map(str, range(settings.cpus)):
        for mode in ("user", "idle"):
            cpu_seconds.add_metric([cpu, mode], values[cpu, mode])
    yield cpu_seconds
    yield GaugeMetricFamily("node_memory_MemTotal_bytes", "Memory information field MemTotal_bytes.", settings.memory_total)
    yield GaugeMetricFamily("node_memory_MemAvailable_bytes", "Memory information field MemAvailable_bytes.", settings.memory_available)
    uname = GaugeMetricFamily("node_uname_info", "Labeled system information as provided by the uname system call.", labels=["nodename"])
    uname.add_metric([settings.nodename or name], 1.0)
    yield uname


class ExporterServer(ThreadingHTTPServer):
    """Serves all nodes on one port of this machine."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.nodes: dict[str, SimulatedNode] = {}


class _Handler(QuietHandler):
    server: ExporterServer

    def do_GET(self) -> None:
        node = self.server.nodes.get(self._node_name())
        if node is None or not self.path.partition("?")[0].endswith("/metrics"):
            self.answer(HTTPStatus.NOT_FOUND, b"no such node\n")
        else:
            self.answer(HTTPStatus.OK, generate_latest(node), CONTENT_TYPE_LATEST)

    def do_PUT(self) -> None:
        try:
            settings = NodeSettings.of(json.loads(self.body()))
        except (ValueError, TypeError) as error:
            self.answer(HTTPStatus.BAD_REQUEST, f"{error}\n".encode())
            return
        name = self._node_name()
        self.server.nodes.setdefault(name, SimulatedNode(name)).set(settings)
        self.answer(HTTPStatus.OK, b"")

    def do_DELETE(self) -> None:
        self.server.nodes.pop(self._node_name(), None)
        self.answer(HTTPStatus.OK, b"")

    def _node_name(self) -> str:
        parts = self.path.partition("?")[0].split("/")
        return parts[2] if parts[1] == "nodes" and len(parts) > 2 else ""


def main(arguments: list[str] | None = None) -> int:
    """Serve until the standard input ends, at the latest with the parent process. The first line of the output is the URL."""
    parser = argparse.ArgumentParser(description="Serve node_exporter's metrics of simulated nodes.")
    parser.add_argument("--port", type=int, default=0, help="the port on the loopback interface (default: a free one)")
    server = ExporterServer(parser.parse_args(arguments).port)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    threading.Thread(target=server.serve_forever, name="exporter", daemon=True).start()
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
