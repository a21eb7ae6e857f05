# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of docs/development/benchmarks.md about the extender's requests and its memory, out of the measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.bench.extender.cluster_fixture import BINDINGS_PER_S, PODS_PER_NODE
from tests.bench.extender.contenders import REFRESH_S
from tests.bench.extender.memory import PODS, Footprint
from tests.bench.extender.request_bodies import DEMANDS
from tests.bench.extender.request_bodies import PODS as ASKED_PODS
from tests.bench.extender.throughput import (
    GO,
    LONG_NAMES,
    LONG_TURN_S,
    ONE,
    ONE_DEFAULT,
    OWN,
    ROUNDS,
    SEVERAL,
    SEVERAL_DEFAULT,
    SEVERAL_OFTEN,
    TURN_S,
    Turn,
)
from tests.bench.page import goal, machine, table

LEAST_RATIO = {ONE: 1.2, ONE_DEFAULT: 1.2, SEVERAL: 1.0, SEVERAL_DEFAULT: 1.0}
"""The least requests per second, in multiples of the Go extender's."""
MOST_FIRST_MS = {500: 10, 5_000: 50}
MEMORY_MB = 130

Speed = Mapping[int, Mapping[str, Turn]]

INTRODUCTION = f"""The verb prioritize, over one keep-alive connection, because kube-scheduler sends one request after the other. A load
generator in Go sends the requests for {ASKED_PODS} pods of {DEMANDS} demands. Each request names all nodes of the cluster
(`nodeCacheCapable: true`). The Go extender decodes with encoding/json into the upstream types, and gives each node the same score.

This extender has all its features: metrics, the last pods for /explain, a watch of nodes and pods, and the refresh of the values. Each node
has {PODS_PER_NODE} pods, and {BINDINGS_PER_S} more pods are bound each second. A small server answers the queries in place of Prometheus.
*Three agents* are safe_overload, which also filters, network_traffic and congestion. The default is {REFRESH_S} s between two refreshes, so
that no refresh is in a turn of {TURN_S} s. *Refresh each second* shows the latency during refreshes, which are {REFRESH_S} times as rare
with the default. *Refresh each {REFRESH_S} s* is the default in turns of {LONG_TURN_S} s, which have refreshes, with {LONG_NAMES:,} names
only. The figures are medians of {ROUNDS} turns. In each round all extenders follow each other, and only the one that is measured runs.
Processes of the policy SCHED_IDLE keep the CPUs of a virtual machine awake, because its host needs more
time to start a halted CPU than an answer takes. *First* is the slowest of the first answers to the {ASKED_PODS} pods, while nothing is
calculated for their demands yet. CPU is that of the whole process, with its background work."""


def section(speed: Speed, footprint: Footprint) -> str:
    """Return the whole part."""
    parts = ["## The extender", INTRODUCTION, machine(), "### Goals", table(["goal", "reached"], _goals(speed, footprint))]
    for names, turns in speed.items():
        parts += [f"### {names:,} names", speed_table(names, turns)]
    parts += ["### Memory", _memory(footprint)]
    return "\n\n".join(parts)


def speed_table(names: int, turns: Mapping[str, Turn]) -> str:
    """Return the figures of one number of names."""
    header = [f"{names:,} names", "requests/s", "× Go", "p50 ms", "p99 ms", "p99.9 ms", "first ms", "cpu µs a request"]
    go = turns[GO]
    rows = [
        [
            name,
            f"{turn.requests_per_s:,.0f}",
            f"{turn.requests_per_s / go.requests_per_s:.2f}",
            f"{turn.p50_ms:.2f}",
            f"{turn.p99_ms:.2f}",
            f"{turn.p999_ms:.2f}",
            f"{turn.first_ms:.1f}",
            f"{turn.cpu_us:.0f}",
        ]
        for name, turn in turns.items()
    ]
    return table(header, rows)


def _goals(speed: Speed, footprint: Footprint) -> Iterator[list[str]]:
    for names, turns in speed.items():
        go = turns[GO]
        for name, least in LEAST_RATIO.items():
            if name not in turns:
                continue
            ratio = turns[name].requests_per_s / go.requests_per_s
            reached = f"{'met' if ratio >= least else 'missed'}: {ratio:.2f} ×, limit {least:.2f} ×"
            yield [f"{names:,} names, {name}: requests per second, × Go", reached]
        for name in (name for name in OWN if name in turns):
            yield [f"{names:,} names, {name}: p99 below that of Go", goal(turns[name].p99_ms, go.p99_ms, "ms", digits=2)]
            yield [f"{names:,} names, {name}: p99.9 below that of Go", goal(turns[name].p999_ms, go.p999_ms, "ms", digits=2)]
        if names in MOST_FIRST_MS:
            for name in (SEVERAL, SEVERAL_OFTEN):
                yield [f"{names:,} names, {name}: first answer", goal(turns[name].first_ms, MOST_FIRST_MS[names], "ms", digits=1)]
    yield [f"resident with all agents, 5,000 nodes and {PODS:,} pods, median of {REFRESH_S} s", goal(footprint.loaded_mb, MEMORY_MB, "MB")]


def _memory(found: Footprint) -> str:
    text = f"""A real API server has 5,000 nodes and {PODS:,} pods, and all nine agents are in the profile. The
requests are those of the part above, and refreshes continue meanwhile. The resident memory after them is the median of {REFRESH_S} s,
which is one refresh interval. The goal of {MEMORY_MB} MB is about this median. The highest point includes the values of two refreshes, and
[the guide](../network-aware-scheduling.md#memory) derives the limit of a pod from it. An MB is a MiB here."""
    rows = [
        ["resident when it is ready", f"{found.ready_mb:.0f} MB"],
        ["resident after refreshes and load", f"{found.loaded_mb:.0f} MB"],
        ["at its highest point", f"{found.peak_mb:.0f} MB"],
        ["cpu without requests, share of one core", f"{found.cpu:.1%}"],
    ]
    return f"{text}\n\n{table(['', 'all agents'], rows)}"
