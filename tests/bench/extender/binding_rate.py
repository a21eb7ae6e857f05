# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods per second that a real kube-scheduler binds on 5,000 nodes, without an extender and with different ones."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cluster import Cluster, up
from lab.second_scheduler import SecondScheduler, render, second_scheduler
from tests.bench.big_cluster import NAME, NODES
from tests.bench.estimate import Estimate, ratio
from tests.bench.extender import request_bodies
from tests.bench.extender.cluster_fixture import Fixture, node_names
from tests.bench.extender.contenders import REFRESH_S, Running, go_extender, own_extender
from tests.bench.extender.programs import GO_EXTENDER, build
from tests.bench.extender.settings import PROFILE, Json
from tests.bench.extender.stored_series import DEVICE, stored_series
from tests.integration.workloads import wait_until

NONE, GO, OWN = "no extender", "Go extender, constant scores", "network_traffic"
PER_NODE = "one query for each node and pod"
TRAFFIC: Json = {"name": "network_traffic", "args": {"device": DEVICE, "direction": "receive"}}
PODS = "/api/v1/namespaces/default/pods"
BOUND_WITHIN_S = 900
REQUEST_TIMEOUT_S = 300
PARALLELISM = 16
"""The nodes that kube-scheduler scores at the same time, by default."""


@dataclass(frozen=True)
class Share:
    """A share of the nodes that the scheduler scores for a pod, in percent, and how many pods a turn has. 0 is the scheduler's default.

    ``rounds``: the turns of each extender. The extender that sends a query for each node has only one turn, with ``slow_pods`` pods.
    """

    percentage: int
    names: int
    pods: int
    slow_pods: int
    rounds: int


SHARES = (
    # The default for 5,000 nodes is 10 %: 50 % less 1 % for each 125 nodes (numFeasibleNodesToFind of kube-scheduler).
    # The rates of single turns differ by a tenth. With this number of rounds the interval of the mean ratio is a few percent wide.
    Share(percentage=0, names=500, pods=1_000, slow_pods=3, rounds=11),
    Share(percentage=100, names=5_000, pods=200, slow_pods=2, rounds=5),
)


@dataclass(frozen=True)
class Bindings:
    """The figures of one turn. ``cpu_ms``: the CPU time of the extender's whole process for each pod, in milliseconds."""

    pods_per_s: float
    cpu_ms: float


@dataclass(frozen=True)
class Summary:
    """The medians of some turns, and the pods per second of the slowest and of the fastest one."""

    pods_per_s: float
    slowest: float
    fastest: float
    cpu_ms: float


Rates = Mapping[int, Mapping[str, Sequence[Bindings]]]
"""The turns of each contender in the order of the rounds, by the number of names in a request."""


def measure() -> Rates:
    """Return all turns."""
    program = build(GO_EXTENDER)
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as temporary:
        folder = Path(temporary)
        cluster = Cluster.at(temporary, NAME)
        try:
            up(folder, NAME, scenario="big", log=print)
            for component in ("kube-scheduler", "kube-controller-manager", "kwok-controller"):
                cluster.kill(component)
            with stored_series(cluster, folder / "prometheus", node_names(NODES)) as prometheus:
                return _measure(cluster, prometheus.url, program, folder)
        finally:
            cluster.down()


def _measure(cluster: Cluster, prometheus: str, program: Path, folder: Path) -> Rates:
    fixture = Fixture(prometheus, str(cluster.kubeconfig))
    query = ["-prometheus", prometheus, "-device", DEVICE, "-parallelism", str(PARALLELISM)]
    contenders: dict[str, Callable[[], AbstractContextManager[Running | None]]] = {
        NONE: contextlib.nullcontext,
        GO: lambda: go_extender(program, folder / "go"),
        OWN: lambda: own_extender(folder / "own", [TRAFFIC], fixture, refresh_s=REFRESH_S),
        PER_NODE: lambda: go_extender(program, folder / "go", *query),
    }
    numbers = itertools.count(1)
    rates: dict[int, dict[str, list[Bindings]]] = {share.names: {name: [] for name in contenders} for share in SHARES}
    turns = ((share, number, name) for share in SHARES for number in range(share.rounds) for name in contenders)
    for share, number, name in turns:
        if name == PER_NODE and number:
            continue
        with contenders[name]() as running:
            pods = share.slow_pods if name == PER_NODE else share.pods
            found = _turn(cluster, folder / f"turn-{next(numbers)}", running, share.percentage, pods)
        rates[share.names][name].append(found)
        print(f"{share.names} names, round {number + 1} of {share.rounds}, {name}: {found}", file=sys.stderr, flush=True)
    return rates


def summary(turns: Sequence[Bindings]) -> Summary:
    """Return the medians of these turns."""
    rates = [turn.pods_per_s for turn in turns]
    return Summary(statistics.median(rates), min(rates), max(rates), statistics.median(turn.cpu_ms for turn in turns))


def paired_ratio(turns: Sequence[Bindings], others: Sequence[Bindings]) -> Estimate | None:
    """Return the mean of turns / others in pods per second, each divided by the turn of the same round. None if rounds are missing."""
    if len(turns) != len(others) or len(turns) < 2:
        return None
    return ratio([turn.pods_per_s for turn in turns], [turn.pods_per_s for turn in others])


def _turn(cluster: Cluster, folder: Path, running: Running | None, percentage: int, pods: int) -> Bindings:
    """Return the figures of one turn. Its first tenth does not count for the rate: the caches of the programs are empty then."""
    folder.mkdir()
    for number in range(pods):
        cluster.api.post(PODS, _pod(number, pods))
    version = cluster.get(f"{PODS}?limit=1")["metadata"]["resourceVersion"]
    began_s = running.cpu_s() if running else 0.0
    with second_scheduler(cluster, _configuration(running.address if running else "", percentage), folder) as scheduler:
        times_s = _binding_times(cluster, version, pods, scheduler)
    used_s = running.cpu_s() - began_s if running else 0.0
    cluster.api.delete(f"{PODS}?gracePeriodSeconds=0")
    wait_until(lambda: not cluster.get(f"{PODS}?limit=1")["items"], what="the end of the turn's pods")
    first = pods // 10
    return Bindings((pods - 1 - first) / (times_s[-1] - times_s[first]), used_s / pods * 1e3)


def _configuration(address: str, percentage: int) -> dict[str, Any]:
    configuration = render("extender", url=f"http://{address}", scheduler_name=PROFILE)
    if address:
        configuration["extenders"][0] |= {"prioritizeVerb": "prioritize", "weight": 1, "httpTimeout": f"{REQUEST_TIMEOUT_S}s"}
    else:
        del configuration["extenders"]
    return configuration | {"percentageOfNodesToScore": percentage}


def _binding_times(cluster: Cluster, version: str, pods: int, scheduler: SecondScheduler) -> list[float]:
    """Return when each pod was bound, in the order of the bindings."""
    bound: dict[str, float] = {}
    deadline_s = time.monotonic() + BOUND_WITHIN_S
    # The API server ends a watch whose client reads too slowly, which happens on busy cores.
    while time.monotonic() < deadline_s:
        for event in cluster.api.watch(f"{PODS}?resourceVersion={version}&timeoutSeconds={BOUND_WITHIN_S}"):
            pod = event["object"]
            if event["type"] == "ERROR":
                raise SystemExit(f"the watch of pods ended: {pod.get('message')}")
            version = pod["metadata"]["resourceVersion"]
            if pod["spec"].get("nodeName"):
                bound.setdefault(pod["metadata"]["uid"], time.monotonic())
            if len(bound) == pods:
                return list(bound.values())
    raise SystemExit(f"{pods - len(bound)} of {pods} pods are not bound after {BOUND_WITHIN_S} s: {scheduler.log[-3000:]}")


def _pod(number: int, pods: int) -> Json:
    """Return a new pod. Pods of the same demand follow each other, as those of a Deployment do."""
    template = request_bodies.pod(number * request_bodies.DEMANDS // pods)
    metadata = {"name": f"bound-{number}", "labels": template["metadata"]["labels"]}
    spec = {key: value for key, value in template["spec"].items() if key not in ("priority", "preemptionPolicy")}
    return {"metadata": metadata, "spec": spec}
