# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs from machines whose clocks are two hours apart: what is remembered in the cluster goes by the API server's clock."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_restart
from tests.integration.modules.module_process import COLLECTIONS, Modules, result_of
from tests.integration.workloads import deployment, filler, identity, known_outcome, pile_up, restarted_at, workers

HOUR_S = 3600
HALF_AN_HOUR_S = 1800
WINDOW = "kube-scheduling.onprem/window"

# Python imports this first of all; what asks for the time afterwards is told another one.
SHIFTED_CLOCK = """
import datetime, time

SHIFT_S = {shift_s}

def shifted(function, shift):
    return lambda: function() + shift

time.time, time.time_ns = shifted(time.time, SHIFT_S), shifted(time.time_ns, SHIFT_S * 10**9)

class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return cls.now(datetime.timezone.utc).replace(tzinfo=None)

datetime.datetime = Shifted
"""


class Machine:
    """Runs modules with its own idea of the time."""

    def __init__(self, modules: Modules, folder: Path, shift_s: int) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(SHIFTED_CLOCK.format(shift_s=shift_s))
        self._modules = modules
        self.env = {"PYTHONPATH": f"{folder}{os.pathsep}{COLLECTIONS}"}

    def restart(self, web: dict[str, Any], **params: Any) -> dict[str, Any]:
        line: dict[str, Any] = self._modules.restart(env=self.env, **identity(web), **params)["workloads"][0]
        return line


Machines = tuple[Machine, Machine]


@pytest.fixture
def ahead_and_behind(modules: Modules, tmp_path: Path) -> Machines:
    return Machine(modules, tmp_path / "ahead", HOUR_S), Machine(modules, tmp_path / "behind", -HOUR_S)


def seconds_ago(moment: str) -> float:
    return time.time() - datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()


def test_back_off_and_cooldown_are_kept_and_end(cluster: Cluster, namespace: str, ahead_and_behind: Machines) -> None:
    ahead, behind = ahead_and_behind
    home, *others = workers(cluster)
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=home)
    cluster.apply([filler(namespace, node) for node in others])
    # The first restarts without effect, the second keeps the cooldown, which is shorter than the difference of the clocks. Then vice versa.
    for first, second, params in ((ahead, behind, {"only_if_helps": False}), (behind, ahead, {"cooldown": 1})):
        line = first.restart(web, **params)
        assert line["outcome"] == "unchanged", line
        remembered = known_outcome(cluster, web)["time"]
        assert -HALF_AN_HOUR_S < seconds_ago(remembered) < HALF_AN_HOUR_S and remembered == restarted_at(cluster, web)
        refused = second.restart(web, cooldown=HALF_AN_HOUR_S)
        assert (refused["action"], refused["reason"]) == ("refused", "cooldown"), refused
        left_s = int(refused["message"].partition("next attempt in ")[2].partition(" s")[0])
        assert left_s <= waiting_s(cluster, web) and left_s > waiting_s(cluster, web) - HALF_AN_HOUR_S
        time.sleep(max(0.0, 2 - seconds_ago(remembered)))  # a second of cooldown, and the moments are whole seconds
    assert known_outcome(cluster, web)["attempts"] == 2, "the other one's attempt counts"


def waiting_s(cluster: Cluster, web: dict[str, Any]) -> int:
    """Seconds between the last restart and the next one, doubled by each attempt without effect."""
    return HALF_AN_HOUR_S * int(known_outcome(cluster, web)["attempts"])


def window(begin_s: int, end_s: int) -> str:
    """The window between two moments, which are given in seconds from now."""
    begin, end = (time.strftime("%H:%M", time.gmtime(time.time() + at_s)) for at_s in (begin_s, end_s))
    return f"Mon-Sun {begin}-{end} UTC"


def test_the_clock_of_a_machine_opens_and_closes_no_window(cluster: Cluster, namespace: str, ahead_and_behind: Machines) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    # An hour ahead, or an hour ago: the clock of one machine is in the middle of the window.
    for machine, middle_s in zip(ahead_and_behind, (HOUR_S, -HOUR_S), strict=True):
        text = window(middle_s - HALF_AN_HOUR_S, middle_s + HALF_AN_HOUR_S)
        cluster.kubectl("annotate", "deployment/web", "-n", namespace, "--overwrite", f"{WINDOW}={text}")
        line = machine.restart(web)
        assert (line["action"], line["reason"]) == ("refused", "outside_window"), line
    text = window(-HALF_AN_HOUR_S, HALF_AN_HOUR_S)
    cluster.kubectl("annotate", "deployment/web", "-n", namespace, "--overwrite", f"{WINDOW}={text}")
    line = ahead_and_behind[0].restart(web)
    assert (line["action"], line["outcome"]) == ("restarted", "improved"), line


def test_an_eviction_of_the_one_is_finished_by_the_other(cluster: Cluster, namespace: str, ahead_and_behind: Machines) -> None:
    first, second = ahead_and_behind
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    begun = first.restart(web, strategy="evict_surplus", wait=False)
    assert (begun["action"], begun["outcome"]) == ("evicted", "pending"), begun
    line = second.restart(web, strategy="evict_surplus", wait_timeout=200)
    assert (line["action"], line["outcome"]) == ("skipped", "improved"), line
    assert line["duration"] < 100, "it did not wait for the other clock"


def test_two_restarts_at_the_same_time_are_one(cluster: Cluster, modules: Modules, namespace: str, ahead_and_behind: Machines) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    first, both = threading.Event(), threading.Event()

    def meet(review: Review) -> None:
        if not is_restart(review):
            return
        if first.is_set():
            both.set()
        first.set()
        both.wait(25)  # the API server waits 30 seconds for a webhook

    with admission_webhook(cluster, "meet", namespace, meet):
        processes = [modules.start("k8s_rollout_restart", env=machine.env, workloads=[identity(web)]) for machine in ahead_and_behind]
        lines = [result_of(process)["workloads"][0] for process in processes]
    assert sorted((line["action"], line["outcome"]) for line in lines) == [("restarted", "improved"), ("skipped", "")], lines
    revisions = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    assert len(revisions) == 2, "the first revision and one restart"
    assert known_outcome(cluster, web)["outcome"] == "improved"
