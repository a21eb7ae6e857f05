# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler's preemption, the rescuer without it, and both, on clusters that are filled alike."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from tests.bench.rescue.clusters import cluster_of, fill, names_of, workers
from tests.bench.rescue.crowd import Crowd
from tests.bench.rescue.history import PodHistory
from tests.bench.rescue.latency import wait_leading
from tests.bench.rescue.situations import LABEL, NODES, SITUATIONS, Situation
from tests.integration.rescuer.daemons import AGENT, Daemon

Json = dict[str, Any]

WAYS = {"scheduler": ("standard", False), "rescuer": ("budget_safe", True), "both": ("standard", True)}
"""By name the variant of the cluster, and whether the rescuer runs."""
PODS, DAEMON_SETS = "/api/v1/namespaces/kube-system/pods", "/apis/apps/v1/namespaces/kube-system/daemonsets"
HOPELESS_AFTER_S = 5.0
"""A pod that the scheduler has not nominated by then gets no node by itself."""
TIMEOUT_S = 30.0
SETTLED_S = 1.0


def measure(folder: Path) -> dict[str, list[Json]]:
    """By way, for each situation in turn: ``seconds`` from creation to bound or None, ``victims``, ``violated`` budgets."""
    return {way: _measure_way(variant, with_rescuer, folder / f"{way}.log") for way, (variant, with_rescuer) in WAYS.items()}


def _measure_way(variant: str, with_rescuer: bool, log: Path) -> list[Json]:
    groups = [workers(NODES, **{LABEL: situation.key}) for situation in SITUATIONS]
    nodes = {situation.key: names_of(group) for situation, group in zip(SITUATIONS, groups, strict=True)}
    crowds = {situation.key: situation.fill(nodes[situation.key]) for situation in SITUATIONS}
    found: list[Json] = []
    with cluster_of(groups, variant=variant) as cluster:
        fill(cluster, [crowd for filled in crowds.values() for crowd in filled])
        history = PodHistory(cluster)
        for flags, situations in itertools.groupby(SITUATIONS, lambda situation: situation.flags):
            with _rescuer(cluster, log, flags, wanted=with_rescuer) as daemon:
                found += [_try(cluster, history, each, nodes[each.key], crowds[each.key], daemon) for each in situations]
    return found


@contextlib.contextmanager
def _rescuer(cluster: Cluster, log: Path, flags: Sequence[str], *, wanted: bool) -> Iterator[Daemon | None]:
    if not wanted:
        yield None
        return
    daemon = Daemon(cluster, log, "--settle-time=2s", *flags)
    try:
        wait_leading(daemon)
        yield daemon
    finally:
        daemon.stop()


def _try(
    cluster: Cluster, history: PodHistory, situation: Situation, nodes: Sequence[str], crowds: Sequence[Crowd], daemon: Daemon | None
) -> Json:
    mark, began_at_s = cluster.audit().mark(), time.monotonic()
    path = DAEMON_SETS if situation.daemon_set else PODS
    cluster.api.post(path, situation.manifest(nodes))
    bound_at_s = _bound_at_s(history, situation.name, daemon)
    time.sleep(SETTLED_S)
    gone = _evicted(cluster, mark, situation.key)
    seen = {life.name for life in history.leaving_since(began_at_s) if life.namespace == situation.key}
    if seen != set(gone):
        raise SystemExit(f"{situation.key}: the audit log shows that {gone} had to go, the watch {sorted(seen)}")
    cluster.api.request("DELETE", f"{path}/{situation.name}", {"gracePeriodSeconds": 0})
    return {
        "situation": situation.title,
        "seconds": None if bound_at_s is None else bound_at_s - began_at_s,
        "victims": len(gone),
        "violated": _violated(crowds, gone),
    }


def _bound_at_s(history: PodHistory, name: str, daemon: Daemon | None) -> float | None:
    """Return the time at which the pod was bound, or None if it cannot be bound."""
    began_at_s = time.monotonic()
    while (waited_s := time.monotonic() - began_at_s) < TIMEOUT_S:
        if history.wait(lambda: history.has(name, "bound"), timeout_s=0.5):
            life = history.labelled(name)
            assert life is not None
            return life.seen["bound"]
        if waited_s > HOPELESS_AFTER_S and _is_hopeless(history, name, daemon):
            return None
    return None


def _is_hopeless(history: PodHistory, name: str, daemon: Daemon | None) -> bool:
    """Return whether the rescuer reports that a rescue is impossible, or, without a rescuer, the scheduler has not nominated the pod."""
    life = history.labelled(name)
    if life is None or daemon is None:
        return life is not None and "nominated" not in life.seen
    judged = daemon.said("pod planned", pod=f"kube-system/{life.name}")
    return bool(judged) and judged[-1]["status"] == "impossible"


def _evicted(cluster: Cluster, mark: int, namespace: str) -> list[str]:
    """The pods that scheduler or rescuer made go, by the API server's audit log."""
    audit = cluster.audit()
    deleted = audit.events(since=mark, user_agent="kube-scheduler/", verb="delete", resource="pods")
    asked = audit.events(since=mark, user_agent=AGENT, verb="create", resource="pods")
    granted = [event for event in asked if event.subresource == "eviction" and event.code == 201 and "dryRun" not in event.path]
    return [event.name for event in (*deleted, *granted) if event.namespace == namespace and event.code < 300]


def _violated(crowds: Sequence[Crowd], gone: Sequence[str]) -> int:
    """The budgets of which more pods had to go than they allow."""
    allowed = {owner.name: owner.allowed for crowd in crowds for owner in crowd.sets()}
    went = Counter(name.rpartition("-")[0] for name in gone)
    return sum(count > most for app, count in went.items() if (most := allowed[app]) is not None)
