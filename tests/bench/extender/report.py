# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of docs/development/benchmarks.md about the extender, out of the measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.bench.extender import binding_rate
from tests.bench.extender.binding_rate import Rates, Summary
from tests.bench.extender.cluster_fixture import BINDINGS_PER_S, PODS_PER_NODE
from tests.bench.extender.contenders import OFTEN_S, REFRESH_S
from tests.bench.extender.memory import PODS, Footprint
from tests.bench.extender.request_bodies import DEMANDS
from tests.bench.extender.request_bodies import PODS as ASKED_PODS
from tests.bench.extender.throughput import GO, ONE, OWN, ROUNDS, SEVERAL, SEVERAL_OFTEN, TURN_S, Turn
from tests.bench.page import goal, machine, table

LEAST_RATIO = {100: 1.8, 500: 2.0, 5_000: 2.0}
"""The least requests per second, in multiples of the Go extender's, by the number of names."""
MOST_FIRST_MS = {500: 10, 5_000: 50}
MEMORY_MB = 120

Speed = Mapping[int, Mapping[str, Turn]]

INTRODUCTION = f"""The verb prioritize, over one keep-alive connection, because kube-scheduler sends one request after the other. A load
generator in Go sends the requests for {ASKED_PODS} pods of {DEMANDS} demands. Each request names all nodes of the cluster
(`nodeCacheCapable: true`). The Go extender decodes with encoding/json into the upstream types, and gives each node the same score.

This extender has all its features: metrics, the last pods for /explain, a watch of nodes and pods, and the refresh of the values. Each node
has {PODS_PER_NODE} pods, and {BINDINGS_PER_S} more pods are bound each second. A small server answers the queries in place of Prometheus.
*Three agents* are safe_overload, which also filters, network_traffic and congestion. With {REFRESH_S} s between two refreshes no refresh is
in a turn of {TURN_S} s. The other rows have a refresh every {OFTEN_S} s, so that they show the latency during refreshes: with the default
refreshes are {REFRESH_S} times as rare. The figures are medians of {ROUNDS} turns. In each round all extenders follow each other, and only
the one that is measured runs. Processes of the policy SCHED_IDLE keep the CPUs of a virtual machine awake, because its host needs more
time to start a halted CPU than an answer takes. *First* is the slowest of the first answers to the {ASKED_PODS} pods, while nothing is
calculated for their demands yet. CPU is that of the whole process, with its background work."""


BINDING_RATES = f"""A real kube-scheduler binds pods on 5,000 nodes as fast as it can, with a real API server and a real Prometheus on the
same machine. Requests are sent over one connection for one pod after the other, so that the time of each answer counts. The scheduler
scores 10 % of 5,000 nodes by default, and all of them with `percentageOfNodesToScore: 100`. network_traffic refreshes its values every
{REFRESH_S} s and follows each binding: the API server sends a watch event for each pod, and the extender decodes it, which the Go extender
does not do. *One query for each node and pod* is the way of cylonchau/customScheduler, in Go, for {binding_rate.PARALLELISM} nodes at the
same time. Its query reads the counters of all nodes. Every row with an extender also has what any extender costs: kube-scheduler cannot
take the result of one pod for the next equal one. The figures are medians of {binding_rate.ROUNDS} turns, with the slowest and the fastest
turn in parentheses, and one turn for the slow row. CPU is that of the extender's process, for each pod."""


def section(speed: Speed, footprint: Footprint, rates: Rates) -> str:
    """Return the whole part."""
    parts = ["## The extender", INTRODUCTION, machine(), "### Goals", table(["goal", "reached"], _goals(speed, footprint, rates))]
    for names, turns in speed.items():
        parts += [f"### {names:,} names", speed_table(names, turns)]
    parts += ["### Pods bound per second", BINDING_RATES, binding_table(rates), "### Memory", _memory(footprint)]
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


def binding_table(rates: Rates) -> str:
    """Return the pods per second of all contenders, a row each."""
    header = ["", *(f"{names:,} names, {figure}" for names in rates for figure in ("pods/s", "× Go", "cpu ms"))]
    contenders = next(iter(rates.values()))
    return table(header, ([name, *(cell for found in rates.values() for cell in _binding_cells(found, name))] for name in contenders))


def _binding_cells(found: Mapping[str, Summary], name: str) -> list[str]:
    turns = found[name]
    rate = f"{turns.pods_per_s:.3g}"
    if turns.slowest < turns.fastest:
        rate += f" ({turns.slowest:.3g} to {turns.fastest:.3g})"
    ratio = turns.pods_per_s / found[binding_rate.GO].pods_per_s
    return [rate, f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}", "" if name == binding_rate.NONE else f"{turns.cpu_ms:.2f}"]


def _goals(speed: Speed, footprint: Footprint, rates: Rates) -> Iterator[list[str]]:
    for names, turns in speed.items():
        go, least = turns[GO], LEAST_RATIO[names]
        for name in (ONE, SEVERAL):
            ratio = turns[name].requests_per_s / go.requests_per_s
            reached = f"{'met' if ratio >= least else 'missed'}: {ratio:.2f} ×, limit {least:.2f} ×"
            yield [f"{names:,} names, {name}: requests per second, × Go", reached]
        for name in OWN:
            yield [f"{names:,} names, {name}: p99 below that of Go", goal(turns[name].p99_ms, go.p99_ms, "ms", digits=2)]
            yield [f"{names:,} names, {name}: p99.9 below that of Go", goal(turns[name].p999_ms, go.p999_ms, "ms", digits=2)]
        if names in MOST_FIRST_MS:
            for name in (SEVERAL, SEVERAL_OFTEN):
                yield [f"{names:,} names, {name}: first answer", goal(turns[name].first_ms, MOST_FIRST_MS[names], "ms", digits=1)]
    for names, found in rates.items():
        ratio = found[binding_rate.OWN].pods_per_s / found[binding_rate.GO].pods_per_s
        reached = f"{'met' if ratio >= 1 else 'missed'}: {ratio:.2f} ×, limit 1.00 ×"
        yield [f"{names:,} names: pods bound per second, × Go", reached]
    yield [f"resident with all agents, 5,000 nodes and {PODS:,} pods", goal(footprint.loaded_mb, MEMORY_MB, "MB")]


def _memory(found: Footprint) -> str:
    text = f"""A real API server has 5,000 nodes and {PODS:,} pods, and all nine agents are in the profile. The
requests are those of the part above, and refreshes continue meanwhile. The resident memory after them is the median of {REFRESH_S} s,
which is one refresh interval. The highest point includes the values of two refreshes."""
    rows = [
        ["resident when it is ready", f"{found.ready_mb:.0f} MB"],
        ["resident after refreshes and load", f"{found.loaded_mb:.0f} MB"],
        ["at its highest point", f"{found.peak_mb:.0f} MB"],
        ["cpu without requests, share of one core", f"{found.cpu:.1%}"],
    ]
    return f"{text}\n\n{table(['', 'all agents'], rows)}"
