# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""--check-sources names the links that count, the devices that do not, and the series that a judgement lacks."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.cli import main
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Gauge, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.promql import time_text, value_text

from tests.unit.services.extender.agents.traffic_nodes import MBIT
from tests.unit.services.extender.sources.prometheus_server import NOW_S, Server

Checked = tuple[int, str, str]

LINKS: dict[str, dict[str, tuple[float, float | None]]] = {
    "ovn-busy": {"eth0": (880, 1000), "breth0": (480, None), "ovn-k8s-mp0": (24, None), "a1b2c3d4e5f6789": (320, 10_000)},
    "ovn-idle": {"eth0": (8, 1000), "breth0": (7, None), "ovn-k8s-mp0": (1, None), "b1b2c3d4e5f6789": (2, 10_000)},
    "bridge-busy": {"eth0": (880, 1000), "br0": (3, None), "tap0": (40, 10)},
    "bridge-idle": {"eth0": (40, 1000), "br0": (38, None), "tap0": (1, 10)},
    "bridge-local": {"eth0": (40, 1000), "br0": (400, 10_000)},
    "two-busy": {"ens33": (990, 1000), "ens35": (8, 10_000)},
    "two-idle": {"ens33": (8, 1000), "ens35": (2000, 10_000)},
    "vm": {"eth0": (100, None)},
}
"""Rates and speeds in Mbit/s by node and device."""


@pytest.fixture
def prometheus() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def check(server: Server, folder: Path, capsys: pytest.CaptureFixture[str], agents: str) -> Checked:
    file = folder / "extender.yaml"
    file.write_text(f"sources: {{prometheus: {{urls: ['{server.url}']}}}}\nprofiles: {{all: {{agents: [{agents}]}}}}\n")
    code = main([f"--config={file}", "--check-sources", "--log-level=error"], {})
    return (code, *capsys.readouterr())


def add(server: Server, query: t.Any, labels: Mapping[str, str], value: float) -> None:
    server.vectors.setdefault(value_text(query), []).append((dict(labels), str(value)))
    if time_text(query, "instance"):
        server.vectors.setdefault(time_text(query, "instance"), []).append((dict(labels), str(NOW_S - 1)))


def serve_links(server: Server, of: Agent, nodes: Mapping[str, Mapping[str, tuple[float, float | None]]]) -> None:
    rate, speed, *_properties = of.queries
    assert isinstance(rate, Rate) and isinstance(speed, Gauge)
    for node, devices in nodes.items():
        for device, (received, of_device) in devices.items():
            labels = {"instance": node, "device": device}
            add(server, rate, labels, received * MBIT)
            add(server, speed, labels, -125000.0 if of_device is None else of_device * MBIT)


def scores_in(text: str) -> dict[str, float]:
    found = [line.split(" = ") for line in text.splitlines() if ": network_traffic = " in line]
    return {place.strip().partition(":")[0]: float(rest.split(" ")[0]) for place, rest in found}


def test_a_busy_link_has_a_lower_score_whatever_the_other_devices_are(
    prometheus: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_links(prometheus, build_agent("network_traffic"), LINKS)
    code, out, err = check(prometheus, tmp_path, capsys, "{name: network_traffic}")
    assert code == 0
    found = scores_in(out)
    for kind in ("ovn", "bridge", "two"):
        assert found[f"{kind}-busy"] < 2 < 6 < found[f"{kind}-idle"]
    assert "two-busy: network_traffic = 0.00 (99% of 1 Gbit/s on ens33, the fullest of 2 links, receive" in out
    notes = [line.removeprefix("extender: note: profile all, agent network_traffic: ") for line in err.splitlines()]
    assert [note.partition(":")[0] for note in notes] == ["bridge-local", "two-busy, two-idle", "vm"]
    assert '{device="eth0", instance="vm"} = unknown, ' in out


def test_an_argument_ends_its_note(prometheus: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args: dict[str, t.Any] = {"device": "ens33|eth0", "speeds": [{"nodes": "vm", "speed": "1G"}]}
    serve_links(prometheus, build_agent("network_traffic", args), {name: LINKS[name] for name in ("two-busy", "vm")})
    rate = value_text(build_agent("network_traffic", args).queries[0])
    prometheus.vectors[rate] = [row for row in prometheus.vectors[rate] if row[0]["device"] != "ens35"]  # as Prometheus selects
    code, out, err = check(prometheus, tmp_path, capsys, f"{{name: network_traffic, args: {json.dumps(args)}}}")
    assert (code, err) == (0, "") and "99% of 1 Gbit/s on ens33, receive" in out and "10% of 1 Gbit/s on eth0" in out


@pytest.mark.parametrize("name", ["safe_overload", "safe_balance"])
def test_a_node_without_the_series_of_cpu_is_unknown_and_the_series_is_named(
    prometheus: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for query in build_agent(name).queries:
        promql = query[0]
        is_memory = "node_memory" in promql
        for node in ("node01", "node02", "node03"):
            if node == "node01" and not is_memory:
                continue
            free = {"node02": 0.05, "node03": 0.95}.get(node, 0.0) if not is_memory else 0.9
            share = 0.02 if promql.startswith("stddev") else free if promql.startswith("avg") else 1.0
            add(prometheus, query, {"instance": node}, share * (2.0**30 if is_memory else 4.0))
    code, out, err = check(prometheus, tmp_path, capsys, f"{{name: {name}}}")
    missing = "no fresh value for node01: cpu: no value of avg_over_time(sum without (cpu, mode) (rate(node_cpu_seconds_total"
    assert code == 2 and f"extender: profile all, agent {name}: {missing}" in err
    assert f"node01: {name} = unknown (cpu: no value of avg_over_time" in out
    found = {node: float(out.partition(f"  {node}: {name} = ")[2].partition(" ")[0]) for node in ("node02", "node03")}
    assert found["node02"] < found["node03"]


def test_reasons_are_grouped_and_their_number_is_limited(prometheus: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = build_agent("metric", {"query": "load", "best": 0, "worst": 1, "timestamp_of": "load"}).queries[0]
    for number in range(30):
        add(prometheus, load, {"instance": f"n{number:02}"}, 0.5)
    times = prometheus.vectors[time_text(t.cast(t.Any, load), "instance")]
    for number in range(1, 15):
        times[number] = (times[number][0], str(NOW_S - 1000 - 10 * number))
    rows = prometheus.vectors["load"]
    for number in range(15, 27):
        rows[number] = (rows[number][0], "NaN")
    code, _out, err = check(prometheus, tmp_path, capsys, "{name: metric, args: {query: load, timestamp_of: load, best: 0, worst: 1}}")
    lines = err.splitlines()
    assert code == 2 and len(lines) == 11
    assert (
        "extender: profile all, agent metric: no fresh value for n01: the newest value of load is 1010 s old, and max_age_s is 90 s"
        in lines
    )
    assert "more nodes, for other reasons" in lines[-1]
