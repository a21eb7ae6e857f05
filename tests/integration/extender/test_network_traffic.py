# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods are bound to nodes with little traffic: real kube-scheduler, real extender, real Prometheus, simulated node_exporters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.second_scheduler import SecondScheduler
from tests.integration.conftest import SUMMARY
from tests.integration.extender.conftest import StartExtender, StartScheduler
from tests.integration.extender.extender_process import Extender
from tests.integration.extender.traffic import BUSY, PROFILE, SPEED, WINDOW_S, Traffic, settings
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.workloads import wait_until

OTHER_PROFILE = "no-policy"
FOLLOWS_WITHIN_S = 30.0
BANDWIDTH = "kubernetes.io/ingress-bandwidth"


@pytest.fixture(scope="module")
def extender(start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path) -> Extender:
    return start_extender(settings(traffic, str(extender_kubeconfig)))


@pytest.fixture(scope="module", autouse=True)
def scheduler(start_scheduler: StartScheduler, extender: Extender) -> SecondScheduler:
    return start_scheduler(extender, profiles=(PROFILE, OTHER_PROFILE), prioritizeVerb="prioritize", weight=10)


def test_pods_are_bound_to_the_quiet_node(traffic: Traffic, extender: Extender, pods: WaitingPods) -> None:
    quiet = traffic.workers[3]
    traffic.settle(extender, quiet)
    assert pods.bind(10, PROFILE) == [quiet] * 10


def test_pods_follow_when_the_traffic_moves(
    traffic: Traffic, extender: Extender, pods: WaitingPods, record_property: Callable[[str, object], None]
) -> None:
    first, second = traffic.workers[:2]
    traffic.settle(extender, first)
    assert pods.bind(2, PROFILE) == [first] * 2
    traffic.set_quiet(second)
    moved_s = time.monotonic()
    wait_until(lambda: pods.bind(1, PROFILE) == [second], timeout_s=FOLLOWS_WITHIN_S, what="a pod on the node that is quiet now")
    seconds = time.monotonic() - moved_s
    traffic.wait_best(extender, second)
    assert pods.bind(6, PROFILE) == [second] * 6
    record_property(SUMMARY, f"extender: pods follow the traffic after {seconds:.1f} s with a window of {WINDOW_S} s")


def test_event_and_explanation_name_the_profile_and_the_scores(traffic: Traffic, extender: Extender, pods: WaitingPods) -> None:
    quiet, busy = traffic.workers[2], traffic.workers[0]
    traffic.settle(extender, quiet)
    name = pods.create(PROFILE)
    assert pods.wait_bound(name) == quiet
    assert pods.scheduled_by(name) == PROFILE
    explanation = extender.explain(pods.namespace, name)
    assert explanation["profile"] == PROFILE and not explanation["neutral"]
    rows = {row["node"]: row for row in explanation["nodes"]}
    (judgement,) = rows[busy]["agents"]
    assert judgement["agent"] == "network_traffic" and 0 <= judgement["age_s"] < 6
    assert judgement["value"] == pytest.approx(8 * BUSY, rel=0.15) and judgement["unit"] == "bit/s"
    assert rows[quiet]["score"] > rows[busy]["score"] and rows[busy]["points"] == 10 * rows[busy]["score"]
    status, page = extender.get(f"/explain?pod={pods.namespace}/{name}&format=html")
    assert status == 200 and PROFILE in page and quiet in page


def test_pods_of_another_profile_are_not_moved(traffic: Traffic, extender: Extender, pods: WaitingPods) -> None:
    quiet = traffic.workers[5]
    traffic.settle(extender, quiet)
    assert len(set(extender.scores(traffic.workers, OTHER_PROFILE).values())) == 1
    assert len(set(pods.bind(12, OTHER_PROFILE))) > 1


def test_a_node_without_exporter_is_neither_best_nor_worst(traffic: Traffic, extender: Extender) -> None:
    quiet, missing, busy, busiest = traffic.workers[:4]
    traffic.set_quiet(quiet)
    for name in (missing, busiest):
        traffic.set(name, 0.95 * SPEED)

    def scores() -> tuple[int, int, int]:
        found = extender.scores(traffic.workers, PROFILE)
        return found[missing], found[busy], found[quiet]

    wait_until(lambda: scores()[0] <= 1 and scores()[2] == 10, what="the worst score")
    traffic.remove(missing)
    try:
        # The median is the score of the other workers.
        wait_until(lambda: abs(scores()[0] - scores()[1]) <= 1 and scores()[0] > 1, what="the score of the median")
        assert scores()[0] < scores()[2]
    finally:
        traffic.set_quiet(*traffic.workers)


def test_a_burst_of_pods_does_not_go_to_one_node(
    start_extender: StartExtender,
    start_scheduler: StartScheduler,
    traffic: Traffic,
    extender_kubeconfig: Path,
    pods: WaitingPods,
) -> None:
    """Prometheus is read once in this test, so that only the pods' declared bandwidth can tell that they need the node's link."""
    quiet = traffic.workers[:2]
    traffic.set_quiet(*quiet)
    traffic.set(quiet[1], 0.1 * SPEED)
    wait_until(lambda: is_about(traffic.rate(quiet[0]), 0), what="no traffic")
    wait_until(lambda: is_about(traffic.rate(quiet[1]), 0.1 * SPEED), what="some traffic")
    wait_until(lambda: is_about(traffic.rate(traffic.workers[5]), BUSY), what="much traffic")
    slow = settings(traffic, str(extender_kubeconfig), refresh_s=60)
    slow["profiles"] = {"burst": slow["profiles"][PROFILE]}
    slow["profiles"]["burst"]["agents"][0]["args"]["max_age_s"] = 120
    extender = start_extender(slow)
    start_scheduler(extender, profiles=("burst",), prioritizeVerb="prioritize", weight=10)
    wait_until(lambda: extender.scores(traffic.workers, "burst")[quiet[0]] == 10, what="a best node")
    found = Counter(pods.bind(8, "burst", **{BANDWIDTH: "1G"}))
    # The first node has 0 and the second 1 Gbit/s at first; each pod adds 1 Gbit/s, and all others have 6 Gbit/s.
    assert set(found) == set(quiet) and 3 <= found[quiet[0]] <= 6, found


def is_about(rate: float | None, wanted: float) -> bool:
    """Return whether a measured rate is near the one that was set."""
    return rate is not None and abs(rate - wanted) < 0.03 * SPEED
