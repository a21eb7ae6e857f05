# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of docs/development/benchmarks.md about the spread check, out of the measurements."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.binaries import DESCHEDULER_VERSION
from tests.bench import big_cluster
from tests.bench.measure import Figures
from tests.bench.page import goal, machine, table

CLUSTERS = """Pods are stored as their controllers would have left them, and then only the API server and etcd run. One Deployment
in {collapsed_every} has all replicas on one node. Of every 20 Deployments, two have required and preferred anti-affinity by hostname, two a
spread constraint by zone (DoNotSchedule), one a required pod affinity by zone to another Deployment, and one a bound claim whose volume
half of the zones can reach."""
DESCHEDULER_FACTOR = 5
PREDICATES_MS = 50


@dataclass(frozen=True)
class Measured:
    """The measurements at one size.

    ``collapsed``, ``restartable``: the counts of the check. ``evictions``: the number of pods that the descheduler would evict, by
    Deployment. ``original``: the number of ``deployments`` checked in ``seconds``. ``predicates``: by variant, see filters.py.
    ``most_memory_mb``, ``most_floors``: the goals for the check, in megabytes and in multiples of the floor's wall time.
    """

    pods: int
    runs: int
    most_memory_mb: int
    most_floors: float
    floor: Figures
    check: Figures
    check_without_prediction: Figures
    ansible: Figures
    descheduler: Figures
    original_process: Figures
    original: Mapping[str, float]
    collapsed: int
    restartable: int
    evictions: Counter[str]
    predicates: Mapping[str, Mapping[str, Any]]

    @property
    def deployments(self) -> int:
        """The number of Deployments."""
        return self.pods // big_cluster.REPLICAS

    @property
    def piled_up(self) -> int:
        """The number of Deployments whose replicas are all on one node."""
        return len(range(0, self.deployments, big_cluster.COLLAPSED_EVERY))

    @property
    def title(self) -> str:
        """The size in words."""
        return f"{self.pods:,} pods"


def section(sizes: Sequence[Measured], requests: Mapping[str, Counter[str]]) -> str:
    """The whole part."""
    parts = ["## The spread check", CLUSTERS.format(collapsed_every=big_cluster.COLLAPSED_EVERY), machine()]
    parts += [part for size in sizes for part in (f"### {_size_in_words(size)}", _processes(size), _least_wall(size), _findings(size))]
    if len(sizes) > 1:
        parts += ["### Growth", _growth(sizes[0], sizes[-1])]
    parts += ["### Goals", _goals(sizes), "## Predicates", PREDICATES, _predicates(sizes), "## Requests of a restart", REQUESTS]
    return "\n\n".join([*parts, _requests(requests)])


PREDICATES = """Cpu milliseconds for the filters of one template on all nodes. The first call works out what runs on each node, which all
templates share."""

REQUESTS = """Counted in the audit log, for one Deployment of two replicas that is named in the task. A list is one request for each 2,000
objects. `tests/integration/modules/test_requests.py` allows no others."""


def _size_in_words(size: Measured) -> str:
    return f"{big_cluster.NODES:,} nodes, {size.pods:,} pods, {size.deployments:,} Deployments"


def _processes(size: Measured) -> str:
    """The table of whole processes."""
    measured = [
        ("`kubectl get --raw` of nodes and pods (the floor)", size.floor),
        ("k8s_spread_check, module process", size.check),
        ("k8s_spread_check, `predict: false`", size.check_without_prediction),
        ("Ansible's own start (`ansible -m ping`)", size.ansible),
        (f"descheduler {DESCHEDULER_VERSION}, `RemoveDuplicates` with `nodeFit`, dry run, once", size.descheduler),
    ]
    rows = [
        (name, f"{f.wall:.2f}", f"{f.wall / size.floor.wall:.2f}", f"{f.cpu:.2f}", _server_cpu(f), f"{f.memory:.0f}")
        for name, f in measured
    ]
    each_s = size.original["seconds"] / size.original["deployments"]
    whole_s = each_s * size.deployments
    sample = f"{each_s:.2f} s a Deployment ({size.original['deployments']:.0f} measured), so for all"
    rows.append((
        f"for each Deployment a list of its namespace's pods, through the client's typed models: {sample}",
        f"{whole_s:.0f}",
        f"{whole_s / size.floor.wall:.0f}",
        "",
        "",
        f"{size.original_process.memory:.0f}",
    ))  # fmt: skip
    header = (f"medians of {size.runs} runs in turn", "wall s", "× floor", "cpu s", "server's cpu s", "peak MB")
    return table(header, rows)


def _server_cpu(figures: Figures) -> str:
    return f"{figures.server_cpu:.2f}" if figures.server_cpu_s else ""


def _least_wall(size: Measured) -> str:
    """Return the sentence about the wall time that no order of the same work could fall below."""
    cores = os.cpu_count() or 1
    work_s = size.check.cpu + size.check.server_cpu
    least = work_s / cores / size.floor.wall
    predictions_s = size.check.cpu - size.check_without_prediction.cpu
    return (
        f"The check and the server together need {work_s:.2f} CPU seconds. On {cores} cores that share this work without a pause, they "
        f"take {work_s / cores:.2f} s, which is {least:.2f} × the floor.\n"
        f"The predictions for {size.collapsed} collapsed Deployments need {predictions_s:.2f} of these "
        "seconds. Most of that is for the first Deployment with rules\nof its kind: the filter results and the scores of all nodes are "
        "computed then, and later Deployments use them again."
    )


def _findings(size: Measured) -> str:
    """Return the findings of the programs. They show that each measured program did its work."""
    evicted = sum(size.evictions.values())
    return (
        f"Of {size.piled_up} collapsed Deployments k8s_spread_check finds {size.collapsed}, {size.restartable} of them restartable.\n"
        f"The descheduler would evict {evicted} pods of {len(size.evictions)} Deployments: of each that it finds, all replicas on the node "
        f"but one are duplicates, which are {big_cluster.REPLICAS - 1}. (Its dry run uses\na copy of the cluster and begins before the "
        "copy is complete, so it does not find the pods on the nodes that it checks first.)"
    )


def _growth(small: Measured, big: Measured) -> str:
    names = {"the floor": "floor", "k8s_spread_check": "check", "k8s_spread_check, `predict: false`": "check_without_prediction"}
    rows = []
    for name, attribute in {**names, "descheduler": "descheduler"}.items():
        before, after = getattr(small, attribute), getattr(big, attribute)
        rows.append((
            name,
            f"{after.wall / before.wall:.1f}",
            f"{after.cpu / before.cpu:.1f}",
            f"{after.memory / before.memory:.1f}",
        ))  # fmt: skip
    return table((f"from {small.title} to {big.title}, × {big.pods / small.pods:.0f}", "wall ×", "cpu ×", "memory ×"), rows)


def _goals(sizes: Sequence[Measured]) -> str:
    columns = [_goals_at(size) for size in sizes]
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    return table(("goal for k8s_spread_check", *(size.title for size in sizes)), rows)


def _goals_at(size: Measured) -> dict[str, str]:
    """Return the goals, and for each of them the text that says whether it is met."""
    slowest_ms = max(found["again_ms"] for found in size.predicates.values())
    return {
        "wall time, × the floor": goal(size.check.wall / size.floor.wall, size.most_floors, "×", digits=2),
        f"{DESCHEDULER_FACTOR} times faster than the descheduler": goal(
            size.check.wall, size.descheduler.wall / DESCHEDULER_FACTOR, "s", digits=1
        ),
        "peak memory": goal(size.check.memory, size.most_memory_mb, "MB"),
        f"one template on {big_cluster.NODES:,} nodes, slowest variant, not the first": goal(slowest_ms, PREDICATES_MS, "ms"),
    }


def _predicates(sizes: Sequence[Measured]) -> str:
    rows = []
    for variant in sizes[0].predicates:
        cells = [size.predicates[variant] for size in sizes]
        rows.append((variant, *(f"{found['first_ms']:.0f}, then {found['again_ms']:.0f}" for found in cells)))
    return table((f"ms on {big_cluster.NODES:,} nodes", *(size.title for size in sizes)), rows)


def _requests(counts: Mapping[str, Counter[str]]) -> str:
    names = sorted({name for found in counts.values() for name in found}, key=lambda name: (name.split()[0] != "list", name))
    rows = [(name, *(str(found[name] or "") for found in counts.values())) for name in names]
    rows.append(("all", *(str(found.total()) for found in counts.values())))
    return table(("request", *counts), rows)
