# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of docs/development/benchmarks.md about rescues, out of the measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.page import goal, machine, table
from tests.bench.rescue import footprint, hopeless
from tests.bench.rescue.latency import Sample

Json = dict[str, Any]

MEDIAN_S, SLOW_S = 0.6, 3.0
TOGETHER_S = 20
PLAN_MS = 300
MEMORY_MB = 200
IDLE_PERCENT = 2
STARTED_S, AGAIN_S = 2, 10


@dataclass(frozen=True)
class Measured:
    """The measurements of latency.py, planning.py, footprint.py, comparison.py and hopeless.py. ``nodes``: the number of nodes of
    the smaller cluster."""

    nodes: int
    samples: Sequence[Sample]
    planning: Mapping[str, Any]
    footprint: Mapping[str, float]
    ways: Mapping[str, Sequence[Json]]
    hopeless: Mapping[str, float]


def section(found: Measured) -> str:
    """The whole part."""
    sizes = f"{found.planning['nodes']:,} nodes and {found.planning['running']:,} pods"
    parts = ["## Rescues", CLUSTERS, machine(), "### Goals", _goals(found)]
    parts += [f"### From Unschedulable to bound, {found.nodes:,} nodes", LATENCY, _latency(found.samples)]
    parts += [f"### Planning for one pod, {sizes}", PLANNING, _planning(found.planning)]
    parts += [f"### The rescuer on {sizes}", FOOTPRINT.format(rescues=footprint.RESCUES), _footprint(found.footprint)]
    return "\n\n".join([*parts, "### Beside the scheduler's own preemption", COMPARISON, _comparison(found.ways), _winners(found.ways)])


CLUSTERS = """All programs of the control plane run. Each node has four pods of ReplicaSets of four sizes, without free capacity; their
priorities are mixed, a few are critical themselves, and half of the ReplicaSets have a budget that allows 0, 1 or 5 disruptions."""

LATENCY = """One critical pod after the other is created, of five sizes in turn. The rescuer clears a node for it, and the scheduler binds
it there. The rescuer is a separate process with all defaults, except that it shortens the grace period of the victims from 5 s to
1 s in the first column. The scheduler has no preemption. Then the pod is deleted, and the node becomes full again. All times
are those at which a watch shows the change, because the times in the API are in whole seconds. A simulated node ends a pod at
its `deletionTimestamp`, or one to two seconds after its deletion if that is later. The first is a whole second, so the end is
up to a second too early. *Beyond the grace period* is the whole time without the time that the victims took to end, or without
their grace period if they took longer."""

PLANNING = """One snapshot of a warm cache in which one pod has changed since the snapshot before, and the plan for one critical pod.
Medians and maxima."""

FOOTPRINT = """The rescuer has all defaults. Resident memory, and cpu as a share of one core. Heartbeats of all nodes continue. At the end
{rescues} critical pods are created at the same time, each of which needs victims of its own."""

COMPARISON = """Three clusters have the same pods (by the same seed), with ten nodes for each situation. Victims have a grace period of 1
s. *Scheduler* is kube-scheduler with its preemption. *Rescuer* is the rescuer with a settle time of 2 s, and a kube-scheduler without
preemption. *Both* is the rescuer together with a kube-scheduler that preempts. The seconds are from the creation of the pod until it is
bound, in one run. Victims are all pods that were evicted or deleted for it, by the audit log. A budget is violated if more of its pods
were evicted or deleted than it allowed."""


def _goals(found: Measured) -> str:
    rows = times(found.samples, found.footprint["rescues_s"])
    planned = [ms for pod in found.planning["pods"].values() for ms in pod["wall_ms"]]
    rows.append(("planning for one pod, median", goal(statistics.median(planned), PLAN_MS, "ms")))
    slowest = max(statistics.median(pod["wall_ms"]) for pod in found.planning["pods"].values())
    rows.append(("planning for the slowest kind of pod, median", goal(slowest, PLAN_MS, "ms")))
    beside = f"beside {hopeless.PODS} different pods that no eviction helps"
    together = f"a possible rescue starts whose pod appears together with {hopeless.PODS} different ones that no eviction helps"
    rows.append((together, goal(found.hopeless["together_s"], STARTED_S, "s", digits=1)))
    rows.append((f"a possible rescue starts {beside}, slowest", goal(found.hopeless["started_s"], STARTED_S, "s", digits=1)))
    rows.append((f"each pod is planned again {beside}", goal(found.hopeless["again_s"], AGAIN_S, "s", digits=1)))
    rows.append(("resident after all rescues", goal(found.footprint["rescued_mb"], MEMORY_MB, "MB")))
    rows.append(("cpu while nothing happens", goal(found.footprint["idle"] * 100, IDLE_PERCENT, "%", digits=1)))
    return table(("goal", "reached"), rows)


def times(samples: Sequence[Sample], rescues_s: float) -> list[tuple[str, str]]:
    """The goals for the time from Unschedulable to bound, and for many critical pods that are created at the same time."""
    rows = []
    for grace in _graces(samples):
        beyond, what = _beyond(samples, grace), f"bound beyond a grace period of {grace} s"
        rows.append((f"{what}, median", goal(statistics.median(beyond), MEDIAN_S, "s", digits=2)))
        rows.append((f"{what}, 95th percentile", goal(percentile(beyond, 95), SLOW_S, "s", digits=2)))
    together = f"{footprint.RESCUES} critical pods at the same time, all bound"
    return [*rows, (together, goal(rescues_s, TOGETHER_S, "s", digits=1))]


def _latency(samples: Sequence[Sample]) -> str:
    header = ("seconds, median / 95th percentile / maximum", *(f"grace period {grace} s" for grace in _graces(samples)))
    columns = {
        "until the last victim is evicted": lambda sample: sample.before,
        "until the last victim has ended (the lab's time)": lambda sample: sample.ending,
        "until the pod is bound": lambda sample: sample.after,
        "in all": lambda sample: sample.total,
        "**beyond the grace period**": lambda sample: sample.beyond,
    }
    rows = [(title, *(_spread(samples, grace, of) for grace in _graces(samples))) for title, of in columns.items()]
    counts: dict[str, Callable[[list[Sample]], int]] = {"rescues": len, "victims": lambda chosen: sum(sample.victims for sample in chosen)}
    for title, of in counts.items():
        rows.append((title, *(str(of([sample for sample in samples if sample.grace == grace])) for grace in _graces(samples))))
    late = [[sample.late for sample in samples if sample.grace == grace] for grace in _graces(samples)]
    rows.append(("the lab ends victims late by", *(f"{min(found):.2f} to {max(found):.2f}" for found in late)))
    return table(header, rows)


def _graces(samples: Sequence[Sample]) -> list[int]:
    return sorted({sample.grace for sample in samples})


def _beyond(samples: Sequence[Sample], grace: int) -> list[float]:
    return [sample.beyond for sample in samples if sample.grace == grace]


def _spread(samples: Sequence[Sample], grace: int, of: Callable[[Sample], float]) -> str:
    times = [of(sample) for sample in samples if sample.grace == grace]
    return f"{statistics.median(times):.2f} / {percentile(times, 95):.2f} / {max(times):.2f}"


def percentile(values: Sequence[float], percent: int) -> float:
    """The least of the values that so many percent do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def _planning(found: Mapping[str, Any]) -> str:
    rows = [
        (need, pod["status"], str(pod["victims"]), _middle_and_most(pod["wall_ms"]), _middle_and_most(pod["cpu_ms"]))
        for need, pod in found["pods"].items()
    ]
    idle = found["idle"]
    rows.append(("no pod, and nothing has changed", "", "", _middle_and_most(idle["wall_ms"]), _middle_and_most(idle["cpu_ms"])))
    return table(("the pod needs", "status", "victims", "wall ms", "cpu ms"), rows)


def _middle_and_most(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.0f}, {max(values):.0f}"


def _footprint(found: Mapping[str, float]) -> str:
    rows = [
        ("after its start", f"{found['start_mb']:.0f} MB", f"{found['start_cpu_s']:.1f} s in all"),
        (f"nothing happens ({footprint.IDLE_S:.0f} s)", "", f"{found['idle']:.1%}"),
        (f"{footprint.CHANGES_A_SECOND} pods a second change", f"{found['changed_mb']:.0f} MB", f"{found['changing']:.1%}"),
        (
            f"{footprint.RESCUES} pods at the same time, all bound after {found['rescues_s']:.0f} s",
            f"{found['rescued_mb']:.0f} MB",
            f"{found['rescues_cpu_s']:.1f} s in all",
        ),
    ]
    return table(("", "resident", "cpu"), rows)


def _comparison(ways: Mapping[str, Sequence[Json]]) -> str:
    rows = [(row[0]["situation"], *map(_cell, row)) for row in zip(*ways.values(), strict=True)]
    return table(("the nodes have", *ways), rows)


def _cell(found: Json) -> str:
    parts = ["not bound" if found["seconds"] is None else f"{found['seconds']:.1f} s"]
    if found["victims"]:
        parts.append(f"{found['victims']} victim{'s' if found['victims'] > 1 else ''}")
    if found["violated"]:
        parts.append(f"**{found['violated']} budget{'s' if found['violated'] > 1 else ''} violated**")
    return ", ".join(parts)


def _winners(ways: Mapping[str, Sequence[Json]]) -> str:
    """In words where which of them is better, from what was measured."""
    pairs = list(zip(ways["scheduler"], ways["rescuer"], strict=True))
    both = [(own["seconds"], other["seconds"]) for own, other in pairs if own["seconds"] is not None and other["seconds"] is not None]
    sooner = sum(own < other for own, other in both)
    only_rescuer = [other["situation"] for own, other in pairs if own["seconds"] is None and other["seconds"] is not None]
    refused = [other["situation"] for own, other in pairs if own["seconds"] is not None and other["seconds"] is None]
    violated = [sum(found["violated"] for found in ways[way]) for way in ("scheduler", "rescuer")]
    return "\n".join(
        [
            f"- **The scheduler is faster.** Where both place the pod, it was sooner in {sooner} of {len(both)} situations, by "
            f"{statistics.median(other - own for own, other in both):.1f} s in the median, of which 2 s are the rescuer's settle time.",
            f"- **Only the rescuer** places the pod: {'; '.join(only_rescuer) or 'nowhere'}.",
            f"- **Only the scheduler** places it, and violates what the rescuer respects: {'; '.join(refused) or 'nowhere'}.",
            f"- Budgets violated in all: {violated[0]} by the scheduler, {violated[1]} by the rescuer. A rescuer cannot prevent the "
            "preemption of kube-scheduler, which comes first.",
        ]
    )
