# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the scheduler's word Unschedulable until the pod is bound, one critical pod after the other, by the rescuer as its own process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions

from lab.cluster import Cluster
from tests.bench.rescue.crowd import critical_pod
from tests.bench.rescue.history import Life, PodHistory
from tests.integration.rescuer.daemons import Daemon

NEEDS = ("500m", "1200m", "2500m", "3500m", "5000m")
"""The requests of the critical pods, in turn: the larger ones need several victims."""
DEFAULT_SETTLE_TIME = f"--settle-time={RescueOptions().settle_time_s}s"
"""Daemon sets it to 0 for tests."""
BOUND_TIMEOUT_S = 60.0
REFILL_TIMEOUT_S = 60.0
FULL_FOR_S = 0.3


@dataclass(frozen=True)
class Sample:
    """One rescue; seconds between arrivals of the watch's events.

    ``total``: from Unschedulable to bound. ``before``: from Unschedulable until the last victim was seen to be evicted. ``ending``: from
    then until the last had ended. ``after``: from then until the pod was bound.
    """

    grace: int
    victims: int
    total: float
    before: float
    ending: float
    after: float

    @property
    def beyond(self) -> float:
        """Beyond the victims' grace period. Where the lab ends them earlier, what they took counts instead: it would be too good."""
        return self.total - min(float(self.grace), self.ending)

    @property
    def late(self) -> float:
        """By how much the lab has ended the victims too late (or, negative, too early)."""
        return self.ending - self.grace


def measure(cluster: Cluster, log: Path, *, graces: tuple[int, ...], samples: int) -> list[Sample]:
    """``samples`` rescues at each grace period, after one that does not count.

    The pods have the longest of the grace periods, so that the rescuer has only defaults for that one.
    """
    found: list[Sample] = []
    history = PodHistory(cluster)
    for grace in graces:
        flags = () if grace == max(graces) else (f"--grace-period={grace}s", "--allow-short-grace=true")
        daemon = Daemon(cluster, log, DEFAULT_SETTLE_TIME, *flags)
        try:
            wait_leading(daemon)
            for number in range(samples + 1):
                sample = _sample(cluster, history, f"critical-{grace}-{number}", NEEDS[number % len(NEEDS)], grace, daemon)
                found += [sample] if number else []
            print(f"grace {grace} s: {samples} rescues", flush=True)
        finally:
            daemon.stop()
    return found


def _sample(cluster: Cluster, history: PodHistory, name: str, cpu: str, grace: int, daemon: Daemon) -> Sample:
    # A fraction of a second by chance: what the API keeps has whole seconds, and shall not always be cut by the same.
    time.sleep(FULL_FOR_S + random.Random(name).random())
    began_at_s = time.monotonic()
    cluster.api.post("/api/v1/namespaces/kube-system/pods", critical_pod(name, cpu=cpu))
    _need(history, lambda: history.has(name, "bound"), BOUND_TIMEOUT_S, f"{name} is not bound: {daemon.log.read_text()[-2000:]}")
    life, victims = history.labelled(name), history.leaving_since(began_at_s)
    assert life is not None
    if not victims or "unschedulable" not in life.seen:
        raise SystemExit(f"{name} was bound without a rescue")
    _need(history, lambda: all("ended" in victim.seen for victim in victims), BOUND_TIMEOUT_S, "victims have not ended")
    cluster.api.request("DELETE", f"/api/v1/namespaces/kube-system/pods/{name}", {"gracePeriodSeconds": 0})
    _need(history, history.all_placed, REFILL_TIMEOUT_S, "the victims' successors are not placed")
    return _sample_of(life, victims, grace)


def _sample_of(life: Life, victims: list[Life], grace: int) -> Sample:
    told, bound = life.seen["unschedulable"], life.seen["bound"]
    evicted = max(victim.seen["leaving"] for victim in victims)
    ended = max(victim.seen["ended"] for victim in victims)
    return Sample(grace, len(victims), bound - told, evicted - told, ended - evicted, bound - ended)


def _need(history: PodHistory, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    if not history.wait(condition, timeout_s=timeout_s):
        raise SystemExit(f"{what} after {timeout_s:.0f} s")


def wait_leading(daemon: Daemon) -> None:
    """Until it has taken the Lease."""
    daemon.wait_ready(60)
    deadline_s = time.monotonic() + 60
    while not daemon.leads:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"the rescuer does not lead: {daemon.log.read_text()[-2000:]}")
        time.sleep(0.1)
