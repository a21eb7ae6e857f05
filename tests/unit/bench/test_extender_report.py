# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of the extender are computed from measured values, and its requests are those of kube-scheduler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.extender import binding_rate, binding_report, report, request_bodies
from tests.bench.extender.binding_rate import Bindings
from tests.bench.extender.memory import Footprint
from tests.bench.extender.throughput import GO, ONE, OWN, SEVERAL, SEVERAL_DEFAULT, Turn, median

GO_RATES = (80.0, 60.0, 100.0)


def rates_of(*own: float) -> binding_rate.Rates:
    """Return the turns of all contenders with 500 names. ``own`` are the pods per second of this extender."""
    return {
        500: {
            binding_rate.NONE: [Bindings(pods_per_s, 0.0) for pods_per_s in (100.0, 90.0, 130.0)],
            binding_rate.GO: [Bindings(pods_per_s, 0.7) for pods_per_s in GO_RATES],
            binding_rate.OWN: [Bindings(pods_per_s, cpu_ms) for pods_per_s, cpu_ms in zip(own, (0.9, 0.8, 1.2), strict=True)],
            binding_rate.PER_NODE: [Bindings(0.0567, 20000.0)],
        }
    }


FOOTPRINT = Footprint(ready_mb=90, loaded_mb=131, peak_mb=140, cpu=0.02)


def turn(requests_per_s: float, p99_ms: float) -> Turn:
    return Turn(requests_per_s, p50_ms=0.1, p99_ms=p99_ms, p999_ms=2.0, first_ms=20.0, cpu_us=100.0)


def test_goals_compare_with_the_go_extender_of_the_same_number_of_names() -> None:
    own = {**dict.fromkeys(OWN, turn(2100, 0.5)), SEVERAL: turn(900, 1.5)}
    text = report.section({500: {GO: turn(1000, 1.0), **own}}, FOOTPRINT)
    assert f"| 500 names, {ONE}: requests per second, × Go | met: 2.10 ×, limit 1.20 × |" in text
    assert f"| 500 names, {SEVERAL}: requests per second, × Go | missed: 0.90 ×, limit 1.00 × |" in text
    assert f"| 500 names, {ONE}: p99 below that of Go | met: 0.50 ms, limit 1.00 ms |" in text
    assert f"| 500 names, {SEVERAL}: p99 below that of Go | missed: 1.50 ms, limit 1.00 ms |" in text
    assert "first answer | missed: 20.0 ms, limit 10.0 ms |" in text
    assert "20,000 pods, median of 15 s | missed: 131 MB, limit 130 MB |" in text


def test_turns_with_refreshes_at_the_default_interval_have_goals_where_they_are_measured() -> None:
    own = {name: turn(2100, 0.5) for name, how in OWN.items() if how.names is None}
    found = {500: {GO: turn(1000, 1.0), **own}, 5_000: {GO: turn(1000, 1.0), **own, SEVERAL_DEFAULT: turn(900, 0.5)}}
    rows = [line for line in report.section(found, FOOTPRINT).splitlines() if f"{SEVERAL_DEFAULT}: " in line]
    assert SEVERAL_DEFAULT == "three agents, refresh each 15 s" and OWN[SEVERAL_DEFAULT].turn_s > OWN[SEVERAL_DEFAULT].refresh_s
    assert rows == [
        f"| 5,000 names, {SEVERAL_DEFAULT}: requests per second, × Go | missed: 0.90 ×, limit 1.00 × |",
        f"| 5,000 names, {SEVERAL_DEFAULT}: p99 below that of Go | met: 0.50 ms, limit 1.00 ms |",
        f"| 5,000 names, {SEVERAL_DEFAULT}: p99.9 below that of Go | met: 2.00 ms, limit 2.00 ms |",
    ]


@pytest.mark.parametrize(
    ("own", "reached"),
    [
        pytest.param((88.0, 67.2, 109.0), "met: 1.10 ± 0.04 ×, limit 1.00 × (of the medians 1.10 ×)", id="each round is faster"),
        pytest.param((72.0, 53.4, 91.0), "missed: 0.90 ± 0.02 ×, limit 1.00 × (of the medians 0.90 ×)", id="each round is slower"),
        pytest.param((60.0, 90.0, 95.0), "even: 1.07 ± 0.96 ×, limit 1.00 × (of the medians 1.12 ×)", id="the rounds differ"),
    ],
)
def test_bindings_are_compared_with_the_go_extender_of_the_same_round(own: tuple[float, ...], reached: str) -> None:
    text = binding_report.section(rates_of(*own))
    assert f"| 500 names: pods bound per second, × Go in the same round | {reached} |" in text


def test_a_row_of_bindings_has_medians_and_the_ratio_of_its_rounds() -> None:
    rows = binding_report.binding_table(rates_of(60.0, 90.0, 95.0)).splitlines()[2:]
    assert rows == [
        f"| {binding_rate.NONE} | 100 (90 to 130) | 1.25 | 1.35 ± 0.33 |  |",
        f"| {binding_rate.GO} | 80 (60 to 100) | 1.00 |  | 0.70 |",
        f"| {binding_rate.OWN} | 90 (60 to 95) | 1.12 | 1.07 ± 0.96 | 0.90 |",
        f"| {binding_rate.PER_NODE} | 0.0567 | 0.00071 |  | 20000.00 |",
    ]


def test_a_goal_needs_the_turns_of_the_same_rounds() -> None:
    turns = {500: {**rates_of(60.0, 90.0, 95.0)[500], binding_rate.OWN: [Bindings(60.0, 0.9)]}}
    with pytest.raises(ValueError, match=f"500 names: {binding_rate.OWN} and {binding_rate.GO} need at least two turns each"):
        binding_report.section(turns)


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
