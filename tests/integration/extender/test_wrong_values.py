# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of Prometheus that are no numbers, that are there twice, or whose times are wrong: real Prometheus and kube-scheduler."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.node_exporter import DeviceSettings, NodeSettings
from tests.integration.extender.conftest import StartExtender, StartScheduler
from tests.integration.extender.extender_process import Extender
from tests.integration.extender.traffic import BUSY, DEVICE, PROFILE, SECOND_JOB, SPEED, Traffic, running_traffic, second_exporter, settings
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.workloads import wait_until

Json = dict[str, Any]

LONG_WINDOW = "long-window"
STEADY_S = 3.0
HOUR_S = 3600.0
BEHIND_S = 30.0


@pytest.fixture(scope="module")
def traffic(lab_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    """The traffic of the workers, whose node_exporters can be scraped twice."""
    with running_traffic(lab_cluster, tmp_path_factory.mktemp("prometheus"), scraped_twice=True) as running:
        yield running


@pytest.fixture(scope="module")
def extender(start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path) -> Extender:
    made = settings(traffic, str(extender_kubeconfig))
    agent = made["profiles"][PROFILE]["agents"][0]
    made["profiles"][LONG_WINDOW] = {"agents": [{**agent, "args": {**agent["args"], "window": 60}}]}
    return start_extender(made)


@pytest.fixture(scope="module", autouse=True)
def scheduler(start_scheduler: StartScheduler, extender: Extender) -> None:
    start_scheduler(extender, prioritizeVerb="prioritize", weight=10)


@pytest.fixture
def quiet(traffic: Traffic, extender: Extender) -> Iterator[str]:
    """The only worker without traffic. At the end all counters begin again, because a counter that is NaN stays NaN."""
    name = traffic.workers[1]
    traffic.settle(extender, name)
    yield name
    for node in traffic.workers:
        for exporter in (node, second_exporter(node)):
            traffic.remove(exporter)
    traffic.settle(extender, name)


def load(receive: float, *, device: str = DEVICE, speed: float = SPEED, **more: Any) -> NodeSettings:
    return NodeSettings({device: DeviceSettings(receive=receive, speed=speed)}, **more)


def judgement(extender: Extender, node: str, profile: str = PROFILE) -> Json:
    """Return the judgement of the only agent on a node."""
    rows = next(rows for rows in extender.status()["profiles"] if rows["profile"] == profile)
    found: Json = next(row["agents"][0] for row in rows["nodes"] if row["node"] == node)
    return found


# --- NaN ------------------------------------------------------------------------------------------------------------------


def test_a_value_that_is_no_number_is_unknown(extender: Extender, traffic: Traffic, pods: WaitingPods, quiet: str) -> None:
    broken, without_speed, busy = traffic.workers[2], traffic.workers[3], traffic.workers[4]
    traffic.set_load(broken, load(math.nan))
    traffic.set_load(without_speed, load(BUSY, speed=math.nan))
    wait_until(lambda: judgement(extender, broken)["value"] is None, what="an unknown value")
    # A rate over a short window differs by more if Prometheus scrapes late on a busy machine.
    wait_until(lambda: is_about(judgement(extender, without_speed)["value"], BUSY), what="a rate without a known speed")
    assert traffic.rate(broken) is None or math.isnan(traffic.rate(broken) or 0.0)

    def are_about_equal() -> bool:
        scores = extender.scores(traffic.workers, PROFILE)
        return max(abs(scores[name] - scores[busy]) for name in (broken, without_speed)) <= 1 and scores[quiet] == 10

    # The median is the score of the busy nodes. Rates over a short window differ a little from one refresh to the next.
    wait_until(are_about_equal, what="the score of the median")
    assert pods.bind(3, PROFILE) == [quiet] * 3


# --- two series of a node -------------------------------------------------------------------------------------------------


def test_a_node_that_is_scraped_twice_counts_once(extender: Extender, traffic: Traffic, pods: WaitingPods, quiet: str) -> None:
    for name in traffic.workers:
        traffic.set_load(second_exporter(name), load(0.0 if name == quiet else BUSY))
    wait_until(lambda: extender.status()["unmapped_series"] >= len(traffic.workers), what="the second series of each node")
    reasons = unmapped_reasons(extender)
    assert reasons and all("measures the same" in reason for reason in reasons)
    traffic.wait_best(extender, quiet)
    for name in traffic.workers:
        wait_until(
            lambda name=name: is_about(judgement(extender, name)["value"], 0.0 if name == quiet else BUSY), what=f"one rate of {name}"
        )
    assert pods.bind(3, PROFILE) == [quiet] * 3


def test_of_two_series_that_differ_always_the_same_one_counts(extender: Extender, traffic: Traffic, quiet: str) -> None:
    traffic.set_load(second_exporter(quiet), load(BUSY))
    wait_until(lambda: extender.status()["unmapped_series"] > 0, what="the second series")
    end_s = time.monotonic() + STEADY_S
    while time.monotonic() < end_s:
        assert is_about(judgement(extender, quiet)["value"], 0.0)
        time.sleep(0.2)


def test_the_second_series_counts_if_the_first_is_no_number(extender: Extender, traffic: Traffic, quiet: str) -> None:
    traffic.set_load(second_exporter(quiet), load(0.5 * BUSY))
    traffic.set_load(quiet, load(math.nan))
    wait_until(lambda: is_about(judgement(extender, quiet)["value"], 0.5 * BUSY), what="the rate of the second series")


def unmapped_reasons(extender: Extender) -> list[str]:
    """Return the reasons on the status page for which series are not used."""
    _status, page = extender.get("/status?format=html")
    return [line for line in page.split("<tr>") if f"job={SECOND_JOB}" in line]


# --- clocks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
def test_the_clock_of_the_extender_does_not_matter(
    start_extender: StartExtender, start_scheduler: StartScheduler, traffic: Traffic, extender_kubeconfig: Path, pods: WaitingPods,
    quiet: str, ahead_s: float,
) -> None:  # fmt: skip
    """Its clock is an hour ahead of Prometheus and of the API server, or behind."""
    made = settings(traffic, str(extender_kubeconfig))
    name = f"clock-{ahead_s:+.0f}".replace("+", "plus")
    extender = start_extender({**made, "profiles": {name: made["profiles"][PROFILE]}}, clock_ahead_s=ahead_s)
    logged = datetime.fromisoformat(extender.lines[-1]["time"]).timestamp()
    assert abs(logged - time.time() - ahead_s) < 600
    start_scheduler(extender, profiles=(name,), prioritizeVerb="prioritize", weight=10)
    wait_until(lambda: extender.scores(traffic.workers, name)[quiet] == 10, what="the best score")
    for node in traffic.workers:
        found = judgement(extender, node, name)
        assert found["value"] is not None and 0 <= found["age_s"] < 6, found
    assert pods.bind(3, name) == [quiet] * 3


def test_the_clock_of_an_exporter_makes_its_values_old(extender: Extender, traffic: Traffic, quiet: str) -> None:
    """Prometheus keeps the times of samples that have one. The values of a machine whose clock is behind are old, and become unknown."""
    wrong = traffic.workers[2]
    traffic.remove(wrong)
    wait_until(lambda: judgement(extender, wrong)["value"] is None, what="no value")
    # Prometheus takes no sample that is older than the last one of its series, so this is a new series.
    traffic.set_load(wrong, load(0.0, device="eth1", behind_s=BEHIND_S))
    wait_until(lambda: (judgement(extender, wrong, LONG_WINDOW)["age_s"] or 0) >= BEHIND_S - 1, timeout_s=20, what="an old value")
    found = judgement(extender, wrong, LONG_WINDOW)
    assert found["score"] is None and "s old" in found["explanation"]
    assert extender.scores(traffic.workers, PROFILE)[wrong] < 10


def is_about(rate: float | None, wanted: float) -> bool:
    """Return whether a shown rate in bits is near the one that was set in bytes."""
    return rate is not None and abs(rate / 8 - wanted) < 0.05 * SPEED
