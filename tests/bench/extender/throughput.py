# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests per second and latency of prioritize: this extender and the Go extender, in turn."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.bench.extender import request_bodies
from tests.bench.extender.awake_cpus import awake_cpus
from tests.bench.extender.cluster_fixture import Fixture, cluster_fixture, node_names
from tests.bench.extender.contenders import OFTEN_S, REFRESH_S, Running, go_extender, own_extender
from tests.bench.extender.programs import GO_EXTENDER, LOAD_GENERATOR, build
from tests.bench.extender.settings import THREE, TRAFFIC, Json

WARM_UP_S, TURN_S, ROUNDS = 1, 4, 3
LONG_TURN_S, LONG_NAMES = 2 * REFRESH_S, 5_000
"""A turn with two refreshes at the default interval, and the number of names with which there are such turns."""
GO = "Go extender, constant scores"
ONE, ONE_OFTEN = "network_traffic", "network_traffic, refresh each second"
SEVERAL, SEVERAL_OFTEN = "three agents", "three agents, refresh each second"
ONE_DEFAULT, SEVERAL_DEFAULT = f"network_traffic, refresh each {REFRESH_S} s", f"three agents, refresh each {REFRESH_S} s"


class Own(NamedTuple):
    """The agents of this extender, and the time between two refreshes. Without ``names`` it is measured with each number of names."""

    agents: list[Json]
    refresh_s: float
    turn_s: int = TURN_S
    names: int | None = None


OWN = {
    ONE: Own([TRAFFIC], REFRESH_S),
    ONE_OFTEN: Own([TRAFFIC], OFTEN_S),
    ONE_DEFAULT: Own([TRAFFIC], REFRESH_S, LONG_TURN_S, LONG_NAMES),
    SEVERAL: Own(THREE, REFRESH_S),
    SEVERAL_OFTEN: Own(THREE, OFTEN_S),
    SEVERAL_DEFAULT: Own(THREE, REFRESH_S, LONG_TURN_S, LONG_NAMES),
}

Contender = Callable[[], AbstractContextManager[Running]]


@dataclass(frozen=True)
class Turn:
    """One turn of a contender. Latencies are in milliseconds. ``first_ms``: the slowest of the first answers to 50 pods of ten demands."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    first_ms: float
    cpu_us: float
    """CPU time of the whole process for one request, in microseconds."""


def median(turns: list[Turn]) -> Turn:
    """Return the medians of all figures."""
    return Turn(*(statistics.median(getattr(turn, name) for turn in turns) for name in Turn.__dataclass_fields__))


def measure(names: int, rounds: int = ROUNDS, only: str = "") -> dict[str, Turn]:
    """Return the medians of each contender on a cluster with so many nodes, all of which each request names."""
    generator, program = build(LOAD_GENERATOR), build(GO_EXTENDER)
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as temporary:
        folder = Path(temporary)
        bodies = folder / "bodies"
        request_bodies.write(bodies, node_names(names))
        with cluster_fixture(folder, names) as fixture, awake_cpus():
            contenders: dict[str, Contender] = {GO: lambda: go_extender(program, folder / "go")}
            contenders |= {name: _own(folder / "own", fixture, own) for name, own in OWN.items() if own.names in (None, names)}
            turns: dict[str, list[Turn]] = {name: [] for name in contenders if only in name}
            for number in range(rounds):
                for name, found in turns.items():
                    turn_s = OWN[name].turn_s if name in OWN else TURN_S
                    found.append(_turn(contenders[name], generator, bodies, names, turn_s))
                    print(f"{names} names, round {number + 1} of {rounds}, {name}: {found[-1]}", file=sys.stderr, flush=True)
    return {name: median(found) for name, found in turns.items()}


def _own(folder: Path, fixture: Fixture, own: Own) -> Contender:
    return lambda: own_extender(folder, own.agents, fixture, refresh_s=own.refresh_s)


def _turn(contender: Contender, generator: Path, bodies: Path, names: int, turn_s: int) -> Turn:
    with contender() as running:
        began_s = running.cpu_s()
        command = [str(generator), "-address", str(running.address), "-requests", str(bodies), "-names", str(names)]
        times = ["-warm-up", f"{WARM_UP_S}s", "-duration", f"{turn_s}s"]
        answer = subprocess.run([*command, *times], check=True, capture_output=True)
        found = json.loads(answer.stdout)
        figures: dict[str, float] = {name: found[name] for name in ("requests_per_s", "p50_ms", "p99_ms", "p999_ms", "first_ms")}
        return Turn(**figures, cpu_us=(running.cpu_s() - began_s) / found["all_requests"] * 1e6)
