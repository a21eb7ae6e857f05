# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of docs/development/benchmarks.md about the pods bound per second, out of the measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.bench.estimate import CONFIDENCE
from tests.bench.extender.binding_rate import GO, NONE, OWN, PARALLELISM, SHARES, Bindings, Rates, paired_ratio, summary
from tests.bench.extender.contenders import REFRESH_S
from tests.bench.page import machine, table

LEAST_RATIO = 1.0
"""The least pods per second, in multiples of the Go extender's."""

ROUNDS = " and ".join(f"{share.rounds} rounds with {share.names:,} names" for share in SHARES)

INTRODUCTION = f"""A real kube-scheduler binds pods on 5,000 nodes as fast as it can, with a real API server and a real Prometheus on the
same machine. Requests are sent over one connection for one pod after the other, so that the time of each answer counts. The scheduler
scores 10 % of 5,000 nodes by default, and all of them with `percentageOfNodesToScore: 100`. network_traffic refreshes its values every
{REFRESH_S} s and follows each binding: the API server sends a watch event for each pod, and the extender decodes it, which the Go extender
does not do. *One query for each node and pod* is the way of cylonchau/customScheduler, in Go, for {PARALLELISM} nodes at the
same time. Its query reads the counters of all nodes. Every row with an extender also has what any extender costs: kube-scheduler cannot
take the result of one pod for the next equal one.

There are {ROUNDS}. In each round all extenders follow each other. The figures are medians of all turns, with
the slowest and the fastest turn in parentheses, and one turn for the slow row. *In the same round* is the mean of the ratios to the Go
extender's turn of the same round, with the {CONFIDENCE:.0%} confidence interval. A goal is *met* or *missed* if the whole interval is above
or below the limit. *Even*: the interval contains it. CPU is that of the extender's process, for each pod.

The watch of pods does not decide the result with 500 names: in a trial this extender bound as many pods per second without it.
While all cores are busy, an answer mostly waits for memory that the scheduler has displaced from the caches of the processor."""


def section(rates: Rates) -> str:
    """Return the whole part."""
    goals = table(["goal", "reached"], _goals(rates))
    return "\n\n".join(["## Pods bound per second", INTRODUCTION, machine(), "### Goals", goals, "### Rates", binding_table(rates)])


def binding_table(rates: Rates) -> str:
    """Return the pods per second of all contenders, a row each."""
    figures = ("pods/s", "× Go", "× Go in the same round", "cpu ms")
    header = ["", *(f"{names:,} names, {figure}" for names in rates for figure in figures)]
    contenders = next(iter(rates.values()))
    return table(header, ([name, *(cell for found in rates.values() for cell in _cells(found, name))] for name in contenders))


def _cells(found: Mapping[str, Sequence[Bindings]], name: str) -> list[str]:
    turns = summary(found[name])
    rate = f"{turns.pods_per_s:.3g}"
    if turns.slowest < turns.fastest:
        rate += f" ({turns.slowest:.3g} to {turns.fastest:.3g})"
    ratio = turns.pods_per_s / summary(found[GO]).pods_per_s
    paired = None if name == GO else paired_ratio(found[name], found[GO])
    return [
        rate,
        f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}",
        f"{paired.mean:.2f} ± {paired.half:.2f}" if paired else "",
        "" if name == NONE else f"{turns.cpu_ms:.2f}",
    ]


def _goals(rates: Rates) -> Iterator[list[str]]:
    for names, found in rates.items():
        paired = paired_ratio(found[OWN], found[GO])
        if paired is None:
            raise ValueError(f"{names} names: {OWN} and {GO} need at least two turns each, in the same rounds")
        median = summary(found[OWN]).pods_per_s / summary(found[GO]).pods_per_s
        reached = f"{paired.mean:.2f} ± {paired.half:.2f} ×, limit {LEAST_RATIO:.2f} × (of the medians {median:.2f} ×)"
        yield [f"{names:,} names: pods bound per second, × Go in the same round", f"{paired.verdict(LEAST_RATIO)}: {reached}"]
