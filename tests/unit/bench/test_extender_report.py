# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of the extender are computed from measured values, and its requests are those of kube-scheduler."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.extender import binding_rate, report, request_bodies
from tests.bench.extender.binding_rate import Bindings, summary
from tests.bench.extender.memory import Footprint
from tests.bench.extender.throughput import GO, ONE, OWN, SEVERAL, Turn, median

RATES = {
    500: {
        binding_rate.NONE: summary([Bindings(100.0, 0.0)]),
        binding_rate.GO: summary([Bindings(80.0, 0.7)]),
        binding_rate.OWN: summary([Bindings(60.0, 0.9), Bindings(90.0, 0.8), Bindings(95.0, 1.2)]),
        binding_rate.PER_NODE: summary([Bindings(0.0567, 20000.0)]),
    }
}
FOOTPRINT = Footprint(ready_mb=90, loaded_mb=121, peak_mb=140, cpu=0.02)


def turn(requests_per_s: float, p99_ms: float) -> Turn:
    return Turn(requests_per_s, p50_ms=0.1, p99_ms=p99_ms, p999_ms=2.0, first_ms=20.0, cpu_us=100.0)


def test_goals_compare_with_the_go_extender_of_the_same_number_of_names() -> None:
    own = {**dict.fromkeys(OWN, turn(2100, 0.5)), SEVERAL: turn(1900, 1.5)}
    text = report.section({500: {GO: turn(1000, 1.0), **own}}, FOOTPRINT, RATES)
    assert f"| 500 names, {ONE}: requests per second, × Go | met: 2.10 ×, limit 2.00 × |" in text
    assert f"| 500 names, {SEVERAL}: requests per second, × Go | missed: 1.90 ×, limit 2.00 × |" in text
    assert f"| 500 names, {ONE}: p99 below that of Go | met: 0.50 ms, limit 1.00 ms |" in text
    assert f"| 500 names, {SEVERAL}: p99 below that of Go | missed: 1.50 ms, limit 1.00 ms |" in text
    assert "first answer | missed: 20.0 ms, limit 10.0 ms |" in text
    assert "missed: 121 MB, limit 120 MB" in text
    assert "| 500 names: pods bound per second, × Go | met: 1.12 ×, limit 1.00 × |" in text
    assert f"| {binding_rate.PER_NODE} | 0.0567 | 0.00071 | 20000.00 |" in text
    assert f"| {binding_rate.NONE} | 100 | 1.25 |  |" in text
    assert f"| {binding_rate.OWN} | 90 (60 to 95) | 1.12 | 0.90 |" in text


def test_medians_are_taken_of_each_figure() -> None:
    found = median([turn(1, 9), turn(3, 1), turn(2, 5)])
    assert (found.requests_per_s, found.p99_ms) == (2, 5)


def test_requests_are_those_of_fifty_pods_with_ten_demands(tmp_path: Path) -> None:
    file = tmp_path / "bodies"
    request_bodies.write(file, ["a", "b"])
    bodies = [json.loads(line) for line in file.read_text().splitlines()]
    pods = [body["Pod"] for body in bodies]
    assert all(body["NodeNames"] == ["a", "b"] for body in bodies)
    assert len({pod["metadata"]["uid"] for pod in pods}) == 50
    assert len({json.dumps(pod["spec"]["containers"][0]["resources"]["requests"]) for pod in pods}) == 10
